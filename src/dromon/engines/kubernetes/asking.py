"""One request to an API server, with patience: asked again while it helps, refused in words.

What is asked, and what the objects mean, is not known here.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any

from dromon import __version__
from dromon.engines.kubernetes.access import Access
from dromon.engines.kubernetes.connections import Connections, NotConnected, words_of
from dromon.engines.kubernetes.refusals import (
    ApiError,
    Expired,
    NotAuthenticated,
    PodSilent,
    Unreachable,
    refusal,
)
from dromon.engines.kubernetes.volcano import Kind
from dromon.engines.kubernetes.wire import Cut, Head, Wire

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
AGAIN = (429, 500, 502, 503, 504)
BEFORE_ACTING = (429, 503)  # said by a server that has done nothing yet


class _Lost(Exception):
    """Sent, and the answer did not come, or not whole."""

    def __init__(self, error: OSError, wire: Wire) -> None:
        super().__init__(words_of(error))
        # Hung up while nobody used the connection: that says nothing about the server.
        self.was_idle = isinstance(error, Cut) and error.silent and wire.used > 1


class Asker:
    """``timeout``: seconds for one read or write; ``patience``: how long a server that is away, or
    asks to be left alone, is asked again.
    """

    def __init__(self, access: Access, timeout: float, patience: float) -> None:
        self.access = access
        self.verbs: dict[str, int] = {}
        self.connections = Connections(access, timeout)
        self._patience = patience
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def close(self) -> None:
        self._closing.set()
        self.connections.close()

    def ask(
        self,
        verb: str,
        method: str,
        target: str,
        kind: Kind | None,
        body: bytes = b"",
        extra: Sequence[tuple[str, str]] = (),
        repeatable: bool = True,
        *,
        foreign: bool = False,
        whole: bool = False,
    ) -> tuple[Head, Stream]:
        """Until there is an answer, or no more patience. ``foreign``: a pod answers, and only what
        the API server itself refuses is an error. ``whole``: the body is read here, so that a cut
        in it is a lost answer like any other.
        """
        until = time.monotonic() + self._patience
        pause, was_idle, was_renewed = FIRST_PAUSE, False, False
        while True:
            wait = 0.0
            try:
                head, stream = self._once(verb, method, target, body, extra, whole)
            except NotConnected as error:
                if error.final:
                    raise self._misled(error) from None
                failure = self._unreachable(str(error))
            except _Lost as lost:
                failure = self._unreachable(str(lost))
                if not repeatable:
                    raise failure from None
                if lost.was_idle and not was_idle:
                    was_idle = True
                    continue
            else:
                if head.status < 300:
                    return head, stream
                refused, is_servers = _refused(head, stream, kind)
                if foreign and not is_servers:
                    return head, stream
                if head.status == 401 or (head.status == 403 and _is_anonymous(refused)):
                    if not was_renewed and self.access.identity.renew():
                        was_renewed = True
                        continue
                    raise self._unknown(refused)
                if foreign and head.status >= 500:
                    raise _silent(refused)
                if not _is_passing(refused, repeatable):
                    raise refused
                failure = self._unreachable(f"it answers {_last(refused)}", refused)
                wait = _retry_after(head)
            wait = wait or pause * between(0.7, 1.0)
            pause = min(pause * 2, LONGEST_PAUSE)
            left = until - time.monotonic()
            if left <= 0 or self._closing.wait(min(wait, left)):
                raise failure

    def _once(
        self,
        verb: str,
        method: str,
        target: str,
        body: bytes,
        extra: Sequence[tuple[str, str]],
        whole: bool,
    ) -> tuple[Head, Stream]:
        """An answer, NotConnected where nothing was sent, or _Lost. Refusals are read whole."""
        headers = self._headers(extra)  # first: a plug-in may take its time
        wire = self.connections.take()
        self._count(verb)
        try:
            wire.send(method, self.access.server.path + target, headers, body)
            head = wire.head()
            stream = Stream(self.connections, wire, head)
            if whole or head.status >= 300:
                stream.read()
            return head, stream
        except OSError as error:
            wire.close()
            if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
                raise self._unknown(None) from None
            raise _Lost(error, wire) from None

    def _headers(self, extra: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        server = self.access.server
        host = f"[{server.host}]" if ":" in server.host else server.host
        return [
            ("Host", f"{host}:{server.port}"),
            ("User-Agent", f"dromon/{__version__}"),
            *self.access.headers(),
            *extra,
        ]

    def _count(self, verb: str) -> None:
        with self._lock:
            self.verbs[verb] = self.verbs.get(verb, 0) + 1

    # ---- in words -------------------------------------------------------------------------------

    def _unreachable(self, why: str, refused: ApiError | None = None) -> Unreachable:
        return Unreachable(
            f"the API server {self.access.server.url} does not answer: {why}",
            hint=f"It is named by {self.access.words}. Is the cluster up, and can this machine"
            " reach it?",
            code=refused.code if refused else 0,
            status=refused.status if refused else None,
        )

    def _misled(self, error: NotConnected) -> Unreachable:
        """What will be so until the kubeconfig, or the network, is another."""
        server = self.access.server
        hint = f"Check the address in {self.access.words}."
        if "client certificate" in str(error):
            hint = f"{self.access.identity.cure}."
        if "not trusted" in str(error):
            hint = f"{server.said} names who vouches for it (certificate-authority): not for this."
        return Unreachable(f"the API server {server.url} cannot be used: {error}", hint=hint)

    def _unknown(self, refused: ApiError | None) -> NotAuthenticated:
        """401, with what is wrong as far as it can be seen."""
        identity = self.access.identity
        expiry = identity.expiry()
        code, status = (401, refused.status) if refused else (401, None)
        cure = f"{identity.cure}."
        if expiry is not None and expiry < time.time():
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(expiry))
            return Expired(
                f"{identity.kind} expired at {when}", hint=cure, code=code, status=status
            )
        kind = identity.kind
        words = f"it does not accept {kind}" if kind else "it was shown nothing"
        return NotAuthenticated(
            f"the API server does not know who you are: {words}", hint=cure, code=code,
            status=status,
        )  # fmt: skip


def between(low: float, high: float) -> float:
    """By chance, so that not everybody comes back at once."""
    return low + (high - low) * (time.perf_counter_ns() % 997) / 997


class Stream:
    """The body of an answer, piece by piece. Whoever does not read it to its end says so (`with`);
    `close` may come from another thread.
    """

    def __init__(self, connections: Connections, wire: Wire, head: Head) -> None:
        self._connections = connections
        self._wire = wire
        self._pieces = wire.body(head)
        self._whole: list[bytes] | None = None
        self._lock = threading.Lock()
        self._over = False  # the connection is no longer ours

    def read(self) -> bytes:
        """All of it, kept for iterating; OSError where it was cut."""
        if self._whole is None:
            self._whole = list(self._pieces)
            self._finish()
        return b"".join(self._whole)

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> bytes:
        if self._whole is not None:
            if not self._whole:
                raise StopIteration
            return self._whole.pop(0)
        try:
            return next(self._pieces)
        except StopIteration:
            self._finish()
            raise
        except OSError as error:
            was_closed = self._wire.closed
            self._finish()
            if was_closed:
                raise StopIteration from None
            raise Unreachable(f"the API server hung up: {words_of(error)}") from None

    def patience(self, seconds: float | None) -> None:
        """How long it may be silent; None: for ever."""
        with self._lock:
            if not self._over:
                self._wire.patience(seconds)

    def close(self) -> None:
        """Whoever reads it sees its end."""
        with self._lock:
            if not self._over:
                self._wire.hang_up()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._finish()

    def _finish(self) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
        self._connections.give(self._wire)


# --- answers


def _refused(head: Head, stream: Stream, kind: Kind | None) -> tuple[ApiError, bool]:
    """The error for an answer, and whether it is the API server's own."""
    text = stream.read()
    status: Any = None
    if text[:1] == b"{":
        try:
            status = json.loads(text)
        except ValueError:
            pass
    is_status = isinstance(status, dict) and status.get("kind") == "Status"
    shown = text[:2000].decode("utf-8", "replace")
    if head.status < 400:
        shown = f"it sends us on to {head.headers.get('location', 'somewhere')}"
    return refusal(head.status, status if is_status else None, shown, kind), is_status


def _is_anonymous(refused: ApiError) -> bool:
    """Some servers let everybody in, as nobody."""
    return 'User "system:anonymous"' in str(refused.status.get("message"))


def _silent(refused: ApiError) -> PodSilent:
    words = refused.status.get("message")
    return PodSilent(f"the pod does not answer: {words}", code=refused.code, status=refused.status)


def _is_passing(refused: ApiError, repeatable: bool) -> bool:
    if refused.code not in AGAIN:
        return False
    # A webhook that could not be asked has let nothing through either.
    before = refused.code in BEFORE_ACTING or "failed calling webhook" in _last(refused)
    return repeatable or before


def _last(refused: ApiError) -> str:
    return f"{refused.code} ({refused.status.get('message') or refused.message})"


def _retry_after(head: Head) -> float:
    text = head.headers.get("retry-after", "")
    return min(float(text), 30.0) if text.isdigit() else 0.0
