"""Fakes that speak Hadoop's real bytes: a server on a loopback port, and what it says."""

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stage import Stage

from dromon.engines.yarn.am.gathering import Patience
from dromon.hadoop.addresses import Address
from dromon.hadoop.digest import DigestServer, password_of, user_of
from dromon.hadoop.protocol import Protocol
from dromon.hadoop.server import Call, RpcServerConnection
from dromon.hadoop.token import Token
from dromon.hadoop.webhdfs import WebHdfs

RECORD = "/user/al/.dromon/jobs/train-aaaaaa"


class Java(NamedTuple):
    """An exception as the answer."""

    exception: str
    text: str


HANG_UP = object()  # the call was heard, and its answer is lost

Answer = Callable[[Call], Mapping[str, Any] | Java | object]


class FakeServer:
    """Answers each call with what `answer` says, one call at a time. `tokens`: whose it takes."""

    def __init__(self, protocol: Protocol, answer: Answer, *tokens: Token) -> None:
        self._protocol = protocol
        self._answer = answer
        self.tokens = list(tokens)
        self.calls: list[Call] = []
        self.connections = 0
        self._turn = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._run(self._listen)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._listener.getsockname()[1])

    def said(self, method: str) -> list[Mapping[str, Any]]:
        return [call.message for call in self.calls if call.method == method]

    def hang_up(self) -> None:
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join()

    def _run(self, work: Callable[..., None], *values: Any) -> None:
        thread = threading.Thread(target=work, args=values)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(sock)
            self._run(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        known = {user_of(token): password_of(token) for token in self.tokens}
        server = RpcServerConnection(self._protocol, DigestServer(known.get, "nonce"))
        with sock:
            while not server.closed:
                try:
                    server.receive_data(sock.recv(65536))
                except ConnectionError:
                    break
                for call in server.calls_received():
                    with self._turn:
                        self.calls.append(call)
                        answer = self._answer(call)
                    if answer is HANG_UP:
                        return
                    if isinstance(answer, Java):
                        server.fail(call.call_id, answer.exception, answer.text)
                    else:
                        assert isinstance(answer, Mapping)
                        server.reply(call.call_id, answer)
                with contextlib.suppress(ConnectionError):
                    sock.sendall(server.data_to_send())


@pytest.fixture
def hang_up() -> object:
    return HANG_UP


@pytest.fixture
def java() -> type[Java]:
    return Java


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeServer]]:
    servers: list[FakeServer] = []

    def start(protocol: Protocol, answer: Answer, *tokens: Token) -> FakeServer:
        servers.append(FakeServer(protocol, answer, *tokens))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def stage(hdfs: WebHdfs, make_request: Callable[..., Any]) -> Iterator[Callable[..., Stage]]:
    """Attempts of one job's master: `stage(replicas=2, …)` with keys of the job file."""
    made: list[Stage] = []

    def start(
        epoch: int = 1, patience: Patience | None = None, begin: bool = True, **keys: Any
    ) -> Stage:
        request = make_request(**keys)
        more = {} if patience is None else {"patience": patience}
        made.append(Stage(request, hdfs, RECORD, epoch=epoch, start=begin, **more))
        return made[-1]

    yield start
    for one in reversed(made):
        one.close()
