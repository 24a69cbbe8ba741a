"""The engine protocol and the values that cross it. No engine's own words here.

The protocol is synchronous on purpose: importing asyncio costs a command five times what starting
Python does, and a command talks to one engine. A caller that wants several at once uses threads.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

JobRef = str  # the job's id


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something fixed by content. `url` says where the engine finds it."""

    digest: str
    url: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """A job, fully resolved: everything it will run is in here or named by digest."""

    id: str
    job: Mapping[str, Any]  # the resolved job file, `spec.Job.to_data()`
    code: Artifact | None  # the snapshot of `workdir`, None when there is none
    environment: Mapping[str, Any]  # {"kind": "host" | "uv", …} see packaging.environment
    supplied: Mapping[str, str] = field(default_factory=dict)  # values of secrets and null env
    facts: Mapping[str, Any] = field(default_factory=dict)  # git commit, dirty, user, host, cwd, …
    payload: Artifact | None = None  # a shipped function

    def __repr__(self) -> str:  # values of secrets never reach a log by accident
        return f"Launch({self.id})"


@dataclass(frozen=True, slots=True)
class Submission:
    """An engine's native request: printable, comparable, made without I/O. No secret in it."""

    engine: str
    id: str
    request: Mapping[str, Any]
    supplied: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Capabilities:
    engine: str
    gang: str  # who places gangs: "sched", "barrier", "volcano", "none"
    resources: Mapping[str, float]  # the most one member, or all of them, can ask for
    grace: float | None  # the longest stop_grace honoured; None: any
    queues: tuple[str, ...] = ("default",)
    enforced: Mapping[str, str] = field(default_factory=dict)  # limit -> how, in words
    lacks: Mapping[str, str] = field(default_factory=dict)  # job file key -> why not


@dataclass(frozen=True, slots=True)
class MemberStatus:
    member: str  # "worker-0"
    run: int
    rank: int | None
    state: str  # lifecycle.states of a member
    host: str = ""
    pid: int = 0
    gpus: tuple[str, ...] = ()
    memory: int = 0
    exit: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JobStatus:
    id: str
    number: int
    name: str
    state: str  # lifecycle.states of a job
    engine: str
    queue: str
    priority: int
    submitted: float
    started: float | None
    ended: float | None
    attempt: int
    user: str
    verdict: Mapping[str, Any] | None
    members: tuple[MemberStatus, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_terminal(self) -> bool:
        return self.ended is not None


@dataclass(frozen=True, slots=True)
class LogLine:
    time: float
    member: str
    rank: int | None
    stream: str  # "out" | "err"
    text: str
    run: int = 1


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job does not run yet, in one sentence and as data."""

    sentence: str
    reason: str  # resources, dependency, preparing, backoff, barrier, impossible
    position: int | None = None
    holders: tuple[str, ...] = ()
    missing: Mapping[str, float] = field(default_factory=dict)
    unblock: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    total: Mapping[str, float]
    free: Mapping[str, float]
    gpus: tuple[Mapping[str, Any], ...] = ()
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    running: int
    queued: int


@dataclass(frozen=True, slots=True)
class Filter:
    active_only: bool = True
    limit: int | None = None
    name: str | None = None


class Engine(Protocol):
    """What every engine gives. What it cannot do stands in its capabilities."""

    def probe(self) -> Capabilities: ...
    def compile(self, launch: Launch) -> Submission:
        """Pure and printable."""
        ...

    def submit(self, submission: Submission) -> JobRef:
        """The same id twice is one job. When this returns, the job is on disk."""
        ...

    def status(self, ref: JobRef) -> JobStatus: ...
    def list(self, where: Filter) -> list[JobStatus]: ...
    def watch(self, ref: JobRef) -> Iterator[JobStatus]:
        """The status now, then at every change, until it is terminal."""
        ...

    def why(self, ref: JobRef) -> Waiting | None: ...
    def stop(self, ref: JobRef, grace: float | None = None) -> None: ...
    def logs(self, ref: JobRef, follow: bool) -> Iterator[LogLine]: ...
    def nodes(self) -> list[Node]: ...
    def queues(self) -> list[Queue]: ...
