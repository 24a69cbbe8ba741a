"""What is known about nodes and jobs, indexed. `apply` is the only way in; nothing decides here.

Waiting jobs stand in one line per set of dimensions they use, because a blocked job closes whole
dimensions to those behind it: `decide` then never looks at jobs that could not pass anyway.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from dromon.sched import events
from dromon.sched.asks import Ask, Free, Gpu, Placement, milli

QUEUED, RUNNING, STOPPING = "queued", "running", "stopping"

Key = tuple[int, int, str]  # (-priority, seq, id): the order of the queue
VictimKey = tuple[int, int, str]  # (priority, -start, id): who gives way first


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    seq: int
    submitted: float
    ask: Ask
    priority: int
    preemptible: bool
    user: str
    queue: str
    uses: frozenset[str]  # dimensions
    state: str = QUEUED
    placement: Placement = field(default_factory=dict)
    start: int = 0  # a later start has a higher number

    @property
    def key(self) -> Key:
        return (-self.priority, self.seq, self.id)

    @property
    def victim_key(self) -> VictimKey:
        return (self.priority, -self.start, self.id)


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    total: Free
    free: Free
    labels: frozenset[str]
    held: dict[str, str] = field(default_factory=dict)  # device -> who, outside of our control


class Cluster:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[str, Job] = {}
        self.lines: dict[frozenset[str], list[Key]] = {}  # of waiting jobs, by dimensions used
        self.victims: list[VictimKey] = []  # running and preemptible, first to go first
        self.occupants: dict[str, set[str]] = {}  # node -> jobs with a share of it
        self.stopping: set[str] = set()
        self._starts = 0

    def apply(self, event: events.Event) -> None:
        """Take note. What speaks of unknown jobs or nodes, or is old, changes nothing."""
        _APPLY[type(event)](self, event)

    def position(self, id: str) -> int | None:
        """1 for the first of the queue."""
        job = self.jobs.get(id)
        if job is None or job.state != QUEUED:
            return None
        return 1 + sum(bisect_left(line, job.key) for line in self.lines.values())

    def running(self) -> Iterator[Job]:
        """Everybody who holds a placement."""
        ids = {id for jobs in self.occupants.values() for id in jobs}
        return (self.jobs[id] for id in sorted(ids))

    # ---- nodes ----------------------------------------------------------------------------------

    def _node_joined(self, event: events.NodeJoined) -> None:
        total = Free(milli(event.cpus), event.memory, tuple(event.gpus))
        held = self.nodes[event.name].held if event.name in self.nodes else {}
        node = Node(event.name, total, total, frozenset(event.labels), held)
        self.nodes[event.name] = node
        self._recount(event.name)

    def _node_left(self, event: events.NodeLeft) -> None:
        self.nodes.pop(event.name, None)

    def _gpu_held(self, event: events.GpuHeld) -> None:
        self._hold(event.node, lambda held: {**held, event.device: event.by})

    def _gpu_freed(self, event: events.GpuFreed) -> None:
        self._hold(event.node, lambda held: {d: by for d, by in held.items() if d != event.device})

    def _hold(self, name: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        if name in self.nodes:
            node = self.nodes[name]
            self.nodes[name] = replace(node, held=change(node.held))
            self._recount(name)

    def _recount(self, name: str) -> None:
        """What is free follows from what there is and who has it; only GPUs need the order."""
        node = self.nodes.get(name)
        if node is None:
            return
        free = node.total
        taken: set[str] = set(node.held)
        for id in self.occupants.get(name, ()):
            for share in self.jobs[id].placement.values():
                if share.node == name:
                    taken.update(share.gpus)
                    free = Free(free.cpus - milli(share.cpus), free.memory - (share.memory or 0))
        gpus = _without(node.total.gpus, taken)
        self.nodes[name] = replace(node, free=Free(free.cpus, free.memory, gpus))

    # ---- jobs -----------------------------------------------------------------------------------

    def _job_submitted(self, event: events.JobSubmitted) -> None:
        if event.id in self.jobs:
            return
        ask = tuple(event.ask)
        uses = frozenset(dimension for role in ask for dimension in role.uses)
        job = Job(
            event.id, event.seq, event.time, ask, event.priority, event.preemptible, event.user,
            event.queue, uses,
        )  # fmt: skip
        self.jobs[job.id] = job
        insort(self.lines.setdefault(job.uses, []), job.key)

    def _job_started(self, event: events.JobStarted) -> None:
        job = self.jobs.get(event.id)
        if job is None or job.state != QUEUED:
            return
        _remove(self.lines[job.uses], job.key)
        self._starts += 1
        job = replace(job, state=RUNNING, placement=dict(event.placement), start=self._starts)
        self.jobs[job.id] = job
        if job.preemptible:
            insort(self.victims, job.victim_key)
        self._occupy(job)

    def _occupy(self, job: Job) -> None:
        for share in job.placement.values():
            self.occupants.setdefault(share.node, set()).add(job.id)
            node = self.nodes.get(share.node)
            if node is not None:
                self.nodes[share.node] = replace(node, free=node.free.less(share))

    def _vacate(self, job: Job) -> None:
        """Give a running job's shares back."""
        self.stopping.discard(job.id)
        if job.state == RUNNING and job.preemptible:
            _remove(self.victims, job.victim_key)
        for name in {share.node for share in job.placement.values()}:
            self.occupants[name].discard(job.id)
            node = self.nodes.get(name)
            if node is None:
                continue
            free, back = node.free, set[str]()
            for share in job.placement.values():
                if share.node == name:
                    back.update(share.gpus)
                    free = Free(free.cpus + milli(share.cpus), free.memory + (share.memory or 0))
            gpus = node.free.gpus
            if back:
                there = {g.id for g in gpus} | (back - node.held.keys())
                gpus = tuple(g for g in node.total.gpus if g.id in there)
            self.nodes[name] = replace(node, free=Free(free.cpus, free.memory, gpus))

    def _job_stopping(self, event: events.JobStopping) -> None:
        job = self.jobs.get(event.id)
        if job is None or job.state != RUNNING:
            return
        if job.preemptible:
            _remove(self.victims, job.victim_key)
        self.stopping.add(job.id)
        self.jobs[job.id] = replace(job, state=STOPPING)

    def _job_released(self, event: events.JobReleased) -> None:
        job = self.jobs.get(event.id)
        if job is None or job.state == QUEUED:
            return
        self._vacate(job)
        job = self.jobs[job.id] = replace(job, state=QUEUED, placement={}, start=0)
        insort(self.lines[job.uses], job.key)

    def _job_ended(self, event: events.JobEnded) -> None:
        job = self.jobs.pop(event.id, None)
        if job is None:
            return
        if job.state == QUEUED:
            _remove(self.lines[job.uses], job.key)
        else:
            self._vacate(job)


def _remove(line: list[tuple[int, int, str]], key: tuple[int, int, str]) -> None:
    del line[bisect_left(line, key)]


def _without(gpus: tuple[Gpu, ...], taken: set[str]) -> tuple[Gpu, ...]:
    return tuple(g for g in gpus if g.id not in taken) if taken else gpus


_APPLY: dict[type, Callable[[Cluster, Any], None]] = {
    events.NodeJoined: Cluster._node_joined,
    events.NodeLeft: Cluster._node_left,
    events.GpuHeld: Cluster._gpu_held,
    events.GpuFreed: Cluster._gpu_freed,
    events.JobSubmitted: Cluster._job_submitted,
    events.JobStarted: Cluster._job_started,
    events.JobStopping: Cluster._job_stopping,
    events.JobReleased: Cluster._job_released,
    events.JobEnded: Cluster._job_ended,
}
