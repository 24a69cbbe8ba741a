"""Objects as YAML for a repository: keys sorted, texts of several lines as they read."""

import io
from collections.abc import Iterable
from typing import Any


def to_yaml(objects: Iterable[Any]) -> str:
    """The documents one after the other; the same objects give the same bytes."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.explicit_start = True
    out = io.StringIO()
    for each in objects:
        yaml.dump(_sorted(each), out)
    return out.getvalue()


def _sorted(value: Any) -> Any:
    from ruamel.yaml.scalarstring import LiteralScalarString

    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if isinstance(value, str) and "\n" in value:
        return LiteralScalarString(value)
    return value
