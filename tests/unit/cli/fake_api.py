"""An api in memory: jobs that are told beforehand how they will behave. Speaks the real values."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dromon.contexts.file import Context, Contexts, make
from dromon.engines.base import JobStatus, LogLine, MemberStatus, Node, Queue, Waiting
from dromon.errors import JobNotFound, Problem
from dromon.places import Listing


@dataclass(frozen=True)
class Accepted:
    id: str
    number: int
    name: str
    notes: tuple[str, ...] = ()
    created: bool = True
    state: str = "queued"
    on: str = "local"
    links: dict[str, str] = field(default_factory=dict)
    is_known: bool = True


@dataclass
class FakeJob:
    """`lines` is what it prints; then it ends with `verdict`, or runs until it is stopped."""

    status: JobStatus
    lines: list[LogLine] = field(default_factory=list)
    verdict: dict[str, Any] | None = None
    end_state: str = "succeeded"
    waiting: Waiting | None = None
    wait: float = 0.0
    endless: bool = False


def make_status(number: int = 41, name: str = "unet3d", **changes: Any) -> JobStatus:
    members = changes.pop("members", 1)
    base = JobStatus(
        id=f"{name}-k3x9p2", number=number, name=name, state="running", engine="local",
        queue="default", priority=0, submitted=1000.0, started=1001.0, ended=None, attempt=1,
        user="ada", verdict=None,
        members=tuple(MemberStatus(f"worker-{i}", 1, i, "up") for i in range(members)),
    )  # fmt: skip
    return base._replace(**changes)


def line(text: str, rank: int = 0, stream: str = "out", run: int = 1) -> LogLine:
    return LogLine(1000.5, f"worker-{rank}", rank, stream, text, run)


class FakeMachine:
    """This machine alone: answers are told beforehand, calls are kept."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.views: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.versions: list[dict[str, Any]] = []
        self.victims: list[dict[str, Any]] = []
        self.found: dict[str, Any] = {}
        self.error: Exception | None = None

    def queue_views(self) -> dict[str, Any]:
        return {"views": self.views, "notes": self.notes}

    def change_queue(self, action: str, name: str, settings: Any = ()) -> dict[str, Any]:
        self.calls.append((action, name, list(settings)))
        if self.error is not None:
            raise self.error
        return {"version": 7, "notes": self.notes}

    def queue_history(self, limit: int) -> list[dict[str, Any]]:
        return self.versions[:limit]

    def drain_node(self, name: str | None, drain: bool) -> dict[str, Any]:
        self.calls.append((name, drain))
        return {"node": "box", "drained": drain, "running": ["train-k3x9p2"] if drain else []}

    def report(self, start: float) -> dict[str, Any]:
        self.calls.append(("report", start))
        return self.found

    def would_preempt(self, ref: str) -> list[dict[str, Any]]:
        return self.victims


