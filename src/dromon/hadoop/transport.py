"""Calls over real sockets: one server, or several of which one is active. Blocking, thread-safe.

    manager = RpcClient(APPLICATION_CLIENT, servers, Simple("alice"), what="ResourceManager")
    manager.call("getClusterMetrics")["cluster_metrics"]

1. It connects when first used, and again when the server has dropped an idle connection.
2. Calls of several threads go one after the other.
3. Whom to ask after a failure, and when, says ``failover.Policy``; a call that is not
   ``repeatable`` is never sent again once it may have arrived.
4. A server that gives up says why before it hangs up, and a write that fails comes to know of it
   first: so after a failed write there is still something to read.

Bytes and SASL are in ``connection``; what an answer means is the caller's.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable, Union

from dromon.errors import EngineError
from dromon.hadoop.addresses import Address
from dromon.hadoop.connection import OPEN, RpcConnection
from dromon.hadoop.events import Closed, Fatal, Reply, RpcError
from dromon.hadoop.failover import GiveUp, Policy, Trouble, trouble_of
from dromon.hadoop.faults import ProtocolError, RemoteProtocolError, Unauthenticated
from dromon.hadoop.protobuf import Record
from dromon.hadoop.protocol import Protocol
from dromon.hadoop.sasl import Auth, DigestMd5
from dromon.hadoop.token import Token

CONNECT = 10.0  # seconds for a connection; a host that is off does not even refuse one
CHUNK = 256 * 1024
NO_SIMPLE = "SIMPLE authentication is not enabled"  # Hadoop's words, before what it takes instead

Identity = Union[Auth, Token]


class RpcFailed(EngineError):
    """The server understood, and said no."""

    def __init__(
        self, exception: str, text: str, *, who: str = "the server", method: str = "the call"
    ) -> None:
        self.exception = exception  # the Java class, in full
        self.text = text  # its own words, without the stack trace
        first = text.strip().splitlines()[0] if text.strip() else "no reason given"
        words = f"{who} refused {method}: {first} ({self.name})"
        if first.startswith(NO_SIMPLE) and "KERBEROS" in first:
            words = f"{who} wants Kerberos, which Dromon cannot do yet"
        super().__init__(words, hint=_advice(self))

    @property
    def name(self) -> str:
        """The Java class without its package."""
        return self.exception.replace("$", ".").rpartition(".")[2]


class Unreachable(EngineError):
    """Nobody answered."""

    hint = "Check the address, and that the service runs."


class FateUnknown(Unreachable):
    """It was asked, and the connection broke before the answer: it may have been done."""

    hint = "Look whether it was done before you try again."


class RpcClient:
    """``what``: the service as a noun, for messages: "ResourceManager"."""

    def __init__(
        self,
        protocol: Protocol,
        servers: Sequence[Address],
        auth: Identity,
        *,
        what: str,
        policy: Policy = Policy(),  # noqa: B008 - frozen
        timeout: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``auth``: ``Simple``, or a token; ``timeout``: seconds for one answer."""
        if not servers:
            raise ValueError(f"no address of any {what}")
        self._protocol = protocol
        self._servers = tuple(servers)
        self._auth = auth
        self._what = what
        self._policy = policy
        self._timeout = timeout
        self._clock = clock
        self._chance = chance
        self._at = 0  # the server that is asked first: the one that answered last
        self._line: _Line | None = None
        self._turn = threading.Lock()
        self._over = threading.Event()

    def call(
        self, method: str, message: Mapping[str, Any] | None = None, *, repeatable: bool = True
    ) -> Record:
        """The answer. Raises ``RpcFailed``, ``Unreachable`` or a ``ProtocolError``."""
        with self._turn:
            began = self._clock()
            told: dict[int, _Trouble] = {}
            failures = 0
            while True:
                try:
                    return self._ask(method, message or {}, failures)
                except _Trouble as trouble:
                    failures += 1
                    told[self._at] = trouble
                    then = self._policy.after(
                        trouble.kind,
                        failures=failures,
                        server=self._at,
                        servers=len(self._servers),
                        elapsed=self._clock() - began,
                        chance=self._chance(),
                        repeatable=repeatable,
                    )
                    if isinstance(then, GiveUp):
                        raise self._sorry(method, told, trouble, repeatable) from None
                    if then.server != self._at:
                        self._hang_up()
                        self._at = then.server
                    self._over.wait(then.wait)

    def use(self, auth: Identity) -> None:
        """A new identity, from the next connection on; an open one goes on as it is."""
        self._auth = auth

    def close(self) -> None:
        """Ends a call under way, too. Nothing can be called after it."""
        self._over.set()
        line = self._line
        if line is not None:
            line.interrupt()
        with self._turn:
            self._hang_up()

    # --- inside, all in turn

    def _ask(self, method: str, message: Mapping[str, Any], failures: int) -> Record:
        if self._over.is_set():
            raise Unreachable(f"{self._who()}: the connection was closed here", hint="")
        line = self._connected()
        if self._over.is_set():  # closed while we connected
            line.interrupt()
        deadline = self._clock() + self._timeout
        try:
            event = line.ask(method, message, failures, deadline)
        except socket.timeout:
            sent = line.sent
            self._hang_up()
            kind = Trouble.LOST if sent else Trouble.UNREACHED
            raise _Trouble(kind, f"did not answer within {self._timeout:.0f} s") from None
        except RemoteProtocolError as error:
            self._hang_up()
            raise RemoteProtocolError(f"{self._who()}: {error}", hint=error.hint) from None
        except Unauthenticated as error:
            self._hang_up()
            raise Unauthenticated(f"{self._who()}: {error}", hint=error.hint) from None
        except BaseException:  # interrupted: half a request may have gone out
            self._hang_up()
            raise
        if isinstance(event, Reply):
            return event.message
        if isinstance(event, Closed):
            sent = line.sent
            self._hang_up()
            kind = Trouble.LOST if sent else Trouble.UNREACHED
            raise _Trouble(kind, "closed the connection before it answered")
        if isinstance(event, Fatal):
            self._hang_up()
        kind = trouble_of(event.exception)
        refused = RpcFailed(event.exception, event.text, who=self._who(), method=method)
        if kind is Trouble.REFUSED:
            raise refused
        words = "is on standby" if kind is Trouble.STANDBY else "asks for patience"
        raise _Trouble(kind, words, refused)

    def _connected(self) -> _Line:
        if self._line is not None and self._line.is_stale():
            self._hang_up()
        if self._line is None:
            where = self._servers[self._at]
            try:
                sock = socket.create_connection(
                    (where.host, where.port), min(CONNECT, self._timeout)
                )
            except OSError as error:
                raise _Trouble(Trouble.UNREACHED, _words(error, where)) from None
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Call numbers start anew with each connection, so the client's id has to be new, too:
            # a server that remembers answers would take a new call for an old one.
            conn = RpcConnection(self._protocol, _fresh(self._auth), os.urandom(16))
            self._line = _Line(sock, conn, self._clock)
        return self._line

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _who(self) -> str:
        return f"the {self._what} at {self._servers[self._at]}"

    def _sorry(
        self, method: str, told: Mapping[int, _Trouble], last: _Trouble, repeatable: bool
    ) -> EngineError:
        if last.kind is Trouble.BUSY and last.refused is not None:
            return last.refused
        if last.kind is Trouble.LOST and not repeatable:
            return FateUnknown(
                f"{self._who()} was asked for {method} and {last.words};"
                " whether it was done is not known"
            )
        if len(self._servers) == 1:
            return Unreachable(f"{self._who()} {last.words}{_question(last)}")
        words = {trouble.words for trouble in told.values()}
        if len(words) == 1 and len(told) == len(self._servers):
            (same,) = words
            named = "both" if len(self._servers) == 2 else f"all {len(self._servers)}"
            said = f"are{same[2:]}" if same.startswith("is ") else same
            places = ", ".join(str(server) for server in self._servers)
            return Unreachable(
                f"{named} {self._what}s ({places}) {said}{_question(last, 'are they')}"
            )
        each = "; ".join(f"{self._servers[at]} {told[at].words}" for at in sorted(told))
        return Unreachable(f"none of the {len(self._servers)} {self._what}s answers: {each}")


