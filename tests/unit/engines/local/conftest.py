"""A machine that exists on paper, hands that only take notes, and real daemons to ask."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dromon import spec
from dromon.agent.devices import Locks, discover
from dromon.engines.base import Artifact, Launch, Submission
from dromon.engines.local.arbiter import Arbiter
from dromon.engines.local.compile import compile_launch
from dromon.engines.local.engine import LocalEngine
from dromon.engines.local.jobs import Job
from dromon.engines.local.journal import Journal
from dromon.engines.local.machine import Machine
from dromon.lifecycle import events as ev

HOST = {"kind": "host", "python": "python3"}


def launch(id: str = "train-aaaaaa", *, launch_keys: Any = None, **keys: Any) -> Launch:
    """A launch of the job file with these keys."""
    data = {"command": "true", **keys}
    job = spec.load_data({k: v for k, v in data.items() if v is not None}, "request", [])
    job = spec.resolve(job, id=id, name=id.rpartition("-")[0])
    given = {"code": None, "environment": HOST, "facts": {"user": "ann"}, **(launch_keys or {})}
    return Launch(id=id, job=job.to_data(), **given)


def submission(id: str = "train-aaaaaa", **keys: Any) -> Submission:
    return compile_launch(launch(id, **keys), f"/records/{id}")


class Notes:
    """Hands that do nothing but remember, and what was on disk when they were asked."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.done: list[tuple[Any, ...]] = []
        self.on_disk: list[list[str]] = []  # kinds of the job's events, at each launch

    def send(self, peer: int, message: dict[str, Any]) -> None:
        self.done.append(("send", peer, message["op"]))

    def prepare(self, job: Job) -> None:
        self.done.append(("prepare", job.id))

    def launch(self, job: Job, launches: list[ev.Launch]) -> None:
        self.on_disk.append([e["kind"] for _, e in self.journal.events(job.id)])
        self.done.append(("launch", job.id, *(f"{each.member}/{each.run}" for each in launches)))

    def keep_outputs(self, job: Job) -> None:
        self.done.append(("keep", job.id))

    def clean(self, job: Job) -> None:
        self.done.append(("clean", job.id))

    def of(self, what: str) -> list[tuple[Any, ...]]:
        return [each[1:] for each in self.done if each[0] == what]


class Bench:
    """An arbiter over a real journal, on a machine of 4 cores, 16 GiB and 4 GPUs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 100.0
        self.locks = Locks(str(root / "locks"))
        self.lives: list[Journal] = []
        self.live()

    def live(self) -> None:
        """Another life of the daemon over the same journal."""
        self.journal = Journal(str(self.root / "journal.db"))
        self.lives.append(self.journal)
        self.hands = Notes(self.journal)
        machine = Machine("box", 4.0, 16 << 30, tuple(discover(4)), None)
        self.arbiter = Arbiter(self.journal, machine, self.locks, self.hands, "ann")

    def submit(self, id: str = "train-aaaaaa", **keys: Any) -> Job:
        self.arbiter.submit([submission(id, **keys)], self.now)
        self.flush()
        return self.arbiter.jobs[id]

    def flush(self) -> None:
        self.arbiter.flush(self.now)

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for job in self.arbiter.awake():
            self.arbiter.happen(job, ev.Tick(), self.now)
        self.flush()

    def hear(self, job: Job, member: str, **message: Any) -> None:
        """A message of this member's agent."""
        run = job.gang.members[member].run
        peer = hash((job.id, member, run)) % 100_000
        coordinator = job.coordinator
        if coordinator.peers.get(member) != peer:
            effects = coordinator.on_hello(peer, member, run)
            self.arbiter.carry_out(job, effects, self.now)
        effects = coordinator.on_message(peer, member, run, message, self.now)
        self.arbiter.carry_out(job, effects, self.now)
        self.flush()

    def start(self, job: Job) -> None:
        """Its members reach the barrier and their processes start."""
        names = [n for n, m in job.gang.members.items() if m.state == "launched"]
        for name in names:
            self.hear(job, name, op="ready", host="127.0.0.1", ports=[4000])
        for name in names:
            self.hear(job, name, op="started", pid=77)

    def exit(self, job: Job, code: int = 0) -> None:
        """All its members end with this."""
        cause = "success" if code == 0 else "user_error"
        for name, member in list(job.gang.members.items()):
            if member.state in ("up", "ending"):
                self.hear(job, name, op="exited", exit={"code": code, "cause": cause})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for journal in made.lives:
        try:
            journal.close()
        except Exception:  # closed by its test
            pass


# ---- real daemons -------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def cache_of_ones_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Cleaning up in a test must not reach the environments of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DROMON_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@contextmanager
def serving(**options: Any) -> Iterator[LocalEngine]:
    """An engine whose daemon is stopped afterwards."""
    root = tempfile.mkdtemp(prefix="dromon-", dir="/tmp")
    engine = LocalEngine(root, **options)
    try:
        yield engine
    finally:
        for status in _active(engine):
            engine.stop(status["id"], 0.0)
        deadline = time.monotonic() + 20
        while _active(engine) and time.monotonic() < deadline:
            time.sleep(0.02)
        found = engine.client.ask_running("daemon_stop")
        if found is not None:
            engine.client.wait_gone(int(found["pid"]))
        shutil.rmtree(root, ignore_errors=True)


def _active(engine: LocalEngine) -> list[dict[str, Any]]:
    found = engine.client.ask_running("list", active=True)
    return [] if found is None else list(found["jobs"])


@pytest.fixture(scope="module")
def local() -> Iterator[LocalEngine]:
    """One daemon for all tests of a file."""
    with serving(fake_gpus=2) as engine:
        yield engine


class Jobs:
    """Runs things on an engine, from a working directory of one's own."""

    def __init__(self, engine: LocalEngine, cwd: Path) -> None:
        self.engine = engine
        self.cwd = cwd

    def run(self, *command: str, **keys: Any) -> str:
        """The id of a job that runs this command; a single word is shell."""
        given = command[0] if len(command) == 1 else list(command)
        return self.ask(data={"command": given, **keys})

    def ask(self, **request: Any) -> str:
        whole = {"cwd": str(self.cwd), "environ": dict(os.environ), **request}
        return str(self.engine.client.ask("run", request=whole)["id"])

    def end(self, id: str) -> dict[str, Any]:
        self.engine.wait(id, 60)
        return self.show(id)

    def show(self, id: str) -> dict[str, Any]:
        return self.engine.client.ask("show", ref=id)

    def until(self, id: str, *states: str) -> None:
        for status in self.engine.watch(id):
            if status.state in states:
                return
        raise AssertionError(f"{id} never was {states}")


@pytest.fixture
def jobs(local: LocalEngine, tmp_path: Path) -> Jobs:
    work = tmp_path / "work"
    work.mkdir()
    return Jobs(local, work)


@pytest.fixture
def make_submission() -> Callable[..., Submission]:
    return submission


@pytest.fixture
def make_launch() -> Callable[..., Launch]:
    return launch


@pytest.fixture
def serve() -> Callable[..., Any]:
    return serving


@pytest.fixture
def on() -> Callable[[LocalEngine, Path], Jobs]:
    return Jobs


@pytest.fixture
def artifact() -> Artifact:
    return Artifact("d" * 64, "blob:" + "d" * 64, 12)
