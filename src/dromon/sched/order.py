"""In which order waiting jobs are looked at, without looking at those that could not start.

Inside a queue: priority, then the user with the smallest share, then who came first. Between
queues: from the root down to the one with the smallest share. Jobs of a line whose shape does not
fit now are passed over together once the queue has its planned starts.
"""

from collections.abc import Iterable, Iterator
from math import floor

from dromon.sched.cluster import Cluster
from dromon.sched.job import Job, Shape
from dromon.sched.policies import Policy
from dromon.sched.queues import Line, Member, Queue, first_of
from dromon.sched.rules import ROOT

PLANNED = 8  # blocked jobs of each queue that get a planned start
AT_ONCE = 64  # of all queues, in one decision


class Cursor:
    """How far one line was looked at."""

    __slots__ = ("at", "key", "line", "share")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.share = 0.0
        self.at = 0  # -1: to the end
        self.key: tuple[object, ...] = ()


class LeafWalk:
    """The jobs of one queue in order."""

    def __init__(self, cluster: Cluster, leaf: Queue, now: float, shut: dict[Shape, float]) -> None:
        self.cluster = cluster
        self.leaf = leaf
        self.now = now
        self.shut = shut
        self.blocked = 0  # of those that count
        self.has_blocked = False
        self.places: dict[Line, Cursor] = {}
        self.cursors: list[Cursor] = []
        self.groups = self._groups()
        self.next: Job | None = None
        self.cursor: Cursor | None = None
        self.seen: set[str] = set()

    def _groups(self) -> Iterator[list[Cursor]]:
        """Cursors that are to be merged by submit order, those that go first first."""
        leaf = self.leaf
        shares = leaf.waiting_members(self.now)
        if leaf.rule.aging:
            yield [c for share, members in shares for m in members
                   for c in self._cursors(m.lines.values(), share)]  # fmt: skip
        elif len(leaf.levels) == 1:
            for share, members in shares:
                yield [c for m in members for c in self._cursors(m.lines.values(), share)]
        else:
            groups = list(shares)
            for priority in sorted(leaf.levels, reverse=True):
                for share, members in groups:
                    found = self._cursors(_of(members, priority), share)
                    if found:
                        yield found

    def _cursors(self, lines: Iterable[Line], share: float) -> list[Cursor]:
        found = []
        for line in lines:
            cursor = self.places.get(line)
            if cursor is None:
                cursor = self.places[line] = Cursor(line)
            if cursor.at >= 0:
                cursor.share = share
                found.append(cursor)
        return found

    def reorder(self) -> None:
        """Somebody has started, so users' shares are not what they were."""
        self.cursors = []
        self.groups = self._groups()

    def peek(self) -> Job | None:
        """The next job to look at; None: nobody left who matters."""
        if self.next is not None:
            return self.next
        while True:
            best: Cursor | None = None
            gone = False
            for cursor in self.cursors:
                if not self._settle(cursor):
                    cursor.at = -1
                    gone = True
                elif best is None or cursor.key < best.key:
                    best = cursor
            if gone:
                self.cursors = [cursor for cursor in self.cursors if cursor.at >= 0]
            if best is not None:
                id = best.line.keys[best.at][1]
                if id in self.seen:  # room is being made for it, so it was looked at before all
                    best.at += 1
                    continue
                self.cursor = best
                self.next = self.cluster.jobs[id]
                return self.next
            fresh = next(self.groups, None)
            if fresh is None:
                return None
            self.cursors = fresh

    def _settle(self, cursor: Cursor) -> bool:
        """Move it on past those that cannot matter; False: to the end."""
        line = cursor.line
        if self.blocked >= PLANNED:
            limit = self.shut.get(line.shape)
            if limit is not None:
                at = line.next_below(cursor.at, limit)
                if at < 0:
                    return False
                cursor.at = at
        if cursor.at >= len(line.keys):
            return False
        key = line.keys[cursor.at]
        aging = self.leaf.rule.aging
        if aging:
            waited = max(0.0, self.now - self.cluster.jobs[key[1]].submitted)
            older = line.priority + floor(aging * waited / 3600)
            cursor.key = (-older, cursor.share, *key)
        else:
            cursor.key = key
        return True

    def advance(self) -> None:
        """The present one was looked at."""
        if self.cursor is not None:
            self.cursor.at += 1
        self.next = None

    def drop(self) -> None:
        """Nor do the others of its line matter."""
        if self.cursor is not None:
            self.cursor.at = -1
            self.cursors = [cursor for cursor in self.cursors if cursor is not self.cursor]
        self.next = None


def _of(members: list[Member], priority: int) -> list[Line]:
    return [ln for m in members for (level, _), ln in m.lines.items() if level == priority]


class FairOrder:
    def __init__(self, cluster: Cluster, now: float, shut: dict[Shape, float]) -> None:
        self.cluster = cluster
        self.now = now
        self.shut = shut
        self.walks: dict[int, LeafWalk] = {}
        self.done: set[int] = set()

    def walk(self, leaf: Queue) -> LeafWalk:
        found = self.walks.get(leaf.number)
        if found is None:
            found = LeafWalk(self.cluster, leaf, self.now, self.shut)
            self.walks[leaf.number] = found
        return found

    def next(self) -> LeafWalk | None:
        """The walk whose next job is to be looked at."""
        while True:
            found = self._next(self.cluster.accounts.tree[ROOT])
            if found is None:
                return None
            walk = self.walk(found[1])
            if walk.peek() is not None:
                return walk
            self.done.add(found[1].number)

    def _next(self, queue: Queue) -> tuple[tuple[int, str], Queue] | None:
        """The leaf to go to, with (seq, id) of its next job."""
        done = self.done
        if not queue.children:
            walk = self.walks.get(queue.number)
            if walk is None and not queue.rule.aging:
                first = first_of(queue, self.now)
                return None if first is None else (first, queue)
            job = self.walk(queue).peek()
            return None if job is None else ((job.seq, job.id), queue)
        walks = self.walks
        best: tuple[tuple[int, str], Queue] | None = None
        best_share = 0.0
        for share, number, child in queue.order:
            if best is not None and share > best_share:
                break
            if number in done or not child.queued:
                continue
            first = child.first  # known of a leaf that nobody has walked yet
            found = self._next(child) if first is None or number in walks else (first, child)
            if found is None:
                done.add(number)
            elif best is None or found[0] < best[0]:
                best, best_share = found, share
        return best


class OneLine:
    """All queues as one line, by the policy's key."""

    def __init__(
        self, cluster: Cluster, policy: Policy, now: float, shut: dict[Shape, float]
    ) -> None:
        self.cluster = cluster
        self.walks: dict[int, LeafWalk] = {}
        self.now = now
        self.shut = shut
        order = sorted(cluster.waiting(), key=lambda job: (*policy.key(job, now), job.seq, job.id))
        self.jobs = iter(order)
        self.at: Job | None = None

    def walk(self, leaf: Queue) -> LeafWalk:
        found = self.walks.get(leaf.number)
        if found is None:
            found = LeafWalk(self.cluster, leaf, self.now, self.shut)
            self.walks[leaf.number] = found
        return found

    def next(self) -> LeafWalk | None:
        for job in self.jobs:
            walk = self.walk(self.cluster.accounts.tree[job.queue])
            if job.id in walk.seen:
                continue
            limit = self.shut.get(job.shape)
            if walk.blocked >= PLANNED and limit is not None and job.duration >= limit:
                continue
            walk.next = job
            return walk
        return None