class _Trouble(Exception):
    """Something after which another try may help. ``words``: what the server did, or is."""

    def __init__(self, kind: Trouble, words: str, refused: RpcFailed | None = None) -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words
        self.refused = refused


class _Line:
    """One socket, and the protocol on it."""

    def __init__(
        self, sock: socket.socket, conn: RpcConnection, clock: Callable[[], float]
    ) -> None:
        self._sock = sock
        weakref.finalize(self, sock.close).atexit = False  # nobody need remember to hang up
        self._conn = conn
        self._clock = clock
        self.sent = False  # may the last call have left?

    def ask(
        self, method: str, message: Mapping[str, Any], retry: int, deadline: float
    ) -> Reply | RpcError | Fatal | Closed:
        self.sent = False
        call_id = self._conn.call(method, message, retry)
        while True:
            self.sent = self._conn.state == OPEN
            self._write(deadline)
            data = self._read(deadline)
            try:
                self._conn.receive_data(data)
            except ProtocolError:
                if data:
                    raise
            for event in self._conn.events_received():
                if isinstance(event, (Fatal, Closed)) or event.call_id == call_id:
                    return event

    def is_stale(self) -> bool:
        """Is it over? With no call open, whatever can be read is a farewell."""
        try:
            self._sock.setblocking(False)
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def interrupt(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self._sock.close()

    def _write(self, deadline: float) -> None:
        data = self._conn.data_to_send()
        if data:
            self._wait_until(deadline)
            try:
                self._sock.sendall(data)
            except socket.timeout:
                raise
            except OSError:
                pass  # the reason waits to be read

    def _read(self, deadline: float) -> bytes:
        self._wait_until(deadline)
        try:
            return self._sock.recv(CHUNK)
        except socket.timeout:
            raise
        except OSError:
            return b""

    def _wait_until(self, deadline: float) -> None:
        left = deadline - self._clock()
        if left <= 0:
            raise socket.timeout("no answer in time")
        self._sock.settimeout(left)


def _fresh(identity: Identity) -> Auth:
    """The identity for one connection: a nonce that was used before would prove less."""
    if isinstance(identity, Token):
        return DigestMd5(identity, os.urandom(16).hex())
    if isinstance(identity, DigestMd5):
        return replace(identity, cnonce=os.urandom(16).hex())
    return identity


def _words(error: OSError, where: Address) -> str:
    if isinstance(error, socket.gaierror):
        return f"cannot be found: the name {where.host} is not known"
    if isinstance(error, socket.timeout):
        return "cannot be reached: nothing answers at that address"
    if isinstance(error, ConnectionRefusedError):
        return "refused the connection"
    return f"cannot be reached: {(error.strerror or str(error)).lower()}"


def _question(trouble: _Trouble, asked: str = "is it") -> str:
    return f": {asked} running?" if trouble.words.startswith("refused") else ""


def _advice(failed: RpcFailed) -> str:
    if NO_SIMPLE in failed.text:
        if "KERBEROS" in failed.text:
            return "Clusters with simple authentication work; Kerberos is not proven yet."
        return "This port takes tokens only: it is not the one for clients."
    if failed.name == "VersionMismatch":
        return "Dromon is made for Hadoop 3.3 and later."
    if failed.name == "InvalidToken":
        return "The token has expired or was cancelled."
    if failed.name == "AccessControlException":
        return "Ask whoever runs the cluster for the permission, or act as another user."
    return ""
