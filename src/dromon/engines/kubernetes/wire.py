"""HTTP/1.1 on one connection, as much of it as an API server speaks: a request out, a head and a
body in, pieces as they come.

Of our own, because `http.client` brings the whole of `email` along: as much time as the rest of a
short command. No retries and no meaning here; what goes wrong is an OSError.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable, Iterator

_PIECE = 1 << 16
_HEAD_LIMIT = 1 << 18


class BadAnswer(OSError):
    """What came is not HTTP."""


class Cut(ConnectionResetError):
    """The other side hung up in the middle. ``silent``: before it said anything."""

    def __init__(self, words: str, silent: bool = False) -> None:
        super().__init__(words)
        self.silent = silent


class Head:
    """Status and headers (names in small letters) of an answer."""

    __slots__ = ("headers", "status")

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers


class Wire:
    """One connection: a request, its head, its body read to the end, then the next request."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""
        self.used = 0  # requests so far
        self.reusable = True
        self.closed = False

    # ---- asking ---------------------------------------------------------------------------------

    def send(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> None:
        self.used += 1
        self.reusable = False  # until the answer has been read
        lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers)]
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}")
        data = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            # It may have refused before it read all; then its words are still to be read.
            if not self._readable():
                raise Cut(str(error), silent=True) from None

    def head(self) -> Head:
        """Blocks until the answer begins."""
        while True:
            while (end := self._buffer.find(b"\r\n\r\n")) < 0:
                if len(self._buffer) > _HEAD_LIMIT:
                    raise BadAnswer("the answer has no end of its headers")
                silent = not self._buffer
                if not self._more():
                    raise Cut("the connection was closed", silent)
            head = self._buffer[:end].decode("latin-1").split("\r\n")
            self._buffer = self._buffer[end + 4 :]
            version, _, rest = head[0].partition(" ")
            code = rest.split(" ", 1)[0]
            if not version.startswith("HTTP/1.") or not code.isdigit():
                raise BadAnswer("the answer is not HTTP")
            headers: dict[str, str] = {}
            for line in head[1:]:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            if 100 <= int(code) < 200 and int(code) != 101:
                continue
            self._keeps = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
            return Head(int(code), headers)

    def body(self, head: Head) -> Iterator[bytes]:
        """The pieces of the body; once it is out, the connection may serve again."""
        if head.status in (204, 304):
            pass
        elif head.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif "content-length" in head.headers:
            length = head.headers["content-length"]
            if not length.isdigit():
                raise BadAnswer("the answer's length is no number")
            yield from self._exactly(int(length))
        else:
            self._keeps = False
            while self._buffer or self._more():
                data, self._buffer = self._buffer, b""
                yield data
        self.reusable = self._keeps and not self._buffer

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = self._line().split(b";", 1)[0].strip()
            try:
                length = int(size, 16)
            except ValueError:
                raise BadAnswer("a piece of the answer has no length") from None
            if length == 0:
                while self._line():
                    pass
                return
            yield from self._exactly(length)
            if self._line():
                raise BadAnswer("a piece of the answer has the wrong length")

    def _exactly(self, length: int) -> Iterator[bytes]:
        while length:
            if not self._buffer and not self._more():
                raise Cut("the connection was closed in the middle of an answer")
            piece = self._buffer[:length]
            self._buffer = self._buffer[len(piece) :]
            length -= len(piece)
            yield piece

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > _HEAD_LIMIT or not self._more():
                raise Cut("the connection was closed in the middle of an answer")
        line = self._buffer[:end]
        self._buffer = self._buffer[end + 2 :]
        return line

    def _more(self) -> bool:
        data = self.sock.recv(_PIECE)
        if self.closed:  # by another thread, while we waited
            return False
        self._buffer += data
        return bool(data)

    # ---- the connection -------------------------------------------------------------------------

    def patience(self, seconds: float | None) -> None:
        """How long one read or write may take."""
        self.sock.settimeout(seconds)

    @property
    def is_stale(self) -> bool:
        """An idle connection has nothing to say; one that does has been hung up on."""
        return self._readable()

    def _readable(self) -> bool:
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """By its owner."""
        self.closed = True
        self.sock.close()

    def hang_up(self) -> None:
        """By anybody: whoever waits on it is woken, and sees its end."""
        self.closed = True
        try:
            # Not SSLSocket's own, which would take the TLS away under the reader.
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass
