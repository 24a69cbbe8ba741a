"""In which order the waiting jobs of one queue are looked at: priority, then the user with the
smallest share, then who came first. Which queue is next, `order` says.

Jobs of a line whose shape does not fit now are passed over together once the queue has its planned
starts.
"""

from bisect import bisect_right
from heapq import heappop, heappush, heapreplace
from typing import Final

from dromon.sched.cluster import Cluster
from dromon.sched.job import Job, Shape
from dromon.sched.queues import Line, Member, Queue

PLANNED: Final = 8  # blocked jobs of each queue that get a planned start


class Cursor:
    """How far one line was looked at."""

    __slots__ = ("at", "line", "share")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.share = 0.0
        self.at = 0  # -1: to the end


# By priority, share, then who came first: of a user, or of one of its lines.
Entry = tuple[int, float, int, str, Member | Cursor]


class LeafWalk:
    """The jobs of one queue in order: user by user as long as anybody matters, line by line once
    only those do whose shape still fits."""

    def __init__(self, cluster: Cluster, leaf: Queue, now: float, shut: dict[Shape, float]) -> None:
        self.leaf = leaf
        self.now = now
        self.shut = shut
        self.blocked = 0  # of those that count
        self.has_blocked = False
        self.heap: list[Entry] | None = None  # users, and lines of those that were opened
        self.looked: dict[Member, int] = {}  # how many of a user's jobs were looked at
        self.dropped: set[Line] = set()
        self.opened: dict[Member, list[Cursor]] = {}
        self._kinds: list[tuple[int, Shape]] | None = None  # see `_left`
        self.next: Job | None = None
        self.cursor: Member | Cursor | None = None  # where `next` is from
        self._passed: Job | None = None  # looked at, and its cursor is still to be moved
        self._is_dropped = False
        self.seen: set[str] = set()

    def _fill(self) -> list[Entry]:
        leaf, opened, looked = self.leaf, self.opened, self.looked
        if leaf.past is not None:
            leaf.weigh_users(self.now)
        if leaf.rule.aging:
            for member in leaf.members.values():
                if member.lines and member not in opened:
                    opened[member] = [Cursor(line) for line in member.lines.values()]
        turns = leaf.in_turn()
        heap: list[Entry] = [
            (-priority, share, member.age, member.name, member)
            for priority in sorted(turns, reverse=True) for share in turns[priority].shares
            for member in turns[priority].equals[share].whose
        ]  # fmt: skip
        self.heap = heap  # for what is sorted is a heap
        if opened or looked:
            heap[:] = [e for e in heap if e[4] not in looked and e[4] not in opened]
            for member, at in looked.items():
                if member not in opened and at < len(member.jobs):
                    heappush(heap, _turn(member, at))
            for member, cursors in opened.items():
                for cursor in cursors:
                    cursor.share = member.share
                    self._push(cursor)
        return heap

    def _open(self, member: Member) -> None:
        """From where it was looked at, line by line, those of whom somebody may still start."""
        at = self.looked.get(member, 0)
        last = member.jobs[at - 1] if at else None
        cursors = self.opened[member] = []
        for kind in self._left():
            line = member.lines.get(kind)
            if line is None or line in self.dropped:
                continue
            limit = self.shut.get(line.shape)
            if limit is not None and line.shortest() >= limit:
                continue
            cursor = Cursor(line)
            if last is not None and line.priority >= last.priority:
                is_past = line.priority > last.priority
                cursor.at = -1 if is_past else bisect_right(line.jobs, last)
            cursor.share = member.share
            cursors.append(cursor)
            self._push(cursor)

    def _left(self) -> list[tuple[int, Shape]]:
        """Priorities and shapes of lines in which somebody may still start: there are only fewer
        from here on."""
        if self._kinds is None:
            leaf, shut = self.leaf, self.shut
            self._kinds = [
                (priority, shape) for shape, crowd in leaf.shapes.items()
                if shape not in shut or crowd.shortest() < shut[shape] for priority in leaf.levels
            ]  # fmt: skip
        return self._kinds

    def _push(self, cursor: Cursor) -> None:
        line, at = cursor.line, cursor.at
        if at < 0 or at >= len(line.jobs):
            cursor.at = -1
            return
        if self.heap is None:
            return
        job = line.jobs[at]
        priority = line.priority
        aging = self.leaf.rule.aging
        if aging:
            priority += job.risen(aging, self.now)
        heappush(self.heap, (-priority, cursor.share, job.seq, line.user, cursor))

    def reorder(self) -> None:
        """The present one has started, so users' shares are not what they were."""
        self.advance()
        self.heap = None

    def peek(self) -> Job | None:
        """The next job to look at; None: nobody left who matters."""
        if self.next is not None:
            return self.next
        if self._passed is not None:
            self._move(self._passed)
        heap = self.heap
        if heap is None:
            heap = self._fill()
        is_short = self.blocked >= PLANNED
        if is_short and is_shut(self.leaf, self.shut):
            return None
        while heap:
            place = heap[0][4]
            if isinstance(place, Member):
                if is_short:
                    heappop(heap)
                    self._open(place)
                    continue
                job = place.jobs[self.looked.get(place, 0)]
                if job.id in self.seen:  # room is being made for it: it was looked at before all
                    self._step(place)
                    continue
            else:
                job = place.line.jobs[place.at]
                if job.id in self.seen:
                    heappop(heap)
                    place.at += 1
                    self._push(place)
                    continue
                if is_short and not self._settle(place):
                    continue
            self.cursor, self.next = place, job
            return job
        return None

    def _settle(self, cursor: Cursor) -> bool:
        """Move the first on past those that cannot matter; False: it has moved, or is at the
        end."""
        limit = self.shut.get(cursor.line.shape)
        if limit is None:
            return True
        at = cursor.line.next_below(cursor.at, limit)
        if at == cursor.at:
            return True
        assert self.heap is not None
        heappop(self.heap)
        cursor.at = at
        self._push(cursor)
        return False

    def advance(self) -> None:
        """The present one was looked at."""
        if self.cursor is not None:
            self._passed, self._is_dropped = self.next, False
        self.next = None

    def pass_on(self) -> Job | None:
        """The present one was looked at; the next one, at once."""
        member, heap = self.cursor, self.heap
        is_plain = not (self.opened or self.dropped or self.seen) and self.blocked < PLANNED
        if not is_plain or not heap or not isinstance(member, Member):
            self.advance()
            return self.peek()
        at = self.looked[member] = self.looked.get(member, 0) + 1
        if at < len(member.jobs):
            heapreplace(heap, _turn(member, at))
        else:
            heappop(heap)
        self.cursor = self.next = None
        place = heap[0][4] if heap else None
        if not isinstance(place, Member):
            return self.peek()
        self.cursor, self.next = place, place.jobs[self.looked.get(place, 0)]
        return self.next

    def drop(self) -> None:
        """Nor do the others of its line matter."""
        if self.cursor is not None:
            self._passed, self._is_dropped = self.next, True
        self.next = None

    def _move(self, job: Job) -> None:
        place, self.cursor, self._passed = self.cursor, None, None
        if isinstance(place, Member):
            if self._is_dropped:
                self.dropped.add(place.lines[(job.priority, job.shape)])
            self._step(place)
        elif place is not None:
            if self.heap:
                heappop(self.heap)
            place.at = -1 if self._is_dropped else place.at + 1
            self._push(place)

    def _step(self, member: Member) -> None:
        """On to the user's next job, past those of lines that do not matter."""
        jobs, at = member.jobs, self.looked.get(member, 0) + 1
        if self.dropped:
            while at < len(jobs):
                job = jobs[at]
                if member.lines[(job.priority, job.shape)] not in self.dropped:
                    break
                at += 1
        self.looked[member] = at
        heap = self.heap
        if heap is None:
            return
        if at < len(jobs):
            heapreplace(heap, _turn(member, at))
        else:
            heappop(heap)


def _turn(member: Member, at: int) -> Entry:
    job = member.jobs[at]
    return (-job.priority, member.share, job.seq, member.name, member)


def is_shut(leaf: Queue, shut: dict[Shape, float]) -> bool:
    """Nobody who waits there has a shape that could start, or is short enough."""
    for shape, crowd in leaf.shapes.items():
        limit = shut.get(shape)
        if limit is None or (limit and crowd.shortest() < limit):
            return False
    return True


def most_members(leaf: Queue, jobs: int) -> int:
    """How many members so many of those who wait there have at most; each has one role."""
    found = 0
    for shape in sorted(leaf.shapes, key=_members, reverse=True):
        each = _members(shape)
        if each == 1:
            return found + jobs
        for line in leaf.shapes[shape].parts:
            assert isinstance(line, Line)
            count = min(jobs, len(line.jobs))
            found, jobs = found + count * each, jobs - count
            if not jobs:
                return found
    return found


def _members(shape: Shape) -> int:
    return shape.roles[0].min
