"""What daemons and the arbiter tell each other, to and from plain JSON. No sockets.

Values of `sched` travel by their fields. What comes back from the other side is only taken in the
very shape its type has: nothing is converted, no number is negative, endless or not a number, and
nothing is longer than a machine could need.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")
TEXT = 4000  # characters of a name or a sentence
ITEMS = 10_000  # members of a gang, or anything else that is counted
LARGEST = float(1 << 62)
SIGNED = ("priority",)  # fields that may be below zero


class Misspoken(ValueError):
    """The other side does not speak as we do."""


def plain(value: Any) -> Any:
    """A value of `sched` as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list, frozenset, set)):
        return [plain(each) for each in value]
    return value


def value(kind: type[T], data: Any) -> T:
    """The value of this type that `data` says, or Misspoken."""
    return cast(T, _value(kind, data, ""))


@cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """Of a dataclass: name -> its type, and whether it may be left out."""
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return {
        f.name: (hints[f.name], f.default is not missing or f.default_factory is not missing)
        for f in dataclasses.fields(kind)
    }


def _value(kind: Any, data: Any, name: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any or kind is None or kind is type(None):
        return _only(data is None or kind is Any, data, name)
    if origin in (types.UnionType, typing.Union):
        return _either(typing.get_args(kind), data, name)
    if dataclasses.is_dataclass(kind):
        return _made(cast(type, kind), data, name)
    if origin in (tuple, frozenset, list):
        return _several(origin, typing.get_args(kind)[0], data, name)
    if origin is not None and issubclass(origin, Mapping):
        _only(isinstance(data, dict) and len(data) <= ITEMS, data, name)
        inside = typing.get_args(kind)[1]
        return {_value(str, key, name): _value(inside, each, name) for key, each in data.items()}
    if kind is str:
        return _only(isinstance(data, str) and len(data) <= TEXT, data, name)
    if kind is bool:
        return _only(isinstance(data, bool), data, name)
    if kind in (int, float):
        return _number(kind, data, name)
    if kind is frozenset or kind is tuple:
        return _several(kind, str, data, name)
    raise Misspoken(f"{name}: nothing that can be told")


def _only(is_right: bool, data: Any, name: str) -> Any:
    if not is_right:
        raise Misspoken(f"{name}: {str(data)[:40]!r} is not what is expected there")
    return data


def _number(kind: type, data: Any, name: str) -> Any:
    right = isinstance(data, int) or (kind is float and isinstance(data, float))
    _only(right and not isinstance(data, bool), data, name)
    _only(math.isfinite(data) and abs(data) <= LARGEST, data, name)
    return _only(data >= 0 or name in SIGNED, data, name)


def _either(kinds: tuple[Any, ...], data: Any, name: str) -> Any:
    for kind in kinds:
        try:
            return _value(kind, data, name)
        except Misspoken:
            continue
    return _only(False, data, name)


def _several(origin: Any, inside: Any, data: Any, name: str) -> Any:
    _only(isinstance(data, list) and len(data) <= ITEMS, data, name)
    return origin(_value(inside, each, name) for each in data)


def _made(kind: type, data: Any, name: str) -> Any:
    _only(isinstance(data, dict), data, name)
    fields = _fields(kind)
    unknown = set(data) - set(fields)
    _only(not unknown, sorted(unknown), name)
    for field, (_, may_lack) in fields.items():
        _only(field in data or may_lack, None, field)
    return kind(**{field: _value(fields[field][0], each, field) for field, each in data.items()})
