"""Who may speak to the daemon, and what nonsense does to it: nothing."""

import json
import os
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench import CLI, NOBODY, Bench, eventually, is_alive

from dromon.agent.frames import LIMIT, pack

SAY = """
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    try:
        sock.connect(sys.argv[1])
        sock.sendall(bytes.fromhex(sys.argv[2]))
        print("answered" if sock.recv(1) else "hung up")
    except PermissionError:
        print("denied")
    except OSError:
        print("hung up")
"""


def ping(op: str = "list") -> bytes:
    from dromon import __version__

    return pack({"op": op, "version": __version__, "active": True})


def is_served(bench: Bench) -> None:
    assert bench("run", "--", "echo", "served").stdout == "served\n"


# ---- another user -------------------------------------------------------------------------------


def test_another_user_is_kept_out_by_the_directory_and_then_by_the_kernels_word(
    bench: Bench, nobody: Callable[..., "subprocess.CompletedProcess[str]"]
):
    bench("run", "--", "true")
    daemon = bench.daemon()
    sockets = [bench.home / "daemon.sock", bench.home / "agents.sock"]
    for path in sockets:
        assert nobody(SAY, str(path), ping().hex()).stdout == "denied\n"
    bench.home.chmod(0o755)
    for path in sockets:
        assert nobody(SAY, str(path), ping().hex()).stdout == "denied\n", "the socket is 0600"
        path.chmod(0o666)
        assert nobody(SAY, str(path), ping().hex()).stdout == "hung up\n", "peer credentials"
    # The owner himself is answered by the same bytes.
    said = subprocess.run([sys.executable, "-c", SAY, str(sockets[0]), ping().hex()],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert said.stdout == "answered\n"
    assert "refused a connection of another user" in bench("daemon", "logs").stdout
    assert bench.daemon() == daemon
    is_served(bench)


def test_another_users_command_is_told_that_the_directory_is_not_his(
    bench: Bench, nobody: Callable[..., "subprocess.CompletedProcess[str]"]
):
    bench("run", "--", "true")
    for mode in (0o700, 0o777):
        bench.home.chmod(mode)
        (bench.home / "daemon.sock").chmod(0o666)
        done = nobody(CLI, "/", "ps", DROMON_HOME=str(bench.home))
        assert done.returncode == 69, done.stderr
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr
    bench.home.chmod(0o700)
    is_served(bench)


IMPOSTOR = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o666)
    sock.listen()
    print("listening", flush=True)
    peer, _ = sock.accept()
    print(len(peer.recv(65536)), flush=True)
"""


@pytest.fixture
def impostor(home: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another user who serves where the daemon should."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    home.chmod(0o777)
    with subprocess.Popen(
        [f"/usr/bin/python{sys.version_info[0]}", "-c", IMPOSTOR, str(home / "daemon.sock")],
        stdout=subprocess.PIPE, text=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        yield process
        process.kill()


def test_a_command_says_nothing_to_a_daemon_of_another_user(
    bench: Bench, impostor: "subprocess.Popen[str]"
):
    """It would hear the caller's whole environment."""
    said = bench("run", "--", "true", code=69).stderr
    assert "is served by another user" in said
    assert "hint: " in said
    assert impostor.stdout is not None
    assert impostor.stdout.readline() == "0\n", "something was said"


# ---- nonsense -----------------------------------------------------------------------------------

NONSENSE = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "noise": bytes(range(256)) * 64,
    "empty": b"",
    "nothing": struct.pack(">I", 0),
    "not json": struct.pack(">I", 4) + b"\xff\xfe{]",
    "not an object": struct.pack(">I", 4) + b"[1] ",
    "too large": struct.pack(">I", LIMIT + 1) + b"x" * 1000,
    "largest": struct.pack(">I", 0xFFFFFFFF),
    "half a length": b"\0\0",
    "half a frame": struct.pack(">I", 1000) + b'{"op": "list"',
    "deep": struct.pack(">I", 200_000) + b'{"a":' + b"[" * 199_995,
    "no op": pack({}),
    "odd op": pack({"op": {"a": 1}, "version": [1]}),
    "private": pack({"op": "_forget", "version": "0.1.0"}),
    "wrong types": ping("status").replace(b'"active":true', b'"ref":12345  '),
    "no request": ping("run"),
    "hello": pack({"op": "hello", "job": "x", "member": "y", "run": 1, "nonce": "n", "mac": "m"}),
    "odd hello": pack({"op": "hello", "job": [], "run": "x"}),
}


