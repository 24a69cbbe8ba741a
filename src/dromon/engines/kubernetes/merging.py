"""One object over another, as Kubernetes' strategic merge does it. Pure.

Mappings are merged, null takes a key away. Lists of things with names are merged by name, and an
item that says `$patch: delete` takes its namesake away; what has no name is replaced as a whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

# What the items of a list are told apart by.
NAMES = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "tasks": "name",
}
APPENDED = ("tolerations",)
# Their items say one of several things: another one replaces what was said.
ONE_OF = ("volumes", "env")
PATCH = "$patch"


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(below)
    for key, value in above.items():
        known = found.get(key)
        if value is None:
            found.pop(key, None)
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            found[key] = merged(known, value)
        elif isinstance(known, list) and isinstance(value, list):
            found[key] = _lists(key, known, value)
        else:
            found[key] = _bare(value)
    return found


def _lists(key: str, below: Sequence[Any], above: Sequence[Any]) -> list[Any]:
    if key in APPENDED:
        return [*below, *(item for item in above if item not in below)]
    name = NAMES.get(key)
    if name is None or not all(isinstance(item, Mapping) and name in item for item in above):
        return _bare(list(above))  # type: ignore[no-any-return]
    found = {item.get(name): item for item in below}
    for item in above:
        known = found.get(item[name])
        if item.get(PATCH) == "delete":
            found.pop(item[name], None)
        elif known is None or (key in ONE_OF and not set(item) <= set(known)):
            found[item[name]] = _bare(item)
        else:
            found[item[name]] = merged(known, item)
    return list(found.values())


def _bare(value: Any) -> Any:
    """What nothing was below: null and `$patch` have nothing to take away there."""
    if isinstance(value, Mapping):
        return {k: _bare(v) for k, v in value.items() if v is not None and k != PATCH}
    if isinstance(value, list):
        gone = [v for v in value if isinstance(v, Mapping) and v.get(PATCH) == "delete"]
        return [_bare(v) for v in value if v not in gone]
    return value
