"""What a decision has come to so far, entered in the cluster as if it were done, and taken back.

Whoever is looked at next finds the starts, and those told to go, as they will be. Nothing is chosen
here.
"""

from collections.abc import Callable
from math import inf

from dromon.sched.asks import Placement
from dromon.sched.board import placement_of
from dromon.sched.cluster import Cluster
from dromon.sched.decisions import Decision, Grow, Preempt, Shrink, Start
from dromon.sched.job import QUEUED, RUNNING, STOPPING, Job, Seat
from dromon.sched.plan import Plan
from dromon.sched.preempt import Step


class Entered:
    """`sought`: somebody only asks about that job, so nothing of this will happen."""

    def __init__(self, cluster: Cluster, plan: Plan, now: float, sought: str | None) -> None:
        self.cluster = cluster
        self.plan = plan
        self.now = now
        self.decisions: list[Decision] = []
        self.started: list[tuple[Job, int]] = []  # and where its decision stands
        self.may_grow = False  # one of them, beyond what it starts with
        self.grown: list[tuple[Job, Placement]] = []
        self.stopped: list[tuple[Job, float]] = []  # and when it was to end
        self._shrunk: list[tuple[Job, frozenset[str]]] = []
        self.untouchable: set[str] = set()
        self.sought = sought

    def start(self, job: Job, seats: list[Seat]) -> None:
        placement = placement_of(seats, job.shape, self.cluster.nodes)
        self.plan.forget_fronts()
        self.cluster.occupy(job, placement, self.now, tuple(seats))
        self.started.append((job, len(self.decisions)))
        self.may_grow = self.may_grow or job.shape.can_grow
        self.untouchable.add(job.id)
        self.decisions.append(Start(job.id, placement))

    def extend(self, job: Job, placement: Placement) -> None:
        """More members for one that runs, or is only just starting."""
        self.cluster.add_members(job, placement, self.now)
        for started, at in self.started:
            if started is job:
                self.decisions[at] = Start(job.id, dict(job.placement))
                return
        self.grown.append((job, placement))
        self.decisions.append(Grow(job.id, placement))

    def tell(self, job: Job, steps: list[Step]) -> None:
        """Say who goes for this job; from here on they are expected to have gone after their
        grace."""
        leaving: dict[str, list[str]] = {}
        for other, seats, why in steps:
            self.untouchable.add(other.id)
            if why == "elastic":
                leaving.setdefault(other.id, []).extend(seat.member for seat in seats)
                continue
            self.decisions.append(Preempt(other.id, job.id, why))
            self.stopped.append((other, other.end))
            self._is_told(other)
        self.plan.forget_fronts()
        for id, members in leaving.items():
            self.decisions.append(Shrink(id, tuple(members), job.id))
            other = self.cluster.jobs[id]
            self._shrunk.append((other, other.going))
            other.going = other.going | set(members)
            self.cluster.shrinking.add(id)
            self.cluster.touch(other)

    def _is_told(self, job: Job) -> None:
        job.end, job.state = self.now + job.stop_grace, STOPPING
        self.cluster.stopping.add(job.id)
        self.cluster.touch(job)

    def _stays(self, job: Job, end: float) -> None:
        job.end, job.state = end, RUNNING
        self.cluster.stopping.discard(job.id)
        self.cluster.touch(job)

    def as_before(self, told: int) -> Callable[[], None]:
        """As if only the first so many had been told to go, until the answer is called."""
        later = self.stopped[told:]
        for job, end in later:
            self._stays(job, end)
        self.plan.forget_fronts()

        def again() -> None:
            for job, _ in later:
                self._is_told(job)
            self.plan.forget_fronts()

        return again

    def undo(self) -> None:
        self.plan.forget_fronts()
        for job, end in self.stopped:
            self._stays(job, end)
        for job, going in reversed(self._shrunk):
            job.going = going
            if not going:
                self.cluster.shrinking.discard(job.id)
            self.cluster.touch(job)
        for job, placement in self.grown:
            self.cluster.drop_members(job, placement, self.now)
        if not (self.stopped or self._shrunk or self.grown or self.sought):
            for job, at in self.started:
                start = self.decisions[at]
                assert isinstance(start, Start)
                self.cluster.leave(job, start.placement, self.now)
            return
        for job, _ in reversed(self.started):
            self.cluster.vacate(job, self.now)
            job.state, job.end, job.started = QUEUED, inf, 0.0