class FakeApi:
    def __init__(self, *jobs: FakeJob) -> None:
        self.known = list(jobs)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.problems: list[Problem] = []
        self.differences: list[dict[str, Any]] = []
        self.machines: list[Node] = []
        self.page: dict[str, Any] = {}
        self.is_up = True
        self.log = ""
        self.silent: dict[str, str] = {}
        self.lanes: list[Queue] = []
        self.box = FakeMachine()
        self.steps: list[tuple[str, int, int]] = []  # of a submit, told as they happen
        self.links: dict[str, str] = {}
        self.is_known = True
        self.file = Contexts("contexts.json", "", {})
        self.about: dict[str, Any] = {}

    def _find(self, ref: str) -> FakeJob:
        for job in self.known:
            if ref in (job.status.id, job.status.name, str(job.status.number), "@last"):
                return job
        raise JobNotFound(f"no job {ref}")

    def start(self, **call: Any) -> Accepted:
        return self._submit("start", call.pop("progress"), call)

    def rerun(self, ref: str, *, overrides: Any = (), progress: Any, **where: Any) -> Accepted:
        call = {"ref": ref, "overrides": list(overrides), **where}
        return self._submit("rerun", progress, call)

    def _submit(self, name: str, progress: Any, call: dict[str, Any]) -> Accepted:
        self.calls.append((name, call))
        for step in self.steps:
            progress(*step)
            if step[0] == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
        status = self.known[0].status
        return Accepted(
            status.id, status.number, status.name, on=status.on, links=self.links,
            is_known=self.is_known,
        )  # fmt: skip

    def jobs(self, **where: Any) -> Listing:
        self.calls.append(("jobs", where))
        return Listing([job.status for job in self.known], self.silent)

    def status(self, ref: str, *, on: str = "") -> JobStatus:
        return self._find(ref).status

    def attach(self, ref: str, *, on: str = "") -> JobStatus:
        self.calls.append(("attach", {"ref": ref, "on": on}))
        return self._find(ref).status

    def watch(self, ref: str, *, on: str = "") -> Iterator[JobStatus]:
        job = self._find(ref)
        yield job.status

    def logs(self, ref: str, **where: Any) -> Iterator[LogLine]:
        self.calls.append(("logs", {"ref": ref, **where}))
        job = self._find(ref)
        until = time.monotonic() + job.wait
        while time.monotonic() < until and not job.status.is_terminal:
            time.sleep(0.02)
        yield from job.lines
        while where.get("follow") and job.endless and not job.status.is_terminal:
            time.sleep(0.02)
        if where.get("follow") and not job.status.is_terminal:
            job.status = job.status._replace(state=job.end_state, verdict=job.verdict, ended=1013.0)

    def why(self, ref: str, *, on: str = "") -> Waiting | None:
        return self._find(ref).waiting

    def stop(self, refs: Any, *, grace: float | None = None, on: str = "local") -> list[str]:
        where = {} if on == "local" else {"on": on}
        self.calls.append(("stop", {"refs": list(refs), "grace": grace, **where}))
        ids = []
        for ref in refs:
            job = self._find(ref)
            ids.append(job.status.id)
            if grace == 0 or not getattr(job, "stubborn", False):
                job.status = job.status._replace(
                    state="stopped",
                    ended=1010.0,
                    verdict={"cause": "stopped", "message": "stopped by ada", "signal": 15},
                )
        return ids

    def show(self, ref: str, **where: Any) -> dict[str, Any]:
        return {"status": self._find(ref).status, **self.page}

    def diff(self, a: str, b: str, **where: Any) -> list[dict[str, Any]]:
        self.calls.append(("diff", {"a": a, "b": b, **where}))
        return self.differences

    def remove(self, refs: Any, **where: Any) -> list[str]:
        self.calls.append(("remove", {"refs": list(refs), **where}))
        return [self._find(ref).status.id for ref in refs]

    def gc(self, **what: Any) -> dict[str, Any]:
        self.calls.append(("gc", what))
        return {"ok": True, "removed": ["a-1"], "freed": 3 * 2**20, "dry_run": what["dry_run"]}

    def nodes(self, **where: Any) -> list[Node]:
        self.calls.append(("nodes", where))
        return self.machines

    def queues(self, **where: Any) -> list[Queue]:
        self.calls.append(("queues", where))
        return self.lanes

    def machine(self) -> "FakeMachine":
        return self.box

    def check(self, file: str, overrides: Any = ()) -> list[Problem]:
        return self.problems

    def plan(self, **call: Any) -> list[dict[str, Any]]:
        self.calls.append(("plan", call))
        request = {"b": 1, "a": [1, 2]}
        return [
            {"engine": name, "request": request, "lacks": {}} for name in call["on"] or ["local"]
        ]

    def daemon(self, action: str, **options: Any) -> Any:
        self.calls.append(("daemon", {"action": action, **options}))
        if not self.is_up:
            return {"running": False, "stopped": False}
        return {"ok": True, "pid": 7, "version": "0.1.0", "started": 1000.0, "stay": False}

    def daemon_log(self) -> str:
        return self.log

    def contexts(self) -> Contexts:
        return self.file

    def add_context(
        self, name: str, kind: str, where: str, *, settings: Any, default: bool, check: bool
    ) -> tuple[Context, dict[str, Any]]:
        self.calls.append(("add_context", {"check": check}))
        self.file.by_name[name] = make(name, kind, where, settings)
        self.file.default = name if default else self.file.default
        return self.file.by_name[name], self.about if check else {}

    def remove_context(self, name: str) -> None:
        del self.file.by_name[self.file.get(name).name]

    def use_context(self, name: str) -> None:
        self.file.default = name
