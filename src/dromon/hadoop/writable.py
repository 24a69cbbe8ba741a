"""Hadoop's older way to write numbers, bytes and text ("Writables"), to and from bytes.

Its variable-length numbers are not protobuf's, and not those of aggregated log files either.
"""

from __future__ import annotations

from dromon.hadoop.faults import CredentialsError, LocalProtocolError


def vint(value: int) -> bytes:
    """-112 to 127 is one byte; else the first says how many follow and whether it is negative."""
    if -112 <= value <= 127:
        return bytes((value & 0xFF,))
    if not -(1 << 63) <= value < 1 << 63:
        raise LocalProtocolError(f"{value} does not fit into 64 bits")
    first, rest = (-112, value) if value >= 0 else (-120, ~value)
    size = (rest.bit_length() + 7) // 8 or 1
    return bytes(((first - size) & 0xFF,)) + rest.to_bytes(size, "big")


def sized(data: bytes) -> bytes:
    return vint(len(data)) + data


def text(value: str) -> bytes:
    try:
        return sized(value.encode())
    except UnicodeEncodeError:
        raise LocalProtocolError(f"{value!r} is not text that UTF-8 can hold") from None


class Reader:
    """Takes one thing after the other off some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        start, end = self._at, self._at + size
        if size < 0 or end > len(self._data):
            raise CredentialsError(f"{size} bytes expected at byte {start} of {len(self._data)}")
        self._at = end
        return self._data[start:end]

    def vint(self) -> int:
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        if first >= -120:
            return int.from_bytes(self.take(-112 - first), "big")
        return ~int.from_bytes(self.take(-120 - first), "big")

    def sized(self) -> bytes:
        return self.take(self.vint())

    def text(self) -> str:
        return self.sized().decode("utf-8", "replace")

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)
