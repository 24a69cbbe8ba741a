"""Frames of Hadoop RPC, to and from bytes: a four-byte length, then headers and messages.

No SASL and no calls here: see ``connection``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from dromon.hadoop.faults import LocalProtocolError, RemoteProtocolError
from dromon.hadoop.protobuf import Record, Table, delimited, read_delimited

LIMIT = 128 * 1024 * 1024  # Hadoop's own, both ways: ipc.maximum.data.length and response.length

MAGIC = b"hrpc"
VERSION = 9
NO_SASL = 0x00
SASL = 0xDF

# Call ids that are no calls.
CONTEXT_ID = -3
PING_ID = -4
SASL_ID = -33


def preamble(sasl: bool) -> bytes:
    """The first seven bytes of a connection; the server does not answer them."""
    return MAGIC + bytes((VERSION, 0, SASL if sasl else NO_SASL))


def pack(*messages: tuple[Table, Mapping[str, Any]]) -> bytes:
    """One frame of these messages."""
    body = b"".join(delimited(table, values) for table, values in messages)
    if len(body) > LIMIT:
        raise LocalProtocolError(
            f"a request of {len(body)} bytes; Hadoop takes {LIMIT}",
            hint="Make the request smaller: fewer environment variables, fewer containers at once.",
        )
    return struct.pack(">I", len(body)) + body


class Body:
    """The messages inside one frame, taken one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, table: Table) -> Record:
        record, self._at = read_delimited(table, self._data, self._at)
        return record

    def finish(self) -> None:
        left = len(self._data) - self._at
        if left:
            raise RemoteProtocolError(f"a frame with {left} bytes too many")


class FrameBuffer:
    """Bytes in, whole frame bodies out, however the bytes were cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._first = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames these bytes complete, each before a fault in the next is noticed."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= 4:
                (size,) = struct.unpack_from(">I", self._buffer, start)
                self._check(size, start)
                end = start + 4 + size
                if len(self._buffer) < end:
                    return
                frame = bytes(self._buffer[start + 4 : end])
                self._first = False
                start = end
                yield frame
        finally:
            del self._buffer[:start]

    @property
    def partial(self) -> bool:
        """Has a frame begun that has not ended?"""
        return bool(self._buffer)

    def _check(self, size: int, start: int) -> None:
        if size <= LIMIT:
            return
        if self._first and size == 0xFFFFFFFF:
            raise RemoteProtocolError(
                "the server speaks a version of Hadoop RPC from before Hadoop 2",
                hint="Dromon is made for Hadoop 3.3 and later.",
            )
        if self._first and self._buffer[start : start + 4] == b"HTTP":
            raise RemoteProtocolError("this is a web server, not Hadoop RPC")
        raise RemoteProtocolError(f"a frame of {size} bytes; Hadoop sends at most {LIMIT}")
