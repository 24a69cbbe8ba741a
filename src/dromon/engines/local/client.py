"""A command's side of the daemon's socket: ask, and start the daemon when there is none.

Imports as little as it can: this is on the way of every command.
"""

import json
import os
import socket
import struct
import time
from typing import Any

from dromon import __version__
from dromon.engines.home import Home
from dromon.errors import DaemonUnreachable, StateDirectoryUnusable, UsageError, from_json

Message = dict[str, Any]
TRIES = 5
START_LIMIT = 30.0  # seconds a new daemon may take to answer


class WentAway(DaemonUnreachable):
    """The daemon went away while it was asked."""


class Client:
    """Asks one home's daemon. Each question has its own connection, so threads may share it."""

    def __init__(self, home: Home, fake_gpus: int = 0, alone: bool = False) -> None:
        self.home = home
        self.fake_gpus = fake_gpus
        self.alone = alone  # a daemon started from here asks no arbiter

    def ask(self, op: str, **fields: Any) -> Message:
        """One question, one answer; an error of the daemon's is raised here."""
        talk, answer = self.begin(op, **fields)
        talk.close()
        return answer

    def begin(self, op: str, **fields: Any) -> "tuple[Talk, Message]":
        """A talk that goes on after its first answer.

        A daemon that dies while it is asked is asked again: jobs carry their id, so that the
        same submit twice is one job, and nothing else here does harm when it is done twice.
        """
        for attempt in range(TRIES):
            talk = Talk(self.connect())
            try:
                talk.send({"op": op, "version": __version__, **fields})
                return talk, talk.answer()
            except WentAway:
                talk.close()
                if attempt == TRIES - 1:
                    raise
                time.sleep(0.02 * attempt)
            except BaseException:
                talk.close()
                raise
        raise AssertionError("unreachable")

    def ask_running(self, op: str, **fields: Any) -> Message | None:
        """As `ask`, but no daemon is started for it: None when there is none."""
        sock = self._try()
        if sock is None:
            return None
        with Talk(sock) as talk:
            talk.send({"op": op, "version": __version__, **fields})
            return talk.answer()

    def wait_gone(self, pid: int) -> None:
        """Until that process has ended; whether anybody reaps it is none of our business."""
        deadline = time.monotonic() + START_LIMIT
        while _is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.005)

    def connect(self, start: bool = True) -> socket.socket:
        sock = self._try()
        if sock is not None:
            return sock
        if not start:
            raise DaemonUnreachable("no daemon runs", hint="Any `dromon run` starts it.")
        self.start()
        sock = self._try()
        if sock is None:
            raise DaemonUnreachable()
        return sock

    def _try(self) -> socket.socket | None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self.home.socket)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            sock.close()
            return None
        except OSError as error:
            sock.close()
            raise DaemonUnreachable(f"{self.home.socket}: {error.strerror}") from None
        if peer_uid(sock) != os.getuid():  # what we would say is not for others
            sock.close()
            raise DaemonUnreachable(
                f"{self.home.socket} is served by another user", hint=StateDirectoryUnusable.hint
            )
        return sock

    def start(self, stay: bool = False) -> None:
        """Start a daemon that outlives this command, and wait until it answers."""
        import subprocess
        import sys

        self.home.make()
        said = os.path.join(self.home.runtime, "daemon.error")
        if os.path.exists(said):
            os.unlink(said)
        ready, theirs = os.pipe()
        command = [sys.executable, "-m", "dromon.engines.local.spawn", "--home", self.home.root]
        fake = self.fake_gpus or pretended_gpus()
        command += ["--fake-gpus", str(fake)] * bool(fake) + ["--stay"] * stay
        command += ["--alone"] * self.alone
        command += ["--ready", str(theirs)]
        crash = os.path.join(self.home.runtime, "daemon.crash")
        try:
            with open(crash, "wb") as errors:
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                    cwd="/", start_new_session=True, env=daemon_environment(), pass_fds=(theirs,),
                    check=True,
                )  # fmt: skip
            os.close(theirs)
            theirs = -1
            self._wait_ready(ready, said, crash)
        finally:
            os.close(ready)
            if theirs >= 0:
                os.close(theirs)

    def _wait_ready(self, ready: int, said: str, crash: str) -> None:
        import select

        if not select.select([ready], [], [], START_LIMIT)[0]:
            raise DaemonUnreachable(f"the daemon did not answer within {START_LIMIT:.0f} s")
        if os.read(ready, 1):
            return
        if os.path.exists(said):
            raise _said(said)
        # It left without a word: another one serves, or will in a moment.
        deadline = time.monotonic() + START_LIMIT
        while not os.path.getsize(crash) and time.monotonic() < deadline:
            sock = self._try()
            if sock is not None:
                sock.close()
                return
            time.sleep(0.01)
        raise _crashed(crash)


class Talk:
    """One connection, blocking."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""

    def __enter__(self) -> "Talk":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def fileno(self) -> int:
        return self._sock.fileno()

    def pending(self) -> bool:
        """Something was received already and waits to be read."""
        return bool(self._buffer)

    def send(self, message: Message) -> None:
        body = json.dumps(message, separators=(",", ":")).encode()
        try:
            self._sock.sendall(struct.pack(">I", len(body)) + body)
        except OSError:
            raise WentAway from None

    def answer(self) -> Message:
        (size,) = struct.unpack(">I", self._exactly(4))
        message: Message = json.loads(self._exactly(size))
        if not message.get("ok"):
            raise from_json(message)
        return message

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                data = self._sock.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                raise WentAway
            self._buffer += data
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def peer_uid(sock: socket.socket) -> int:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", raw)[1]
    return uid


def daemon_environment() -> dict[str, str]:
    """The daemon keeps none of the caller's secrets: only what finding programs and files needs."""
    keep = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")
    prefixes = (
        "DROMON_",
        "XDG_",
        "UV_",
        "PIP_",
        "SSL_",
        "CUDA_VISIBLE",
        "HIP_VISIBLE",
        "ROCR_VISIBLE",
        "LD_LIBRARY",
        "LC_",
        "PYENV_",
    )
    proxies = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")  # for uv, in any case
    return {
        k: v
        for k, v in os.environ.items()
        if k in keep or k.startswith(prefixes) or k.lower() in proxies
    }


def pretended_gpus() -> int:
    said = os.environ.get("DROMON_FAKE_GPUS", "").strip() or "0"
    if not said.isdecimal():
        raise UsageError(f"DROMON_FAKE_GPUS={said}: expected how many, 0 or more")
    return int(said)


def _said(path: str) -> Exception:
    try:
        with open(path) as file:
            return from_json(json.load(file))
    except ValueError:  # not even this could be written
        return StateDirectoryUnusable("the daemon could not start: no room in the state directory")


def _crashed(path: str) -> Exception:
    with open(path, errors="replace") as file:
        lines = file.read().strip().splitlines()
    last = lines[-1] if lines else "without a word"
    return StateDirectoryUnusable(f"the daemon ended at once: {last}", hint=f"See {path}.")
