"""HTTP connections that are kept and used again. What is asked over them is not known here.

A server closes a line that was idle for long; such a line is seen to be closed before it is used
again, so that a request never goes into it. Threads may share one ``Lines``.
"""

from __future__ import annotations

import http.client
import select
import ssl
import threading
from collections.abc import Mapping
from typing import BinaryIO, Union
from urllib.parse import urlsplit

CONNECT_TIMEOUT = 10.0
ANSWER_TIMEOUT = 60.0
BLOCK = 1024 * 1024
KEPT = 4  # idle lines to one server

Body = Union[bytes, BinaryIO, None]


class NotConnected(OSError):
    """Nobody took the call: nothing was asked."""


class Line:
    """One request at a time. ``finish`` gives the line back, or closes it."""

    def __init__(self, lines: Lines, base: str, http_line: http.client.HTTPConnection) -> None:
        self._lines = lines
        self._base = base
        self._http = http_line
        self._answer: http.client.HTTPResponse | None = None

    def ask(
        self, method: str, target: str, body: Body = None, headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        chunked = "Transfer-Encoding" in (headers or {})
        try:
            self._http.request(method, target, body, dict(headers or {}), encode_chunked=chunked)
        except OSError:
            # A server that refuses does not wait for the whole body; its answer says why.
            try:
                self._answer = self._http.getresponse()
            except (OSError, http.client.HTTPException):
                self._answer = None
            if self._answer is None or self._answer.status < 300:
                raise
            return self._answer
        self._answer = self._http.getresponse()
        return self._answer

    def finish(self) -> None:
        """Call it in the end, whatever happened."""
        answer = self._answer
        if answer is not None and answer.isclosed() and not answer.will_close:
            self._lines.keep(self._base, self._http)
            return
        if answer is not None:
            answer.close()  # it may hold the socket alone
        self._http.close()


class Lines:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()

    def line(self, base: str, connect_timeout: float = CONNECT_TIMEOUT) -> Line:
        """A line to ``http://host:port`` or ``https://host:port``."""
        while True:
            with self._lock:
                idle = self._idle.get(base)
                kept = idle.pop() if idle else None
            if kept is None:
                return Line(self, base, self._connect(base, connect_timeout))
            if kept.sock is not None and not _readable(kept):
                return Line(self, base, kept)
            kept.close()

    def keep(self, base: str, http_line: http.client.HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault(base, [])
            if len(idle) < KEPT:
                idle.append(http_line)
                return
        http_line.close()

    def close(self) -> None:
        """Idle lines only; the others close when they are finished with."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for lines in idle.values():
            for line in lines:
                line.close()

    def __del__(self) -> None:
        self.close()

    def _connect(self, base: str, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(base)
        host, port = parts.hostname or "", parts.port
        line: http.client.HTTPConnection
        if parts.scheme == "https":
            tls = self._tls or ssl.create_default_context()
            line = http.client.HTTPSConnection(
                host, port, timeout=timeout, context=tls, blocksize=BLOCK
            )
        else:
            line = http.client.HTTPConnection(host, port, timeout=timeout, blocksize=BLOCK)
        try:
            line.connect()
        except OSError as error:
            line.close()
            raise NotConnected(str(error)) from error
        line.sock.settimeout(ANSWER_TIMEOUT)
        return line


def _readable(line: http.client.HTTPConnection) -> bool:
    """An idle line on which something can be read was closed by the server."""
    if hasattr(select, "poll"):  # select itself takes no descriptor above 1023
        poll = select.poll()
        poll.register(line.sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([line.sock], [], [], 0)[0])
