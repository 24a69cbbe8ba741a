"""Until when what is free on a node is of use to somebody behind jobs that are planned first.

Told from bounds alone, without a plan: where it cannot be told it is said to be in doubt, never
guessed. For whole devices, where everything that runs ends some day.
"""

from bisect import bisect_right
from math import inf, nextafter

from dromon.sched.cluster import Cluster
from dromon.sched.job import Job, Shape
from dromon.sched.node import Node
from dromon.sched.slots import counted, first_slot


class Ahead:
    """Those who are planned before somebody, in order; none of them fits anywhere now."""

    __slots__ = ("_lasts", "_taken", "cluster", "count", "jobs", "members", "needed", "now", "soon")

    def __init__(self, cluster: Cluster, now: float) -> None:
        self.cluster = cluster
        self.now = now
        self.soon = nextafter(now, inf)
        self.jobs: list[Job] = []
        self.count = 0  # of their members
        self.members: list[int] = []  # of all up to each
        self.needed: dict[Shape, int] = {}  # of all up to the last of that shape
        self._lasts: list[float] = []  # see `starts_by`
        self._taken: set[int] = set()  # nodes that these may have taken

    def add(self, jobs: list[Job]) -> None:
        count, members, needed = self.count, self.members, self.needed
        for job in jobs:
            shape = job.shape
            count += shape.roles[0].min
            members.append(count)
            needed[shape] = count
        self.count = count
        self.jobs += jobs

    def starts_by(self, at: int) -> float:
        """When one of them will have started at the latest: each takes nodes that have room soonest
        for its kind, or some that those before it may have taken. inf: nobody can say."""
        lasts, taken = self._lasts, self._taken
        for job in self.jobs[len(lasts) : at + 1]:
            role = job.shape.roles[0]
            times = self.cluster.slot_times(role)
            times.refresh()
            moments, numbers = times.moments, times.numbers
            place, missing, last = 0, role.min, self.soon
            while missing and place < len(numbers):
                if numbers[place] not in taken:
                    missing -= 1
                    last = max(last, moments[place])
                place += 1
            lasts.append(inf if missing else last)
            taken.update(numbers if missing else numbers[: bisect_right(moments, last)])
        return lasts[at]


class Vacancy:
    """What is free on one node. `stop`: from then on all of it is taken, and none of those ahead is
    there before. `doubt`: before that nobody is, from then on somebody may be."""

    __slots__ = ("_before", "_firsts", "_looked", "ahead", "doubt", "node", "stop")

    def __init__(self, node: Node, ahead: Ahead) -> None:
        self.node = node
        self.ahead = ahead
        self.stop = self.doubt = inf
        self._looked = 0  # at so many of those ahead
        self._firsts: dict[Shape, float] = {}  # from when on such a member could be here
        self._before: dict[Shape, int] = {}  # so many other nodes, at least, have room sooner

    def is_clear(self, end: float) -> bool:
        """None of those ahead is here before this, as can be seen at a glance."""
        ahead, node = self.ahead, self.node
        for shape, needed in ahead.needed.items():
            role = shape.roles[0]
            first = first_slot(node, role)
            if first < end:
                if first <= ahead.soon:
                    return False
                if ahead.cluster.slot_times(role).before(first, needed) < needed:
                    return False
        return True

    def look(self, horizon: float) -> None:
        """At those ahead; what comes after the horizon may stay in doubt."""
        jobs = self.ahead.jobs
        for at in range(self._looked, len(jobs)):
            job = jobs[at]
            first = self._firsts.get(job.shape, -1.0)
            if first == -1.0:
                first = self._firsts[job.shape] = first_slot(self.node, job.shape.roles[0])
            if first >= self.stop or first >= self.doubt:
                continue
            if max(first, self.ahead.now) + job.duration > self.stop:
                continue  # it would still be here when all is taken
            if first >= horizon:
                self.doubt = first
            elif not self._is_elsewhere(at, job, first):
                if self._is_certain(job, first):
                    self.stop = first
                else:
                    self.doubt = first
        self._looked = len(jobs)

    def _is_elsewhere(self, at: int, job: Job, first: float) -> bool:
        """More nodes have room sooner than it and those before it can take."""
        needed = self.ahead.members[at]
        if first <= self.ahead.soon:
            return False
        if self._before.get(job.shape, 0) >= needed:
            return True
        times = self.ahead.cluster.slot_times(job.shape.roles[0])
        count = self._before[job.shape] = times.before(first, needed)
        return count >= needed or self.ahead.starts_by(at) < first

    def _is_certain(self, job: Job, first: float) -> bool:
        """It comes here then, for here is room before anywhere else, and takes all there is."""
        role, node = job.shape.roles[0], self.node
        if role.min > 1 or not role.is_bare or first <= self.ahead.soon:
            return False
        if first + job.duration > self.doubt:
            return False
        if bisect_right(node.counts or counted(node), first) - 1 != role.gpus:
            return False
        soonest = self.ahead.cluster.slot_times(role).soonest()
        return soonest is not None and soonest[0] == first and soonest[1] == node.number
