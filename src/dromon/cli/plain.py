"""Values to JSON on stdout, for programs. Nothing for people here."""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def plain(value: Any) -> Any:
    """`value` as dicts, lists and scalars, whatever classes it is made of."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", None)
    if fields:
        return {name: plain(getattr(value, name)) for name in fields}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    return str(value)


def print_json(value: Any) -> None:
    text = json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n"
    sys.stdout.write(text.encode("utf-8", "replace").decode())  # a stray byte is no reason to fail


def print_json_line(value: Any) -> None:
    sys.stdout.write(json.dumps(plain(value)) + "\n")
