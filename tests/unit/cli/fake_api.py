"""An api in memory: jobs that are told beforehand how they will behave. Speaks the real values."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dromon.engines.base import JobStatus, LogLine, MemberStatus, Node, Waiting
from dromon.errors import JobNotFound, Problem


@dataclass(frozen=True)
class Accepted:
    id: str
    number: int
    name: str
    notes: tuple[str, ...] = ()
    created: bool = True
    state: str = "queued"


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

    def _find(self, ref: str) -> FakeJob:
        for job in self.known:
            if ref in (job.status.id, job.status.name, str(job.status.number), "@last"):
                return job
        raise JobNotFound(f"no job {ref}")

    def start(self, **call: Any) -> Accepted:
        self.calls.append(("start", call))
        status = self.known[0].status
        return Accepted(status.id, status.number, status.name)

    def rerun(self, ref: str, *, overrides: Any = ()) -> Accepted:
        self.calls.append(("rerun", {"ref": ref, "overrides": list(overrides)}))
        status = self.known[0].status
        return Accepted(status.id, status.number, status.name)

    def jobs(self, **where: Any) -> list[JobStatus]:
        self.calls.append(("jobs", where))
        return [job.status for job in self.known]

    def status(self, ref: str) -> JobStatus:
        return self._find(ref).status

    def watch(self, ref: str) -> Iterator[JobStatus]:
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

    def why(self, ref: str) -> Waiting | None:
        return self._find(ref).waiting

    def stop(self, refs: Any, *, grace: float | None = None) -> list[str]:
        self.calls.append(("stop", {"refs": list(refs), "grace": grace}))
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

    def show(self, ref: str) -> dict[str, Any]:
        return {"status": self._find(ref).status, **self.page}

    def diff(self, a: str, b: str) -> list[dict[str, Any]]:
        self.calls.append(("diff", {"a": a, "b": b}))
        return self.differences

    def remove(self, refs: Any) -> list[str]:
        return [self._find(ref).status.id for ref in refs]

    def gc(self, **what: Any) -> dict[str, Any]:
        self.calls.append(("gc", what))
        return {"ok": True, "removed": ["a-1"], "freed": 3 * 2**20, "dry_run": what["dry_run"]}

    def nodes(self, on: str = "local") -> list[Node]:
        return self.machines

    def check(self, file: str, overrides: Any = ()) -> list[Problem]:
        return self.problems

    def plan(self, **call: Any) -> list[dict[str, Any]]:
        self.calls.append(("plan", call))
        request = {"b": 1, "a": [1, 2]}
        return [{"engine": name, "request": request, "lacks": {}} for name in call["on"]]

    def daemon(self, action: str, **options: Any) -> Any:
        self.calls.append(("daemon", {"action": action, **options}))
        if not self.is_up:
            return {"running": False, "stopped": False}
        return {"ok": True, "pid": 7, "version": "0.1.0", "started": 1000.0, "stay": False}

    def daemon_log(self) -> str:
        return self.log
