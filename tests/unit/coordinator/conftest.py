"""A coordinator with a socket, and real agents that stay in place."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dromon.agent import exitrecord, process
from dromon.agent.frames import Unpacker, pack
from dromon.agent.plan import AgentPlan
from dromon.agent.record import Record
from dromon.coordinator.coordinator import Coordinator, Effect, Keep, Send
from dromon.coordinator.door import Door
from dromon.lifecycle import events as ev
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import GangPlan, RolePlan
from dromon.lifecycle.verdict import Exit


class Place:
    """Where one job's agents stay. A thread for each line, one lock around the coordinator."""

    def __init__(self, root: Path, replicas: int, **plan: Any) -> None:
        self.job = f"job-{os.getpid()}-{secrets.token_hex(3)}"
        self.record = Record(str(root))
        Path(self.record.key).write_text("key")
        role = RolePlan("worker", replicas, replicas)
        gang = Gang(GangPlan(self.job, "none", (role,), **plan), prepared=True)
        self.coordinator = Coordinator(gang, shapes={"worker": (1, 0)}, in_place=True)
        self.gang = gang
        self.kept: list[ev.Event] = []
        self.heard: list[dict[str, Any]] = []
        self.renews = True  # answers `alive`
        self.is_away = False  # whoever knocks is sent off
        self.agents: list[subprocess.Popen[bytes]] = []
        self._lock = threading.RLock()
        self._lines: dict[int, socket.socket] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        address = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        Path(self.record.coordinator).write_text(json.dumps({"address": address, "epoch": 1}))
        self._over = threading.Event()
        for run in (self._accept, self._tick):
            threading.Thread(target=run, daemon=True).start()

    # ---- what a test does ---------------------------------------------------------------------

    def start(self, index: int, command: str, **how: Any) -> subprocess.Popen[bytes]:
        """An agent without a run, as a new pod has it."""
        plan = AgentPlan(
            self.job, "worker", index, run=0, attempt=0, record=self.record.root,
            work=self.record.root, command=command, framework="none",
            env={"PATH": os.environ["PATH"]}, **{"grace": 5.0, **how},
        )  # fmt: skip
        path = self.record.path(f"plan-{len(self.agents)}.json")
        Path(path).write_text(json.dumps(plan.to_json()))
        agent = subprocess.Popen([sys.executable, "-m", "dromon.agent.main", path])
        self.agents.append(agent)
        return agent

    def happen(self, event: ev.Event) -> None:
        with self._lock:
            self._carry_out(self.coordinator.on_event(event, time.time()))

    def cut(self) -> None:
        """Every line breaks."""
        with self._lock:
            for line in self._lines.values():
                line.shutdown(socket.SHUT_RDWR)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + 30
        while not (found := condition()):
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.01)
        return found

    def wait_state(self, member: str, state: str) -> None:
        def there() -> bool:
            known = self.gang.members.get(member)
            return known is not None and known.state == state

        self.until(there, f"{member} to be {state}")

    def wait_end(self) -> str:
        self.until(lambda: self.gang.is_terminal, "the end of the job")
        for agent in self.agents:
            agent.wait(30)
        return self.gang.state

    def exit(self, member: str, run: int) -> Exit:
        path = self.record.exit(member, run)
        found: Exit = self.until(lambda: exitrecord.read(path), "the exit record")
        return found

    def exits(self) -> list[tuple[str, int]]:
        return [(e.member, e.run) for e in self.kept if isinstance(e, ev.MemberExited)]

    def close(self) -> None:
        self._over.set()
        self._listener.close()
        for agent in self.agents:
            if agent.poll() is None:
                os.kill(agent.pid, signal.SIGKILL)
                agent.wait()
        for found in Path(self.record.root).glob("worker-*.*"):
            member, _, run = found.name.rpartition(".")
            process.kill_survivors(f"{self.job}/{member}/{run}")
        self.cut()

    # ---- the shell ----------------------------------------------------------------------------

    def _tick(self) -> None:
        while not self._over.wait(0.02):
            with self._lock:
                wake_at = self.gang.wake_at
                if wake_at is not None and wake_at <= time.time():
                    self.happen(ev.Tick())

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            if self.is_away:
                line.close()
            else:
                threading.Thread(target=self._talk, args=(line,), daemon=True).start()

    def _talk(self, line: socket.socket) -> None:
        door = Door(secrets.token_hex(8), lambda job: b"key" if job == self.job else None, 1)
        unpacker, admitted = Unpacker(), None
        try:
            line.sendall(pack(door.challenge()))
            while data := line.recv(65536):
                for message in unpacker.feed(data):
                    with self._lock:
                        self.heard.append(message)
                        if admitted is None:
                            admitted = door.admit(message)
                            assert admitted is not None
                            self._lines[line.fileno()] = line
                            line.sendall(pack(admitted.welcome))
                            effects = self.coordinator.on_hello(line.fileno(), *admitted[1:3])
                        else:
                            effects = self.coordinator.on_message(
                                line.fileno(), *admitted[1:3], message, time.time()
                            )
                        self._carry_out(effects)
        except OSError:
            pass
        with self._lock:
            self._lines.pop(line.fileno(), None)
            self.coordinator.on_gone(line.fileno())
        line.close()

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Keep):
                self.kept.append(effect.event)
            elif isinstance(effect, Send) and (self.renews or effect.message["op"] != "alive"):
                line = self._lines.get(effect.peer)
                try:
                    if line is not None:
                        line.sendall(pack(effect.message))
                except OSError:  # it left meanwhile; its thread will notice
                    pass


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    made: list[Place] = []

    def make(replicas: int = 1, **plan: Any) -> Place:
        made.append(Place(tmp_path, replicas, **plan))
        return made[-1]

    yield make
    for one in made:
        one.close()