def say(path: Path, data: bytes) -> bytes:
    """What comes back, until the daemon hangs up or has nothing more to say."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(str(path))
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            answer = b""
            while more := sock.recv(65536):
                answer += more
            return answer
        except (ConnectionError, BrokenPipeError):
            return b""


def test_nonsense_on_either_socket_disturbs_nobody(bench: Bench):
    id = bench.submit("--cpus", "0.5", "--", "sleep", "600")
    bench.until(id, "running")
    daemon = bench.daemon()
    for name in ("daemon.sock", "agents.sock"):
        for data in NONSENSE.values():
            answer = say(bench.home / name, data)
            assert b"Traceback" not in answer
    assert bench.status(id)["state"] == "running"
    assert bench.daemon() == daemon
    assert is_alive(daemon)
    is_served(bench)
    bench("stop", id, "--grace", "0")


@pytest.mark.parametrize("name", ["daemon.sock", "agents.sock"])
def test_a_frame_over_the_limit_is_not_waited_for(bench: Bench, name: str):
    bench("run", "--", "true")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(bench.home / name))
        if name == "agents.sock":
            sock.recv(65536)  # the challenge
        sock.sendall(struct.pack(">I", LIMIT + 1))
        try:
            assert sock.recv(65536) == b""
        except ConnectionResetError:
            pass
    is_served(bench)


@pytest.mark.parametrize("name", ["daemon.sock", "agents.sock"])
def test_connections_that_say_half_of_something_hold_nobody_up(bench: Bench, name: str):
    bench("run", "--", "true")
    lingering = []
    try:
        for n in range(200):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(str(bench.home / name))
            sock.sendall(struct.pack(">I", 1 << 20)[: n % 5] + b"x" * (n if n % 5 == 4 else 0))
            lingering.append(sock)
        is_served(bench)
    finally:
        for sock in lingering:
            sock.close()
    is_served(bench)


def test_what_is_wrong_with_a_question_is_answered_in_words(bench: Bench):
    bench("run", "--", "true")
    from dromon import __version__

    for message in (
        {"op": "no such thing"},
        {"op": "status", "ref": "nobody"},
        {"op": "list", "version": "0.0"},
        {"op": "run", "request": {}},
    ):
        raw = say(bench.home / "daemon.sock", pack({"version": __version__, **message}))
        (size,) = struct.unpack(">I", raw[:4])
        answer = json.loads(raw[4 : 4 + size])
        assert answer["ok"] is False
        assert answer["message"]
        assert "Traceback" not in answer["message"]


def test_an_agent_that_does_not_know_the_jobs_key_is_hung_up_on(bench: Bench):
    id = bench.submit("--", "sleep", "600")
    bench.until(id, "running")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(str(bench.home / "agents.sock"))
        challenge = sock.recv(65536)
        assert b"nonce" in challenge
        hello = {"op": "hello", "job": id, "member": "worker-0", "run": 1, "nonce": "00", "mac": ""}
        said = pack({"op": "exited", "exit": {"code": 0, "cause": "success"}})
        sock.sendall(pack({**hello, "mac": "0" * 64}) + said)
        try:
            assert sock.recv(65536) == b""
        except ConnectionResetError:
            pass
    time.sleep(0.1)
    assert bench.status(id)["state"] == "running"
    assert len(bench.members(id)) == 1
    bench("stop", id, "--grace", "0")
    bench.over(id)


def test_sockets_lie_in_a_directory_of_the_owners_even_when_the_home_is_deep(
    bench: Bench, tmp_path: Path
):
    """A path too long for a socket gets a stand-in elsewhere, just as private."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    env = {"DROMON_HOME": str(deep), "XDG_RUNTIME_DIR": str(bench.home)}
    try:
        assert bench("run", "--", "echo", "1", env=env).stdout == "1\n"
        [stand_in] = bench.home.glob("dromon-*")
        assert stat.S_IMODE(stand_in.stat().st_mode) == 0o700
        assert stat.S_IMODE((stand_in / "daemon.sock").stat().st_mode) == 0o600
    finally:
        pid = int((deep / "daemon.pid").read_text())
        bench("daemon", "stop", env=env)
        eventually(lambda: not is_alive(pid), "the daemon does not leave")
