"""A launcher, a coordinator that speaks the real bytes, and a stage on which agents play."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dromon.agent import claim, process
from dromon.agent.frames import Unpacker, pack
from dromon.agent.launcher import send_launch
from dromon.agent.logfile import last_lines
from dromon.agent.plan import AgentPlan
from dromon.agent.protocol import is_proof, proof
from dromon.agent.record import Record
from dromon.frameworks.world import Member, World

KEY = b"0123456789abcdef"
JOB = f"job-{os.getpid()}"  # what is left of it is ended by its name: another worker has its own
PATIENCE = 30.0


def wait_for(claim_: Callable[[], Any], what: str = "it") -> Any:
    """Until `claim_` is true; a test that waits in vain fails."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = claim_()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"waited in vain for {what}")


class FakeCoordinator:
    """Answers every agent of one job. It opens the barrier at `ready` when `opens`."""

    def __init__(self, record: Record, *, key: bytes = KEY, epoch: int = 1, tcp: bool = False,
                 opens: bool = True, dismisses: bool = True, gpus: int = 0,
                 trusts: bool = False, framework: str = "none") -> None:  # fmt: skip
        self.record = record
        self.key, self.epoch = key, epoch
        self.opens, self.dismisses, self.gpus = opens, dismisses, gpus
        self.trusts, self.framework = trusts, framework
        self.renews = False  # leases
        self.heard: list[dict[str, Any]] = []
        self.lines = 0
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()
        if tcp:
            self._listener = socket.create_server(("127.0.0.1", 0))
            address = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            path = record.path(f"coordinator{epoch}.sock")
            self._listener = socket.socket(socket.AF_UNIX)
            fd = os.open(record.root, os.O_PATH)
            self._listener.bind(f"/proc/self/fd/{fd}/{os.path.basename(path)}")
            os.close(fd)
            self._listener.listen(128)
            address = f"unix:{path}"
        draft = Path(record.coordinator + ".new")
        draft.write_text(json.dumps({"address": address, "epoch": epoch}))
        draft.replace(record.coordinator)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.append(connection)
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        self.lines += 1
        unpacker = Unpacker()
        nonce = os.urandom(8).hex()
        try:
            connection.sendall(pack({"op": "challenge", "nonce": nonce}))
            while data := connection.recv(65536):
                for message in unpacker.feed(data):
                    self._answer(connection, nonce, message)
        except OSError:
            pass
        self.lines -= 1

    def _answer(self, connection: socket.socket, nonce: str, message: dict[str, Any]) -> None:
        op = message["op"]
        if op == "hello":
            nonces = (nonce, message["nonce"])
            if not (self.trusts or is_proof(message["mac"], self.key, "agent", nonces)):
                connection.close()
                return
            mac = proof(self.key, "coordinator", nonces)
            connection.sendall(pack({"op": "welcome", "mac": mac, "epoch": self.epoch}))
        self.heard.append(message)
        if op == "ready" and self.opens:
            connection.sendall(pack(self.barrier(message["ports"])))
        if op == "alive" and self.renews:
            connection.sendall(pack({"op": "alive", "asked": message["asked"]}))
        if op == "exited" and self.dismisses:
            connection.sendall(pack({"op": "bye"}))

    def barrier(self, ports: list[int]) -> dict[str, Any]:
        member = Member("worker", 0, 0, "127.0.0.1", tuple(ports), gpus=self.gpus)
        world = World(JOB, 1, self.framework, (member,))
        return {"op": "world", "world": world.to_json()}

    def send(self, message: dict[str, Any]) -> None:
        self.send_bytes(pack(message))

    def send_bytes(self, data: bytes) -> None:
        with self._lock:
            connection = self._connections[-1]
        connection.sendall(data)

    def said(self, op: str) -> list[dict[str, Any]]:
        return [m for m in list(self.heard) if m["op"] == op]

    def wait_for(self, op: str, count: int = 1) -> dict[str, Any]:
        return wait_for(lambda: len(self.said(op)) >= count and self.said(op)[-1], op)

    @property
    def is_silent(self) -> bool:
        return self.lines == 0

    def die(self) -> None:
        """As if killed: nothing is said, every line is cut."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                connection.close()
            self._connections.clear()


class Stage:
    """A job's record, its coordinator, and the launcher to start agents with."""

    def __init__(self, root: Path, launcher: socket.socket) -> None:
        self.record = Record(str(root))
        self.work = root / "work"
        self.work.mkdir()
        Path(self.record.key).write_bytes(KEY)
        self._launcher = launcher
        self._coordinators: list[FakeCoordinator] = []
        self._claims: list[claim.Claim] = []

    def coordinator(self, **how: Any) -> FakeCoordinator:
        made = FakeCoordinator(self.record, **how)
        self._coordinators.append(made)
        return made

    def plan(self, command: str | list[str], **how: Any) -> AgentPlan:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.work), **how.pop("env", {})}
        where = {"record": self.record.root, "work": str(self.work), **how}
        usual = {"run": 1, "attempt": 1, "grace": 5.0, "framework": "none", **where}
        return AgentPlan(JOB, "worker", 0, command=command, env=env, **usual)

    def launch(self, plan: AgentPlan, fds: list[int] | None = None) -> None:
        send_launch(self._launcher, plan, fds or [])

    def python(self, source: str, **how: Any) -> AgentPlan:
        script = self.work / "script.py"
        script.write_text(source)
        return self.plan([sys.executable, "-S", str(script)], **how)

    def directory(self, run: int = 1) -> Path:
        return Path(self.record.run("worker-0", run))

    def claim(self, run: int = 1) -> claim.Claim:
        found: claim.Claim = wait_for(lambda: claim.read(str(self.directory(run))), "the claim")
        self._claims.append(found)
        return found

    def exit(self, run: int = 1) -> dict[str, Any]:
        path = self.directory(run) / "exit.json"
        wait_for(path.exists, "the exit record")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def play(self, plan: AgentPlan, **how: Any) -> dict[str, Any]:
        """Launch under a coordinator and see it through; the exit record."""
        if not self._coordinators:
            self.coordinator(**how)
        self.launch(plan)
        return self.exit(plan.run)

    def wait_until_gone(self, run: int = 1) -> None:
        wait_for(lambda: not self.claim(run).is_alive, "the agent to leave")

    def wait_until_gone_or_idle(self) -> None:
        """Until the agent has closed its line: it was told `bye`."""
        wait_for(lambda: all(c.is_silent for c in self._coordinators), "the agent to hang up")

    def log(self, run: int = 1) -> list[tuple[str, bytes]]:
        lines = last_lines(self.record.log("worker-0", run), 10**9)
        return [(stream, text) for _, stream, text in lines]

    def wait_for_line(self, text: bytes) -> None:
        path = Path(self.record.log("worker-0", 1))
        wait_for(lambda: path.exists() and text in path.read_bytes(), repr(text))

    def clean_up(self) -> None:
        for found in self.directory().parent.glob("*/claim"):
            owner = claim.read(str(found.parent))
            if owner is not None and owner.is_alive:
                with suppress(ProcessLookupError):
                    os.kill(owner.pid, 9)
        for run in (1, 2):
            process.kill_survivors(f"{JOB}/worker-0/{run}")
        for coordinator in self._coordinators:
            try:
                coordinator.die()
            except OSError:
                pass


def run_launcher() -> "tuple[subprocess.Popen[bytes], socket.socket]":
    ours, theirs = socket.socketpair()
    # Descriptor 3 by way of a shell: a program started from here knows only 0, 1 and 2.
    child = subprocess.Popen(
        ["bash", "-c", f'exec "$0" -m dromon.agent.launcher 3<&{theirs.fileno()}', sys.executable],
        pass_fds=[theirs.fileno()],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    theirs.close()
    return child, ours


@pytest.fixture
def start_launcher() -> "Callable[[], tuple[subprocess.Popen[bytes], socket.socket]]":
    """For those who want to see it end; `launcher` serves all the others."""
    return run_launcher


@pytest.fixture(scope="session")
def launcher() -> Iterator[socket.socket]:
    child, ours = run_launcher()
    yield ours
    ours.close()
    assert child.wait(PATIENCE) == 0


@pytest.fixture
def stage(tmp_path: Path, launcher: socket.socket) -> Iterator[Stage]:
    made = Stage(tmp_path, launcher)
    yield made
    made.clean_up()
