"""The daemon's sockets: frames of this user's processes, and nothing else."""

import json
import os
import socket
import stat
import struct
import time

import pytest

from dromon.engines.local.server import answers


def raw(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(20)
    sock.connect(path)
    return sock


def frame(message: object) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def read(sock: socket.socket) -> dict:
    (size,) = struct.unpack(">I", exactly(sock, 4))
    return json.loads(exactly(sock, size))


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        assert more, "closed"
        data += more
    return data


@pytest.fixture
def status(local) -> dict:
    return {"op": "daemon_status", "version": local.client.ask("daemon_status")["version"]}


def test_only_this_user_can_open_the_sockets(local, status):
    for path in (local.home.socket, local.home.agents_socket):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_frame_may_come_byte_by_byte_and_several_at_once(local, status):
    with raw(local.home.socket) as sock:
        for byte in frame(status):
            sock.sendall(bytes([byte]))
        assert read(sock)["ok"]
        sock.sendall(frame(status) * 3)
        assert [read(sock)["ok"] for _ in range(3)] == [True] * 3


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 2**32 - 1),
        struct.pack(">I", 3) + b"{{{",
        frame([1, 2]),
        struct.pack(">I", 4) + b"\xff\xfe\xfd\xfc",
    ],
)
def test_whoever_speaks_nonsense_is_left_and_others_are_served(local, status, nonsense):
    for path in (local.home.socket, local.home.agents_socket):
        with raw(path) as sock:
            if path == local.home.agents_socket:
                assert read(sock)["op"] == "challenge"
            sock.sendall(nonsense)
            try:
                assert sock.recv(1) == b""
            except ConnectionResetError:
                pass
    assert local.client.ask("daemon_status")["pid"]


def test_an_agent_without_the_jobs_key_is_not_heard(local, status):
    with raw(local.home.agents_socket) as sock:
        read(sock)
        hello = {"op": "hello", "job": "x", "member": "worker-0", "run": 1, "nonce": "n", "mac": ""}
        sock.sendall(frame(hello))
        try:
            assert sock.recv(1) == b""
        except ConnectionResetError:
            pass


def test_a_watcher_that_leaves_is_forgotten(local, jobs, status):
    id = jobs.run("sleep 60")
    with raw(local.home.socket) as sock:
        sock.sendall(frame({**status, "op": "watch", "ref": id}))
        assert read(sock)["status"]["id"] == id
    time.sleep(0.05)
    local.stop(id, 0.0)
    assert jobs.end(id)["status"]["state"] == "stopped"


def test_a_socket_nobody_serves_does_not_answer(tmp_path):
    path = str(tmp_path / "s")
    assert not answers(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(path)
        assert not answers(path)
        sock.listen()
        assert answers(path)
