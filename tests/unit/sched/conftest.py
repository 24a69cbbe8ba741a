"""Small clusters that read well: `box.submit("a", gpus=1)`, `box.go()`; and one with rules."""

from collections.abc import Callable
from typing import Any

import pytest

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk, Waiting
from dromon.sched.cluster import Cluster
from dromon.sched.decide import Decision, Preempt, Start, decide
from dromon.sched.explain import explain
from dromon.sched.rules import QueueRule, Rules

GIB = 2**30


class Box:
    """A cluster and the shell that feeds decisions back to it."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.seq = 0

    def node(self, name: str = "here", cpus: float = 4, memory: int = 16 * GIB, gpus: Any = 0,
             labels: tuple[str, ...] = ()) -> "Box":  # fmt: skip
        kinds = [""] * gpus if isinstance(gpus, int) else list(gpus)
        devices = tuple(Gpu(str(i), kind) for i, kind in enumerate(kinds))
        self.cluster.apply(events.NodeJoined(name, cpus, memory, devices, frozenset(labels)))
        return self

    def submit(self, id: str, *, priority: int = 0, preemptible: bool = False,
               roles: tuple[RoleAsk, ...] = (), replicas: int = 1, min: int | None = None,
               **needs: Any) -> None:  # fmt: skip
        least = replicas if min is None else min
        ask = roles or (RoleAsk("worker", replicas, least, **needs),)
        self.seq += 1
        self.cluster.apply(
            events.JobSubmitted(id, self.seq, 0.0, ask, priority, preemptible, "alice")
        )

    def decide(self, seed: int = 0) -> tuple[Decision, ...]:
        return decide(self.cluster, 0.0, seed)

    def go(self) -> list[str]:
        """Do what was decided; the ids of those that started."""
        started = []
        for decision in self.decide():
            if isinstance(decision, Start):
                self.cluster.apply(events.JobStarted(decision.job, decision.placement))
                started.append(decision.job)
            elif isinstance(decision, Preempt):
                self.cluster.apply(events.JobStopping(decision.job))
        return started

    def end(self, *ids: str) -> None:
        for id in ids:
            self.cluster.apply(events.JobEnded(id))

    def preempted(self) -> list[str]:
        return [d.job for d in self.decide() if isinstance(d, Preempt)]

    def why(self, id: str) -> Waiting:
        return explain(self.cluster, id, 0.0)

    def gpus_of(self, id: str) -> list[tuple[str, ...]]:
        return [share.gpus for share in self.cluster.jobs[id].placement.values()]


@pytest.fixture
def a_box() -> Callable[..., Box]:
    """Called with a node's measures: a box with that node. Called with none: an empty one."""
    return lambda **node: Box().node(**node) if node else Box()


class Site:
    """A cluster with rules, and the shell that carries decisions out at a given time."""

    def __init__(self, *queues: QueueRule, gpus: int = 8, nodes: int = 1, **rules: Any) -> None:
        self.cluster = Cluster(Rules(queues=queues, **rules))
        self.now = 0.0
        self.seq = 0
        for n in range(nodes):
            devices = tuple(Gpu(str(i)) for i in range(gpus))
            self.cluster.apply(events.NodeJoined(f"n{n}", 64, 2**40, devices))

    def submit(self, id: str, queue: str = "a", user: str = "ann", gpus: float = 1,
               members: int = 1, least: int | None = None, cpus: float = 0,
             **more: Any) -> None:  # fmt: skip
        self.seq += 1
        members_min = members if least is None else least
        ask = (RoleAsk("worker", members, members_min, gpus=gpus, cpus=cpus),)
        more.setdefault("preemptible", True)
        self.cluster.apply(
            events.JobSubmitted(id, self.seq, self.now, ask, user=user, queue=queue, **more)
        )

    def decide(self) -> Any:
        return decide(self.cluster, self.now, 0)

    def go(self) -> list[str]:
        started = []
        for d in self.decide():
            if isinstance(d, Start):
                self.cluster.apply(events.JobStarted(d.job, d.placement, self.now))
                started.append(d.job)
            elif isinstance(d, Preempt):
                self.cluster.apply(events.JobStopping(d.job, self.now, d.for_job))
        return started

    def gone(self) -> list[str]:
        return [d.job for d in self.decide() if isinstance(d, Preempt)]

    def end(self, *ids: str) -> None:
        for id in ids:
            self.cluster.apply(events.JobEnded(id, self.now))


@pytest.fixture
def a_site() -> type[Site]:
    """Called with rules of queues: a cluster that obeys them."""
    return Site
