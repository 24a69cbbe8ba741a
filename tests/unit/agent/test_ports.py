"""A held port is nobody's but the member's."""

import socket
import struct
import subprocess
import sys

import pytest

from dromon.agent.ports import Ports

IP_LOCAL_PORT_RANGE = 51  # Linux 6.3: narrows "any free port" for one socket
OPTIONS = {"reuse_address": [socket.SO_REUSEADDR], "reuse_port": [socket.SO_REUSEPORT],
           "both": [socket.SO_REUSEADDR, socket.SO_REUSEPORT]}  # fmt: skip

SERVER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.socket(family)
for option in sys.argv[3:]:
    server.setsockopt(socket.SOL_SOCKET, int(option), 1)
server.bind((sys.argv[1], int(sys.argv[2])))
server.listen()
print("listens", flush=True)
connection, _ = server.accept()
connection.sendall(b"hello")
"""


def serve(address: str, port: int, options: list[int]) -> subprocess.Popen[str]:
    words = [address, str(port), *map(str, options)]
    return subprocess.Popen(
        [sys.executable, "-S", "-c", SERVER, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::", "::1"])
@pytest.mark.parametrize("kind", OPTIONS)
def test_servers_as_frameworks_write_them_listen_on_a_held_port(address, kind):
    ports = Ports(1)
    with serve(address, ports.numbers[0], OPTIONS[kind]) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listens\n"
        near = "::1" if ":" in address else "127.0.0.1"
        with socket.create_connection((near, ports.numbers[0])) as client:
            assert client.recv(5) == b"hello"
    ports.close()


def test_server_without_either_option_finds_the_port_taken():
    ports = Ports(1)
    with serve("127.0.0.1", ports.numbers[0], []) as server:
        assert server.stderr is not None
        assert "Address already in use" in server.stderr.read()
    ports.close()


@pytest.mark.parametrize("kind", ["none", *OPTIONS])
def test_asking_for_any_port_never_gives_a_held_one(kind):
    """Even where only two ports are left to choose from and one of them is held."""
    ports = Ports(1)
    held = ports.numbers[0]
    got = []
    for _ in range(20):
        with socket.socket() as asker:
            narrow = struct.pack("=I", (held + 1) << 16 | held)
            try:
                asker.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, narrow)
            except OSError:
                pass  # an older kernel: then any port may come, and still not that one
            for option in OPTIONS.get(kind, []):
                asker.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                asker.bind(("", 0))
            except OSError:  # the other one is taken by a stranger
                continue
            got.append(asker.getsockname()[1])
    assert held not in got
    ports.close()


def test_ports_are_all_different_and_free_again_after_close():
    ports = Ports(50)
    numbers = ports.numbers
    assert len(set(numbers)) == 50
    ports.close()
    with socket.socket() as server:
        server.bind(("127.0.0.1", numbers[0]))
