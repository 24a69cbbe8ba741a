"""The engine protocol and the values that cross it. No engine's own words here.

The protocol is synchronous on purpose: importing asyncio costs a command five times what starting
Python does, and a command talks to one engine. A caller that wants several at once uses threads.
For the same reason the values are named tuples: as dataclasses they would cost a command 15 ms.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

JobRef = str  # the job's id


def token() -> str:
    """The end of a job's id: six letters of base32. The same token sent twice is the same job."""
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    return "".join(alphabet[byte & 31] for byte in os.urandom(6))


class Artifact(NamedTuple):
    """Something fixed by content. `url` says where the engine finds it."""

    digest: str
    url: str
    size: int = 0


class Launch(NamedTuple):
    """A job, fully resolved: everything it will run is in here or named by digest."""

    id: str
    job: Mapping[str, Any]  # the resolved job file, `spec.Job.to_data()`
    code: Artifact | None  # the snapshot of `workdir`, None when there is none
    environment: Mapping[str, Any]  # {"kind": "host" | "uv", …} see packaging.environment
    supplied: Mapping[str, str] = {}  # values of secrets and null env
    facts: Mapping[str, Any] = {}  # git commit, dirty, user, host, cwd, …
    payload: Artifact | None = None  # a shipped function

    def __repr__(self) -> str:  # values of secrets never reach a log by accident
        return f"Launch({self.id})"


class Submission(NamedTuple):
    """An engine's native request: printable, comparable, made without I/O. No secret in it."""

    engine: str
    id: str
    request: Mapping[str, Any]
    supplied: Mapping[str, str] = {}

    def __repr__(self) -> str:  # values of secrets never reach a log by accident
        return f"Submission({self.engine}, {self.id})"


class Capabilities(NamedTuple):
    engine: str
    gang: str  # who places gangs: "sched", "barrier", "volcano", "none"
    resources: Mapping[str, float]  # the most one member, or all of them, can ask for
    grace: float | None  # the longest stop_grace honoured; None: any
    queues: tuple[str, ...] = ("default",)
    enforced: Mapping[str, str] = {}  # limit -> how, in words
    lacks: Mapping[str, str] = {}  # job file key -> why not


class MemberStatus(NamedTuple):
    member: str  # "worker-0"
    run: int
    rank: int | None
    state: str  # lifecycle.states of a member
    host: str = ""
    pid: int = 0
    gpus: tuple[str, ...] = ()
    memory: int = 0
    exit: Mapping[str, Any] | None = None


class JobStatus(NamedTuple):
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
    resources: Mapping[str, float] = {}
    on: str = "local"  # or the name of the context it is in

    @property
    def is_terminal(self) -> bool:
        return self.ended is not None


class LogLine(NamedTuple):
    time: float
    member: str
    rank: int | None
    stream: str  # "out" | "err"
    text: str
    run: int = 1


class Waiting(NamedTuple):
    """Why a job does not run yet, in one sentence and as data."""

    sentence: str
    # In the queue: resources, order (behind another job), cap (it would break one), reservation,
    # about to start, impossible.
    # Before and after it: preparing, barrier, backoff, resize; growing (it runs, with fewer members
    # than it asked for); and running, stopping, unknown.
    reason: str
    position: int | None = None
    holders: tuple[str, ...] = ()
    missing: Mapping[str, float] = {}
    unblock: tuple[str, ...] = ()
    start: float | None = None  # when it is likely to start
    sure: str = "unknown"  # how sure that is: "planned" (nobody may delay it), "likely", "unknown"


class Node(NamedTuple):
    name: str
    total: Mapping[str, float]
    free: Mapping[str, float]
    gpus: tuple[Mapping[str, Any], ...] = ()
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Queue(NamedTuple):
    name: str
    running: int
    queued: int
    capacity: float | None = None  # its share of all there is, 0 to 1; None: no such notion
    used: float | None = None  # how much of its capacity is in use; over 1 where it borrows
    state: str = "running"  # "stopped", "draining": takes nothing in


class Filter(NamedTuple):
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
    def list(self, where: Filter) -> Sequence[JobStatus]: ...
    def watch(self, ref: JobRef) -> Iterator[JobStatus]:
        """The status now, then at every change, until it is terminal."""
        ...

    def why(self, ref: JobRef) -> Waiting | None: ...
    def stop(self, ref: JobRef, grace: float | None = None) -> None: ...
    def logs(self, ref: JobRef, follow: bool) -> Iterator[LogLine]: ...
    def nodes(self) -> Sequence[Node]: ...
    def queues(self) -> Sequence[Queue]: ...


# What is being done, bytes so far, bytes in all (0: nobody knows). May be called very often.
Progress = Callable[[str, int, int], None]
# The last step of a submit. An interrupt before it leaves nothing submitted; from it on an
# interrupt is held back until the engine has answered.
SUBMITTING = "submitting"
