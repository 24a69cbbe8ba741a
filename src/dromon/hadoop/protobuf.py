"""Messages as tables, to and from protobuf bytes. No generated code and no knowledge of Hadoop.

A message type is a ``Table`` of fields. What is sent is any mapping from field names to values;
what is read is a ``Record``: a dictionary that answers for an absent field what proto2 says
(its default, zero, an empty list, an empty message), while ``in`` and ``get`` tell presence.

1. Fields are written in the order of their numbers, as Java writes them.
2. Unknown fields, and known ones on the wrong wire type, are skipped, as Java does.
3. Enumerations are plain integers: a newer Hadoop may send values we have no name for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Union

from dromon.hadoop.faults import LocalProtocolError, RemoteProtocolError
from dromon.hadoop.wire import (
    FIXED32,
    LENGTH,
    VARINT,
    read_key,
    read_span,
    read_value,
    read_varint,
    varint,
)  # fmt: skip

DEPTH = 100  # how deep messages may nest; protobuf's own limit

_FLOAT = struct.Struct("<f")


class Scalar:
    """A kind of value that is not a message: its name, its wire type, its two directions."""

    def __init__(
        self,
        name: str,
        wire: int,
        zero: object,
        pack: Callable[[Any], Any],
        unpack: Callable[[Any], Any],
    ) -> None:
        self.name = name
        self.wire = wire
        self.zero = zero
        self.pack = pack
        self.unpack = unpack

    def __repr__(self) -> str:
        return self.name


Kind = Union[Scalar, "Table"]


class Field:
    """One line of a table. ``rule`` is "one", "many" or "need" (proto2's required)."""

    def __init__(self, number: int, name: str, kind: Kind, rule: str, default: object) -> None:
        self.number = number
        self.name = name
        self.kind = kind
        self.rule = rule
        self.default = default


def one(number: int, name: str, kind: Kind, default: object = None) -> Field:
    return Field(number, name, kind, "one", default)


def need(number: int, name: str, kind: Kind) -> Field:
    return Field(number, name, kind, "need", None)


def many(number: int, name: str, kind: Kind) -> Field:
    return Field(number, name, kind, "many", None)


class Table:
    """A message type: its name as Hadoop's .proto files have it, and its fields."""

    def __init__(self, name: str, *fields: Field) -> None:
        self.name = name
        self.fields: dict[str, Field] = {}
        self.numbers: dict[int, Field] = {}
        self.extend(*fields)

    def extend(self, *fields: Field) -> None:
        """More fields: how a message comes to hold messages of its own type."""
        everything = sorted([*self.fields.values(), *fields], key=lambda field: field.number)
        self.fields = {field.name: field for field in everything}
        self.numbers = {field.number: field for field in everything}
        self.needed = tuple(field.name for field in everything if field.rule == "need")

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Record(dict[str, Any]):
    """A message that was read. Absent fields answer their default; ``get`` and ``in`` see them."""

    __slots__ = ("table",)
    table: Table

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table

    def __missing__(self, name: str) -> Any:
        field = self.table.fields[name]  # a name that is no field is a KeyError, as it should be
        if field.rule == "many":
            return []
        if field.default is not None:
            return field.default
        return field.kind.zero if isinstance(field.kind, Scalar) else Record(field.kind)


# --- scalars -----------------------------------------------------------------------------------


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"not a number from {low} to {high}")
        return value & 0xFFFFFFFFFFFFFFFF  # negative numbers travel as 64 bits, whatever the field

    return check


def _signed(bits: int) -> Callable[[int], int]:
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    return lambda value: ((value & mask) ^ sign) - sign


def _unsigned(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda value: value & mask


def _zigzag(value: Any) -> int:
    number = INT32.unpack(INT32.pack(value))
    return int((number << 1) ^ (number >> 31)) & 0xFFFFFFFF


def _unzigzag(value: int) -> int:
    value &= 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1)


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("not text")
    return value.encode()


