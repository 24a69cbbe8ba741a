"""Which queue's next job is looked at. Inside a queue: `walk`.

From the root down to the queue with the smallest share, or all queues as one line by a policy's
key. A queue can be put by until all others were looked at.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from dromon.sched.cluster import Cluster
from dromon.sched.job import Job, Shape
from dromon.sched.policies import Policy
from dromon.sched.queues import Queue
from dromon.sched.rules import ROOT
from dromon.sched.walk import PLANNED, LeafWalk


class Walks:
    """One through each leaf that was asked for."""

    def __init__(self, cluster: Cluster, now: float, shut: dict[Shape, float]) -> None:
        self.cluster = cluster
        self.now = now
        self.shut = shut
        self.walks: dict[int, LeafWalk] = {}
        self.is_last = False  # whoever comes now was put by, and is not any more

    def walk(self, leaf: Queue) -> LeafWalk:
        found = self.walks.get(leaf.number)
        if found is None:
            found = LeafWalk(self.cluster, leaf, self.now, self.shut)
            self.walks[leaf.number] = found
        return found


class FairOrder(Walks):
    """The queue of the smallest share; of equals, the one in which somebody has waited longest.
    `passes_over`: need nobody of a queue be looked at? `comes_later`: whoever is next in it, is it
    to be put by?"""

    def __init__(
        self, cluster: Cluster, now: float, shut: dict[Shape, float],
        passes_over: Callable[[Queue], bool], comes_later: Callable[[Queue], bool],
    ) -> None:  # fmt: skip
        super().__init__(cluster, now, shut)
        self.passes_over = passes_over
        self.comes_later = comes_later
        self.done: set[int] = set()
        self._put_by: set[int] = set()  # leaves
        self._passed: set[int] = set()  # these, what is done, and what has nothing else below it
        self._root = cluster.accounts.tree[ROOT]
        self._same: LeafWalk | None = None  # the last one, whose turn it still is

    def next(self) -> LeafWalk | None:
        """The walk whose next job is to be looked at."""
        same, self.is_last = self._same, False
        if same is not None and same.heap is not None and same.peek() is not None:
            return same  # nobody has started, so no share has changed
        found = self._seek(self._passed)
        if found is None and self._put_by:
            self.is_last = True
            found = self._seek(self.done)
            if found is not None:
                self._put_by.discard(found.leaf.number)
            self._passed = self.done | self._put_by
        self._same = found
        return found

    def put_by(self, walk: LeafWalk) -> None:
        """Its next job is looked at after those of all queues that were not put by."""
        self._put(walk.leaf)
        self._same = None

    def _put(self, leaf: Queue) -> None:
        self._put_by.add(leaf.number)
        self._passed.add(leaf.number)

    def take_up(self) -> None:
        """Nobody is put by any more."""
        self._put_by.clear()
        self._passed = set(self.done)
        self._same = None

    def _seek(self, passed: set[int]) -> LeafWalk | None:
        while True:
            queue: Queue | None = self._root
            while queue is not None and queue.children:
                above = queue
                queue = self._child(queue, passed)
                if queue is None and above is not self._root:
                    passed.add(above.number)
                    queue = self._root
            if queue is None or queue.number in passed:
                return None
            walk = self.walks.get(queue.number)
            if walk is None:
                if not self.is_last and self.comes_later(queue):
                    self._put(queue)
                    continue
                if not self.passes_over(queue):
                    walk = self.walk(queue)
            if walk is not None and walk.peek() is not None:
                return walk
            self.done.add(queue.number)
            self._passed.add(queue.number)

    def _child(self, queue: Queue, passed: set[int]) -> Queue | None:
        turns = queue.order
        turns.settle()
        for share in turns.shares:
            for child in turns.equals[share].whose:
                if child.number not in passed:
                    return child
        return None


Keyed = tuple[tuple[float | str, ...], Job]


class OneLine(Walks):
    """All queues as one line, by the policy's key."""

    def __init__(
        self, cluster: Cluster, policy: Policy, now: float, shut: dict[Shape, float]
    ) -> None:
        super().__init__(cluster, now, shut)
        keyed: list[Keyed] = [
            ((*policy.key(job, now), job.seq, job.id), job) for job in cluster.waiting()
        ]
        keyed.sort(key=lambda entry: entry[0])
        self._line = deque(keyed)
        self._taken_up: list[Keyed] = []  # a heap
        self._put_by: dict[str, deque[Keyed]] = {}  # by queue: its next job, and those behind it
        self._rest: deque[Keyed] | None = None  # of the queue whose turn it is, of those put by
        self._entry: Keyed | None = None

    def next(self) -> LeafWalk | None:
        """As in the other order."""
        self.is_last = False
        while (entry := self._first()) is not None:
            behind = self._put_by.get(entry[1].queue)
            if behind is not None:
                behind.append(entry)
            elif (walk := self._walk_to(entry)) is not None:
                return walk
        while self._rest or self._put_by:
            if not self._rest:
                name = min(self._put_by, key=lambda name: self._put_by[name][0][0])
                self._rest, self.is_last = self._put_by.pop(name), True
            if (walk := self._walk_to(self._rest.popleft())) is not None:
                return walk
            self.is_last = False
        return None

    def _first(self) -> Keyed | None:
        taken_up, line = self._taken_up, self._line
        if taken_up and (not line or taken_up[0][0] < line[0][0]):
            return heappop(taken_up)
        return line.popleft() if line else None

    def _walk_to(self, entry: Keyed) -> LeafWalk | None:
        job = entry[1]
        walk = self.walk(self.cluster.accounts.tree[job.queue])
        limit = self.shut.get(job.shape)
        is_too_long = limit is not None and job.duration >= limit
        if job.id in walk.seen or (walk.blocked >= PLANNED and is_too_long):
            return None
        self._entry, walk.next = entry, job
        return walk

    def put_by(self, walk: LeafWalk) -> None:
        """As in the other order."""
        assert self._entry is not None
        walk.next, behind = None, self._rest or deque()
        self._rest = None
        behind.appendleft(self._entry)
        self._put_by[walk.leaf.name] = behind

    def take_up(self) -> None:
        """As in the other order."""
        for entries in (*self._put_by.values(), self._rest or ()):
            for entry in entries:
                heappush(self._taken_up, entry)
        self._put_by, self._rest = {}, None
