"""A Hadoop RPC server on a loopback socket, speaking the real bytes: the room's own server side."""

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from dromon.hadoop.addresses import Address
from dromon.hadoop.digest import DigestServer, password_of, user_of
from dromon.hadoop.faults import ProtocolError
from dromon.hadoop.protocol import Protocol
from dromon.hadoop.server import Call, RpcServerConnection
from dromon.hadoop.token import Token


class Fail(NamedTuple):
    """One call fails with a Java exception."""

    exception: str
    text: str = "no"


class GiveUp(NamedTuple):
    """The connection fails."""

    exception: str
    text: str = "no more"


HANG_UP = "hang up"  # no answer, and the connection is closed
SILENCE = "silence"  # no answer at all
CUT = "cut"  # half an answer, and the connection is closed

Answer = Mapping[str, Any] | Fail | GiveUp | str


class RpcServer:
    """`answer(call)` says what happens to each call. `step`: bytes of one write, 0 for all."""

    def __init__(
        self,
        protocol: Protocol,
        answer: Callable[[Call], Answer],
        token: Token | None = None,
        qops: Sequence[str] = ("auth",),
        step: int = 0,
    ) -> None:
        self.calls: list[Call] = []
        self.connections = 0
        self._protocol, self._answer = protocol, answer
        self._token, self._qops, self._step = token, qops, step
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def drop(self) -> None:
        """Hangs up on everybody, as a server does with connections that idle."""
        for sock in self._open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self) -> None:
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        self.drop()
        for thread in list(self._threads):
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        digest = None
        if self._token is not None:
            known = {user_of(self._token): password_of(self._token)}
            digest = DigestServer(known.get, os.urandom(8).hex(), qops=tuple(self._qops))
        conn = RpcServerConnection(self._protocol, digest)
        with sock:
            try:
                while not conn.closed:
                    data = sock.recv(65536)
                    if not data:
                        return
                    conn.receive_data(data)
                    for call in conn.calls_received():
                        self.calls.append(call)
                        if not self._tell(sock, conn, call):
                            return
                    self._write(sock, conn.data_to_send())
            except (OSError, ProtocolError):
                pass

    def _tell(self, sock: socket.socket, conn: RpcServerConnection, call: Call) -> bool:
        """False: hang up now."""
        answer = self._answer(call)
        if isinstance(answer, Fail):
            conn.fail(call.call_id, *answer)
        elif isinstance(answer, GiveUp):
            conn.give_up(*answer)
        elif answer == CUT:
            conn.reply(call.call_id, {})
            self._write(sock, conn.data_to_send()[:-1])
            return False
        elif isinstance(answer, str):
            return answer != HANG_UP
        else:
            conn.reply(call.call_id, answer)
        return True

    def _write(self, sock: socket.socket, data: bytes) -> None:
        step = self._step or len(data) or 1
        for at in range(0, len(data), step):
            sock.sendall(data[at : at + step])


@pytest.fixture
def rpc_server() -> Iterator[Callable[..., RpcServer]]:
    """Starts servers, and stops them when the test is over."""
    servers: list[RpcServer] = []

    def start(protocol: Protocol, answer: Callable[[Call], Answer], **more: Any) -> RpcServer:
        servers.append(RpcServer(protocol, answer, **more))
        return servers[-1]

    start.Fail, start.GiveUp = Fail, GiveUp  # type: ignore[attr-defined]
    yield start
    for server in servers:
        server.stop()
