"""Connections to one API server: made (through a proxy, with TLS), kept, taken again.

One is used by one thread at a time. No requests and no retries here.
"""

from __future__ import annotations

import base64
import re
import socket
import ssl
import threading
import time

from dromon.engines.kubernetes.access import Access
from dromon.engines.kubernetes.wire import Wire

KEPT = 4  # idle connections
IDLE = 60.0  # seconds; servers hang up on idle ones after some minutes, balancers sooner


class NotConnected(OSError):
    """Nothing was sent. ``final``: trying again will not help."""

    def __init__(self, words: str, final: bool = False) -> None:
        super().__init__(words)
        self.final = final


class Connections:
    """``timeout``: seconds for making one, and for each read and write on it."""

    def __init__(self, access: Access, timeout: float) -> None:
        self._access = access
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle: list[tuple[float, ssl.SSLContext | None, Wire]] = []
        self._session: tuple[ssl.SSLContext, ssl.SSLSession] | None = None
        self._closed = False
        self.made = 0

    def take(self) -> Wire:
        """One that is there, else a new one. Raises NotConnected, and whatever a plug-in may."""
        tls = self._access.tls() if self._access.server.scheme == "https" else None
        while True:
            with self._lock:
                if not self._idle:
                    break
                since, context, wire = self._idle.pop()
            if context is tls and time.monotonic() - since < IDLE and not wire.is_stale:
                wire.patience(self._timeout)
                return wire
            wire.close()
        return self._new(tls)

    def give(self, wire: Wire) -> None:
        """Back, after its answer was read; what is of no more use is closed."""
        self._remember(wire)
        with self._lock:
            if wire.reusable and not wire.closed and not self._closed and len(self._idle) < KEPT:
                self._idle.append((time.monotonic(), _context_of(wire), wire))
                return
        wire.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, _, wire in idle:
            wire.close()

    # ---- making one -----------------------------------------------------------------------------

    def _new(self, tls: ssl.SSLContext | None) -> Wire:
        server = self._access.server
        try:
            sock = self._reach()
        except socket.gaierror as error:
            unknown = error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5))
            raise NotConnected(f"nobody knows the host {server.host}", unknown) from None
        except OSError as error:
            raise NotConnected(words_of(error), isinstance(error, _Refused)) from None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(sock)
            if tls is not None:
                sock = self._secured(sock, tls)
        except BaseException:
            sock.close()
            raise
        with self._lock:
            self.made += 1
        return Wire(sock)

    def _reach(self) -> socket.socket:
        server = self._access.server
        if not server.proxy:
            return socket.create_connection((server.host, server.port), self._timeout)
        from urllib.parse import unquote, urlsplit

        proxy = urlsplit(server.proxy)
        sock = socket.create_connection((proxy.hostname or "", proxy.port or 80), self._timeout)
        target = f"[{server.host}]" if ":" in server.host else server.host
        headers = [("Host", f"{target}:{server.port}")]
        if proxy.username:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            basic = base64.b64encode(pair.encode()).decode()
            headers.append(("Proxy-Authorization", f"Basic {basic}"))
        try:
            wire = Wire(sock)
            wire.send("CONNECT", f"{target}:{server.port}", headers, b"")
            head = wire.head()
            if head.status != 200:
                where = f"{proxy.hostname}:{proxy.port or 80}"
                raise _Refused(f"the proxy {where} answers {head.status}")
        except BaseException:
            sock.close()
            raise
        return sock

    def _secured(self, sock: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
        server = self._access.server
        with self._lock:
            known = self._session
        session = known[1] if known is not None and known[0] is tls else None
        try:
            return tls.wrap_socket(
                sock, server_hostname=server.name or server.host, session=session
            )
        except ssl.SSLCertVerificationError as error:
            raise NotConnected(
                f"its certificate is not trusted: {error.verify_message.rstrip('.').lower()}", True
            ) from None
        except ssl.SSLError as error:
            if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
                raise NotConnected("it does not speak TLS there", True) from None
            if re.search("ALERT.*(CERTIFICATE|HANDSHAKE_FAILURE)", error.reason or ""):
                raise NotConnected("it wants another client certificate", True) from None
            raise NotConnected(words_of(error)) from None
        except OSError as error:
            raise NotConnected(words_of(error)) from None

    def _remember(self, wire: Wire) -> None:
        """The TLS session, so that the next connection needs no whole handshake."""
        sock = wire.sock
        if isinstance(sock, ssl.SSLSocket) and not wire.closed and sock.session is not None:
            with self._lock:
                self._session = (sock.context, sock.session)


class _Refused(OSError):
    """By a proxy."""


def _context_of(wire: Wire) -> ssl.SSLContext | None:
    return wire.sock.context if isinstance(wire.sock, ssl.SSLSocket) else None


def _keep_alive(sock: socket.socket) -> None:
    """A watch may be silent for minutes: this finds out that nobody is there any more."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def words_of(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return (error.strerror or str(error) or type(error).__name__).lower()
