"""What to do now: start, preempt, refuse. Reads the cluster and changes nothing.

The order is strict: higher priority first, then who came first. A job that does not fit is
*blocked*. What it can have already is set aside for it, and what it lacks is closed to everybody
behind it; so others pass only where they cannot delay it. There is no backfill here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dromon.sched.asks import Placement, Refusal
from dromon.sched.cluster import Cluster, Job, Key
from dromon.sched.placement import Trial, can_ever_fit, place, reserve
from dromon.sched.preempt import make_room


@dataclass(frozen=True, slots=True)
class Start:
    job: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Preempt:
    job: str
    for_job: str


@dataclass(frozen=True, slots=True)
class Refuse:
    job: str
    reason: str


Decision = Start | Preempt | Refuse


def decide(cluster: Cluster, now: float, seed: int) -> tuple[Decision, ...]:
    decisions: list[Decision] = []
    is_first_blocked = True
    for look in walk(cluster, seed):
        if look.placement is not None:
            decisions.append(Start(look.job.id, look.placement))
        elif look.refusal is not None:
            decisions.append(Refuse(look.job.id, look.refusal.text))
        elif is_first_blocked:  # and so it may send lesser jobs away
            victims = make_room(cluster, look.trial, look.job)
            decisions += [Preempt(victim.id, look.job.id) for victim in victims]
            is_first_blocked = False
    return tuple(decisions)


@dataclass(frozen=True, slots=True)
class Look:
    """What was found for one job: a placement, a refusal, or that it is blocked."""

    job: Job
    trial: Trial  # what it was tried on; of a blocked job, before anything was set aside
    placement: Placement | None = None
    refusal: Refusal | None = None
    closed: frozenset[str] = frozenset()  # dimensions that nobody behind it may use

    @property
    def is_blocked(self) -> bool:
        return self.placement is None and self.refusal is None


def walk(cluster: Cluster, seed: int) -> Iterator[Look]:
    """Through the queue, as far as anybody could still start."""
    if not cluster.nodes:
        return  # nobody can be refused before it is known what there is
    trial, queue = Trial(cluster), Queue(cluster)
    # 1. In order: priority, then submit order, without those that may not pass.
    for job in queue:
        # 2. All of the gang, or nothing.
        placement = place(trial, job.ask, seed)
        if placement is not None:
            yield Look(job, trial, placement)
            continue
        # 3. What nothing could ever make room for does not stand in the way.
        refusal = can_ever_fit(cluster, job.ask)
        if refusal is not None:
            yield Look(job, trial, refusal=refusal)
            continue
        # 4. Nobody behind a blocked job may make it wait longer.
        before = trial.copy()
        closed = reserve(trial, job)
        queue.close(closed)
        yield Look(job, before, closed=closed)


class Queue:
    """The waiting jobs in order, without those that use a dimension closed meanwhile. Looks at
    one job per line, so what it costs does not depend on how many wait."""

    def __init__(self, cluster: Cluster) -> None:
        self._jobs = cluster.jobs
        self._heads: list[tuple[Key, frozenset[str], Iterator[Key]]] = []
        for uses, line in cluster.lines.items():
            self._advance(uses, iter(line))

    def _advance(self, uses: frozenset[str], line: Iterator[Key]) -> None:
        key = next(line, None)
        if key is not None:
            self._heads.append((key, uses, line))

    def close(self, dimensions: frozenset[str]) -> None:
        self._heads = [head for head in self._heads if not head[1] & dimensions]

    def __iter__(self) -> Iterator[Job]:
        while self._heads:
            head = min(self._heads, key=lambda h: h[0])
            self._heads.remove(head)
            key, uses, line = head
            self._advance(uses, line)
            yield self._jobs[key[2]]
