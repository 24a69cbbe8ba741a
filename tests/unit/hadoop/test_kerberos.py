"""A cluster that asks for Kerberos says so in its own bytes: vectors/kerberos.txt, over sockets."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dromon.hadoop.addresses import Address
from dromon.hadoop.faults import Unauthenticated
from dromon.hadoop.messages.client import APPLICATION_CLIENT
from dromon.hadoop.sasl import Auth, Simple
from dromon.hadoop.token import Token
from dromon.hadoop.transport import RpcClient, RpcFailed

LINES = (Path(__file__).parent / "vectors" / "kerberos.txt").read_text().splitlines()
SAID = {
    tuple(line.split(" ")[:2]): bytes.fromhex(line.split(" ")[2])
    for line in LINES
    if not line.startswith("#")
}
PREAMBLE = 7  # bytes after which a server knows how its client wants to prove itself


class Secure:
    """Says this to everyone, a byte at a time, and hangs up."""

    def __init__(self, words: bytes) -> None:
        self.connections = 0
        self._words = words
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with sock:
                sock.recv(PREAMBLE, socket.MSG_WAITALL)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for byte in self._words:
                    sock.sendall(bytes((byte,)))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):  # what it is told after that is of no interest to it
                    pass

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def secure() -> Iterator[Callable[[str, str], Secure]]:
    made: list[Secure] = []

    def start(takes: str, hears: str) -> Secure:
        made.append(Secure(SAID[takes, hears]))
        return made[-1]

    yield start
    for server in made:
        server.stop()


def ask(server: Secure, who: Auth | Token) -> None:
    client = RpcClient(APPLICATION_CLIENT, [server.address], who, what="ResourceManager")
    try:
        client.call("getClusterMetrics")
    finally:
        client.close()


@pytest.mark.parametrize("takes", ["token+kerberos", "kerberos"])
def test_a_cluster_that_wants_kerberos_is_refused_in_one_sentence_and_not_asked_again(
    secure, takes
):
    server = secure(takes, "simple")
    with pytest.raises(RpcFailed) as failed:
        ask(server, Simple("alice"))
    assert str(failed.value) == (
        f"the ResourceManager at {server.address} wants Kerberos, which Dromon cannot do yet"
    )
    assert failed.value.hint == (
        "Clusters with simple authentication work; Kerberos is not proven yet."
    )
    assert server.connections == 1


def test_a_token_is_not_shown_to_a_server_that_takes_only_kerberos(secure):
    server = secure("kerberos", "token")
    with pytest.raises(Unauthenticated, match="takes KERBEROS; Dromon came with TOKEN"):
        ask(server, Token(b"identifier", b"password", "RM_DELEGATION_TOKEN"))
    assert server.connections == 1
