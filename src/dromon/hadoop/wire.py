"""The layer below protobuf messages: numbers, field keys and raw values, to and from bytes.

Nothing here knows a message. Whatever a peer sends, only RemoteProtocolError comes out.
"""

from __future__ import annotations

from dromon.hadoop.faults import RemoteProtocolError

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)


def varint(value: int) -> bytes:
    """A number of 0 or more, seven bits a byte, the low ones first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at ``at`` and where the next thing starts."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise RemoteProtocolError("a message ends in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise RemoteProtocolError("a number of more than ten bytes")


def read_key(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    key, at = read_varint(data, at, end)
    if not 0 < key >> 3 < 1 << 29:
        raise RemoteProtocolError(f"a field numbered {key >> 3}")
    return key >> 3, key & 7, at


def read_span(data: bytes, at: int, end: int) -> tuple[int, int]:
    size, start = read_varint(data, at, end)
    if size > end - start:
        raise RemoteProtocolError("a message ends in the middle of a field")
    return start, start + size


def read_value(
    data: bytes, wire: int, number: int, at: int, end: int
) -> tuple[int | bytes | None, int]:
    """One value in its raw form, None for a group, and where it ends."""
    if wire == VARINT:
        return read_varint(data, at, end)
    if wire == GROUP:
        return None, _skip_group(data, number, at, end)
    if wire == LENGTH:
        start, at = read_span(data, at, end)
        return data[start:at], at
    if wire in (FIXED32, FIXED64):
        size = 4 if wire == FIXED32 else 8
        if size > end - at:
            raise RemoteProtocolError("a message ends in the middle of a field")
        return data[at : at + size], at + size
    raise RemoteProtocolError(f"a field of wire type {wire}")


def _skip_group(data: bytes, number: int, at: int, end: int) -> int:
    inside: list[int] = [number]
    while inside:
        number, wire, at = read_key(data, at, end)
        if wire == GROUP:
            inside.append(number)
        elif wire == END_GROUP:
            if number != inside.pop():
                raise RemoteProtocolError("a group that ends as another one")
        else:
            _, at = read_value(data, wire, number, at, end)
    return at
