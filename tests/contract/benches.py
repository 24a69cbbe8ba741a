"""One engine on trial, and a hand that may take things away: what the tests of the contract see.

A test sees the Engine protocol and a bench, nothing else, so that it holds on a real cluster too:
waits are generous, and members talk to the test through their logs and their checkpoint directory.
"""

import contextlib
import os
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dromon.agent.record import Record
from dromon.engines import outputs
from dromon.engines.base import Engine, Filter, JobRef, JobStatus, Launch, Waiting
from dromon.engines.intake import Intake, Request
from dromon.storage.blobs import BlobStore

# What every member's script starts with.
PREAMBLE = """\
import json, os, signal, sys, time
rank = int(os.environ["DROMON_RANK"])
attempt = int(os.environ["DROMON_ATTEMPT"])
me = os.environ["DROMON_ROLE"] + "-" + os.environ["DROMON_INDEX"]
def say(*words):
    print(*words, flush=True)
def path(name):
    return os.path.join(os.environ["DROMON_CHECKPOINT_DIR"], name)
def note(name, text="."):
    with open(path(name), "a") as file:
        file.write(text + "\\n")
def notes(name):
    try:
        with open(path(name)) as file:
            return file.read().split()
    except FileNotFoundError:
        return []
def wait_for(condition):
    end = time.time() + 300
    while not condition():
        if time.time() > end:
            sys.exit("waited in vain")
        time.sleep(0.02)
"""
URGENT = 9  # the priority of jobs that are to push others out
SMALL = {"cpus": 0.1, "memory": "64MiB"}


class Bench:
    """One engine on trial. What differs between engines is in the subclasses, at the end."""

    name: str
    engine: Engine
    patience = 1.0  # how many times as long as usual things may take
    tick = 0.0  # seconds between two jobs of which the engine can tell who came first
    python = sys.executable

    def __init__(self, home: Path) -> None:
        self.home = home
        self.intake = Intake(self.blobs(), str(home / "index"))
        self.engine = self.client()

    @classmethod
    def lacks(cls) -> str:
        """What it needs and this machine has not."""
        return ""

    def blobs(self) -> BlobStore:
        return BlobStore(str(self.home / "blobs"))

    # ---- jobs ---------------------------------------------------------------------------------

    def command(self, script: str) -> list[str]:
        return [self.python, "-S", "-c", PREAMBLE + textwrap.dedent(script)]

    def launch(
        self,
        script: str | None = None,
        *,
        code: Mapping[str, str] | None = None,
        supplied: Mapping[str, str] | None = None,
        **job: Any,
    ) -> Launch:
        """A job of this shape, resolved; members without resources of their own ask for little."""
        if "roles" in job:
            plain = {} if script is None else {"command": self.command(script)}
            job["roles"] = {
                name: {"resources": SMALL, **plain, **role} for name, role in job["roles"].items()
            }
        else:
            if script is not None:
                job["command"] = self.command(script)
            job = {"resources": SMALL, **job}
        workdir = Path(tempfile.mkdtemp(dir=self.home))
        for name, text in (code or {}).items():
            (workdir / name).parent.mkdir(parents=True, exist_ok=True)
            (workdir / name).write_text(text)
        request = Request(
            cwd=str(workdir),
            environ={**os.environ, **(supplied or {})},
            data={"name": "job", **job},
        )
        return self.intake.take(request).launch

    def run(self, script: str | None = None, **job: Any) -> JobRef:
        return self.engine.submit(self.engine.compile(self.launch(script, **job)))

    def fill(self) -> JobRef:
        """A job that holds every CPU until it is stopped."""
        ref = self.run("say('up'); time.sleep(600)", name="holder", resources={"cpus": self.cpus})
        self.has_said(ref, "up")
        return ref

    # ---- what is seen -------------------------------------------------------------------------

    @property
    def cpus(self) -> float:
        return sum(node.total["cpus"] for node in self.engine.nodes())

    def free_cpus(self) -> float:
        return sum(node.free["cpus"] for node in self.engine.nodes())

    def until(self, predicate: Callable[[], object], timeout: float = 30) -> bool:
        deadline = time.monotonic() + timeout * self.patience
        while not predicate():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.03)
        return True

    def ended(self, ref: JobRef, timeout: float = 60) -> JobStatus:
        over = self.until(lambda: self.engine.status(ref).is_terminal, timeout)
        assert over, f"{ref} did not end\n{self.told(ref)}"
        return self.engine.status(ref)

    def texts(self, ref: JobRef) -> list[str]:
        return [line.text for line in self.engine.logs(ref, follow=False)]

    def by_member(self, ref: JobRef) -> dict[str, list[str]]:
        said: dict[str, list[str]] = {}
        for line in self.engine.logs(ref, follow=False):
            said.setdefault(line.member, []).append(line.text)
        return said

    def has_said(self, ref: JobRef, text: str, times: int = 1) -> None:
        self.until(
            lambda: self.texts(ref).count(text) >= times or self.engine.status(ref).is_terminal
        )
        assert self.texts(ref).count(text) >= times, self.told(ref)

    def waits(self, ref: JobRef) -> bool:
        return self.until(
            lambda: self.engine.status(ref).state == "queued" and self.engine.why(ref) is not None
        )

    def runs(self, ref: JobRef) -> None:
        """It is said to run: a member may speak before the engine has heard that it started."""
        assert self.until(lambda: self.engine.status(ref).state == "running"), self.told(ref)

    def waits_for(self, ref: JobRef, holder: JobRef) -> Waiting:
        """What is said of it, once that names who holds what it needs."""
        said: list[Waiting | None] = []

        def is_named() -> bool:
            said.append(self.engine.why(ref))
            return said[-1] is not None and holder in said[-1].holders

        assert self.waits(ref), self.told(ref)
        assert self.until(is_named), f"{said[-1]}\n{self.told(ref)}"
        assert said[-1] is not None
        return said[-1]

    def told(self, ref: JobRef) -> str:
        """All there is to say about a job, for a failed assertion."""
        lines = [f"{line.member}#{line.run}: {line.text}" for line in self.engine.logs(ref, False)]
        return "\n".join([repr(self.engine.status(ref)), *lines[-50:]])

    def leave(self) -> None:
        """The client goes, and another comes."""
        self.engine = self.client()

    def clear(self) -> None:
        """Nothing of one test is left for the next."""
        for status in self.engine.list(Filter()):
            self.engine.stop(status.id, 0)
        assert self.until(lambda: not self.engine.list(Filter()))

    # ---- the engine's own way -----------------------------------------------------------------

    def client(self) -> Engine:
        raise NotImplementedError

    def evict(self, ref: JobRef, member: str) -> None:
        """Take a member away from outside, without a word."""
        raise NotImplementedError

    def evict_politely(self, ref: JobRef, member: str) -> None:
        """Take a member away from outside, but give it its grace."""
        raise NotImplementedError

    def restart_controller(self, after: float = 0) -> None:
        """Whatever decides is gone at once, and comes back after so many seconds."""
        raise NotImplementedError

    def outputs(self, ref: JobRef) -> dict[str, bytes]:
        listed = outputs.read(Record(str(self.home / "jobs" / ref)))["outputs"]
        blobs = self.blobs()
        return {o["path"]: blobs.read(o["digest"]) for o in listed if not o.get("missing")}

    def survivors(self) -> list[str]:
        """Processes of this bench's members, as far as this machine can see them."""
        mark = os.fsencode(f"DROMON_CHECKPOINT_DIR={self.home}")
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        return found

    def close(self) -> None: ...


