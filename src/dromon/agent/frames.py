"""Length-prefixed JSON, to and from bytes. No sockets here.

A frame is four bytes of big-endian length and that many bytes of UTF-8 JSON. Client and daemon,
agent and coordinator all speak it.
"""

import json
import struct
from typing import Any, Dict, List

LIMIT = 256 * 1024 * 1024  # a frame larger than this is a mistake, not a message

Message = Dict[str, Any]
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().decode  # json.loads would look for the encoding first


class FrameError(ValueError):
    """The peer does not speak this protocol."""


def pack(message: Message) -> bytes:
    body = _encode(message).encode()
    return struct.pack(">I", len(body)) + body


class Unpacker:
    """Bytes in, whole messages out, however the bytes were cut."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> List[Message]:
        self._buffer += data
        messages: List[Message] = []
        start = 0
        while len(self._buffer) - start >= 4:
            (size,) = struct.unpack_from(">I", self._buffer, start)
            if size > self._limit:
                raise FrameError(f"a frame of {size} bytes")
            end = start + 4 + size
            if len(self._buffer) < end:
                break
            try:
                message = _decode(self._buffer[start + 4 : end].decode())
            except ValueError as error:
                raise FrameError(str(error)) from None
            if not isinstance(message, dict):
                raise FrameError("not an object")
            messages.append(message)
            start = end
        del self._buffer[:start]
        return messages
