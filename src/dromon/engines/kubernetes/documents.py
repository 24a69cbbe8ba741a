"""Kubernetes objects as YAML that `kubectl` reads: the same objects, the same bytes. Pure.

kubectl reads YAML 1.1, in which `on` and `0o7` are no texts. So every text that is not plainly one
is quoted, as JSON quotes it; long texts of several lines stand as they are.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+-]*")
_WORDS = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity")
)
# Characters that YAML has no place for, or that end a line for it. JSON quotes those below a blank.
_ODD = "\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff"
_UNPRINTABLE = re.compile(f"[{_ODD}]")
_BLOCK = re.compile(f"[^\x00- {_ODD}](?:\n|[^\x00-\x1f{_ODD}])*")


def settled(one: Mapping[str, Any]) -> dict[str, Any]:
    """Plain mappings and lists, keys in order."""
    return {key: _settled(one[key]) for key in sorted(one)}


def _settled(value: Any) -> Any:
    if isinstance(value, Mapping):
        return settled(value)
    if isinstance(value, (list, tuple)):
        return [_settled(item) for item in value]
    return value


def to_yaml(objects: Sequence[Mapping[str, Any]]) -> str:
    """One document for each object."""
    lines: list[str] = []
    for one in objects:
        lines.append("---")
        _mapping(settled(one), 0, lines)
    return "\n".join(lines) + "\n"


def _mapping(data: Mapping[str, Any], depth: int, lines: list[str], first: str = "") -> None:
    """`first` begins the first line: the dash of the list it is in."""
    for key, value in data.items():
        start = (first or "  " * depth) + _text(key) + ":"
        first = ""
        _value(start, value, depth, lines)


def _value(start: str, value: Any, depth: int, lines: list[str]) -> None:
    if isinstance(value, Mapping) and value:
        lines.append(start)
        _mapping(value, depth + 1, lines)
    elif isinstance(value, list) and value:
        lines.append(start)
        _list(value, depth, lines)
    elif isinstance(value, str) and "\n" in value and _is_block(value):
        lines.append(start + (" |" if value.endswith("\n") else " |-"))
        text = value.removesuffix("\n").split("\n")
        lines.extend("  " * (depth + 1) + line if line else "" for line in text)
    else:
        lines.append(f"{start} {_scalar(value)}")


def _list(items: Sequence[Any], depth: int, lines: list[str]) -> None:
    for item in items:
        dash = "  " * depth + "-"
        if isinstance(item, Mapping) and item:
            _mapping(item, depth + 1, lines, f"{dash} ")
        elif isinstance(item, list) and item:
            lines.append(dash)
            _list(item, depth + 1, lines)
        else:
            lines.append(f"{dash} {_scalar(item)}")


def _is_block(text: str) -> bool:
    """Whether it reads the same between indents; blank ends would not."""
    return (
        _BLOCK.fullmatch(text) is not None
        and not text.endswith("\n\n")
        and all(line.strip(" ") or not line for line in text.split("\n"))
    )


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        text = repr(value)
        mantissa, e, exponent = text.partition("e")  # YAML 1.1 wants a point in it
        return text if "." in mantissa else f"{mantissa}.0{e}{exponent}"
    return json.dumps(value)  # numbers, truth, null and what is empty


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)