class MemoryBench(Bench):
    name = "memory"

    def __init__(self, home: Path) -> None:
        from dromon.engines.memory.cluster import Cluster
        from dromon.engines.memory.controller import Controller

        self.cluster = Cluster(cpus=4)
        self.controller = Controller(self.cluster)
        super().__init__(home)

    def client(self) -> Engine:
        from dromon.engines.memory.engine import MemoryEngine

        return MemoryEngine(self.cluster, str(self.home))

    def evict(self, ref: JobRef, member: str) -> None:
        self.cluster.kill(self._pod(ref, member))

    def evict_politely(self, ref: JobRef, member: str) -> None:
        self.cluster.delete(self._pod(ref, member))

    def _pod(self, ref: JobRef, member: str) -> Any:
        pods = self.cluster.pods(ref)
        return next(p for p in pods if p.member == member and p.phase == "Running")

    def restart_controller(self, after: float = 0) -> None:
        from dromon.engines.memory.controller import Controller

        self.controller.drop()
        time.sleep(after)
        self.controller = Controller(self.cluster)

    def close(self) -> None:
        self.cluster.close()
        self.controller.drop()


class LocalBench(Bench):
    name = "local"

    def client(self) -> Engine:
        from dromon.engines.local.engine import LocalEngine

        return LocalEngine(str(self.home))

    def evict(self, ref: JobRef, member: str) -> None:
        os.kill(self._agent(ref, member), signal.SIGKILL)

    def evict_politely(self, ref: JobRef, member: str) -> None:
        os.kill(self._agent(ref, member), signal.SIGTERM)

    def _agent(self, ref: JobRef, member: str) -> int:
        pid = next(m.pid for m in self.engine.status(ref).members if m.member == member)
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def restart_controller(self, after: float = 0) -> None:
        pid = int((self.home / "daemon.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        time.sleep(after)

    def close(self) -> None:
        pid = int((self.home / "daemon.pid").read_text().split()[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        self.until(lambda: not Path(f"/proc/{pid}").exists(), timeout=10)