def _octets(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ValueError("not bytes")
    return bytes(value)


def _float(value: Any) -> bytes:
    return _FLOAT.pack(value)


INT32 = Scalar("int32", VARINT, 0, _whole(-(1 << 31), (1 << 31) - 1), _signed(32))
INT64 = Scalar("int64", VARINT, 0, _whole(-(1 << 63), (1 << 63) - 1), _signed(64))
UINT32 = Scalar("uint32", VARINT, 0, _whole(0, (1 << 32) - 1), _unsigned(32))
UINT64 = Scalar("uint64", VARINT, 0, _whole(0, (1 << 64) - 1), _unsigned(64))
SINT32 = Scalar("sint32", VARINT, 0, _zigzag, _unzigzag)
ENUM = Scalar("enum", VARINT, 0, INT32.pack, INT32.unpack)
BOOL = Scalar("bool", VARINT, False, lambda value: int(bool(value)), bool)
FLOAT = Scalar("float", FIXED32, 0.0, _float, lambda raw: _FLOAT.unpack(raw)[0])
# Java reads ill-formed UTF-8 with replacement characters, too: a message must not be lost to it.
STRING = Scalar("string", LENGTH, "", _text, lambda raw: raw.decode("utf-8", "replace"))
BYTES = Scalar("bytes", LENGTH, b"", _octets, bytes)


# --- writing -----------------------------------------------------------------------------------


def encode(table: Table, values: Mapping[str, Any]) -> bytes:
    """The message's bytes. A value of None is an absent field."""
    out = bytearray()
    _write(out, table, values, 0)
    return bytes(out)


def delimited(table: Table, values: Mapping[str, Any]) -> bytes:
    """The message after its own length, as Hadoop puts several into one frame."""
    body = encode(table, values)
    return varint(len(body)) + body


def _write(out: bytearray, table: Table, values: Mapping[str, Any], depth: int) -> None:
    if depth > DEPTH:
        raise LocalProtocolError(f"{table.name} nests more than {DEPTH} deep")
    unknown = values.keys() - table.fields.keys()
    if unknown:
        raise LocalProtocolError(f"{table.name} has no field {sorted(unknown)[0]!r}")
    for name, field in table.fields.items():
        value = values.get(name)
        if value is None:
            if field.rule == "need":
                raise LocalProtocolError(f"{table.name} needs {name!r}")
            continue
        for item in _items(table, field, value):
            if isinstance(field.kind, Scalar):
                _write_scalar(out, table, field, field.kind, item)
            else:
                if not isinstance(item, Mapping):
                    raise LocalProtocolError(f"{table.name}.{name} is not a message: {item!r}")
                inner = bytearray()
                _write(inner, field.kind, item, depth + 1)
                out += varint(field.number << 3 | LENGTH) + varint(len(inner)) + inner


def _items(table: Table, field: Field, value: Any) -> Iterable[Any]:
    if field.rule != "many":
        return (value,)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise LocalProtocolError(f"{table.name}.{field.name} takes a list, not {value!r}")
    return value


def _write_scalar(out: bytearray, table: Table, field: Field, kind: Scalar, value: Any) -> None:
    try:
        raw = kind.pack(value)
    except (ValueError, TypeError, struct.error, OverflowError) as error:
        raise LocalProtocolError(f"{table.name}.{field.name} is {value!r}: {error}") from None
    out += varint(field.number << 3 | kind.wire)
    if kind.wire == VARINT:
        out += varint(raw)
    else:
        if kind.wire == LENGTH:
            out += varint(len(raw))
        out += raw


# --- reading -----------------------------------------------------------------------------------


def decode(table: Table, data: bytes) -> Record:
    """The message these bytes are, all of them."""
    return _read(table, data, 0, len(data), 0)


def read_delimited(table: Table, data: bytes, at: int) -> tuple[Record, int]:
    """The message that starts with its own length at ``at``, and where it ends."""
    size, start = read_varint(data, at, len(data))
    end = start + size
    if end > len(data):
        raise RemoteProtocolError(f"{table.name} of {size} bytes, but {len(data) - start} came")
    return _read(table, data, start, end, 0), end


def _read(table: Table, data: bytes, at: int, end: int, depth: int) -> Record:
    if depth > DEPTH:
        raise RemoteProtocolError(f"{table.name} nests more than {DEPTH} deep")
    record = Record(table)
    while at < end:
        number, wire, at = read_key(data, at, end)
        field = table.numbers.get(number)
        raw: int | bytes | None
        if wire == LENGTH and field is not None and not isinstance(field.kind, Scalar):
            start, at = read_span(data, at, end)
            _keep_message(record, field, _read(field.kind, data, start, at, depth + 1))
            continue
        raw, at = read_value(data, wire, number, at, end)
        if field is None or not isinstance(field.kind, Scalar) or raw is None:
            continue
        if wire == field.kind.wire:
            _keep(record, field, field.kind.unpack(raw))
        elif wire == LENGTH and field.rule == "many" and isinstance(raw, bytes):
            for item in _packed(field.kind, raw):
                _keep(record, field, item)
    for name in table.needed:
        if name not in record:
            raise RemoteProtocolError(f"{table.name} came without its {name!r}")
    return record


def _packed(kind: Scalar, raw: bytes) -> Iterable[Any]:
    at = 0
    while at < len(raw):
        value, at = read_value(raw, kind.wire, 0, at, len(raw))
        yield kind.unpack(value)


def _keep(record: Record, field: Field, value: Any) -> None:
    if field.rule == "many":
        record.setdefault(field.name, []).append(value)
    else:
        record[field.name] = value


def _keep_message(record: Record, field: Field, value: Record) -> None:
    earlier: Record | None = record.get(field.name) if field.rule != "many" else None
    if earlier is None:
        _keep(record, field, value)
    else:
        _merge(earlier, value)


def _merge(into: Record, later: Record) -> None:
    """A message sent in two parts is one message, says protobuf."""
    for name, value in later.items():
        if isinstance(value, list):
            into.setdefault(name, []).extend(value)
        elif isinstance(value, Record) and name in into:
            _merge(into[name], value)
        else:
            into[name] = value
