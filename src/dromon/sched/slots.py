"""When nodes have room for members of one kind, from when their jobs are expected to end."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from math import inf
from operator import itemgetter
from typing import Final

from dromon.sched.board import State, slots
from dromon.sched.booking import Booking
from dromon.sched.index import NodeIndex
from dromon.sched.job import Job, Role, Seat
from dromon.sched.node import Node

Releases = list[tuple[float, tuple[Seat, ...]]]  # who gives back what, soonest first
NOW: Final = -inf  # a slot that is free already


class SlotTimes:
    """For members of one kind: when each node has room for the first of them. Kept between
    decisions; only nodes that changed are looked at again."""

    def __init__(self, nodes: dict[int, Node], role: Role, index: NodeIndex) -> None:
        self.role = role
        self.nodes = nodes
        self.index = index
        self.times: dict[int, float] = {}
        # When nodes have room, soonest first, and their numbers beside it; packed, for they are
        # searched all the time.
        self.moments = array("d")
        self.numbers: list[int] = []
        self._look_at_all()

    def _look_at_all(self) -> None:
        self.log, self.seen = self.index.log, len(self.index.log)
        nodes = self.nodes.items()
        times = {number: first_slot(node, self.role) for number, node in nodes if node.is_open}
        order = sorted((time, number) for number, time in times.items() if time < inf)
        self.times = times
        self.moments = array("d", [time for time, _ in order])
        self.numbers = [number for _, number in order]

    def last_read(self) -> tuple[bool, int]:
        """The larger, the later: how far it has read the log of changes."""
        return self.log is self.index.log, self.seen

    def refresh(self) -> None:
        log = self.index.log
        if self.log is not log:
            return self._look_at_all()
        if self.seen == len(log):
            return
        times, role, nodes = self.times, self.role, self.nodes
        gpus, is_bare = role.gpus, role.is_bare
        for number in set(log[self.seen :]):
            node, before = nodes.get(number), times.get(number, inf)
            if node is None or not node.is_open:
                first = inf
            elif is_bare and node.counts and gpus < len(node.counts):
                first = node.counts[gpus]  # as `first_slot` says: there are many to be asked
            else:
                first = first_slot(node, role)
            if before != first:
                times[number] = first
                if before < inf:
                    self._take_out(number, before)
                if first < inf:
                    self._put_in(number, first)
        self.seen = len(log)

    def _take_out(self, number: int, time: float) -> None:
        at = bisect_left(self.moments, time)
        if self.numbers[at] != number:
            at = self._among_equals(number, time, at)
        del self.moments[at], self.numbers[at]

    def _put_in(self, number: int, time: float) -> None:
        moments = self.moments
        at = bisect_left(moments, time)
        if at < len(moments) and moments[at] == time:
            at = self._among_equals(number, time, at)
        moments.insert(at, time)
        self.numbers.insert(at, number)

    def _among_equals(self, number: int, time: float, at: int) -> int:
        return bisect_left(self.numbers, number, at, bisect_right(self.moments, time, at))

    def soonest(self) -> tuple[float, int] | None:
        """The one node that has room before all others; None: there are several, or none."""
        self.refresh()
        moments = self.moments
        if not moments or (len(moments) > 1 and moments[1] <= moments[0]):
            return None
        return moments[0], self.numbers[0]

    def before(self, time: float, enough: int) -> int:
        """How many nodes have room before then; where it is enough, there may be more."""
        log = self.index.log
        if self.log is log:
            at, changed = bisect_left(self.moments, time), len(log) - self.seen
            if at - changed >= enough:
                return at - changed
            if changed and at >= enough:
                sure = 0  # of those that had room, most still have it: each is asked again
                for place in range(at):
                    node = self.nodes.get(self.numbers[place])
                    if node is not None and node.is_open and first_slot(node, self.role) < time:
                        sure += 1
                        if sure == enough:
                            return sure
        self.refresh()
        return bisect_left(self.moments, time)


def first_slot(node: Node, role: Role) -> float:
    """The first of `slot_times`; inf: none. Counts by itself where no device is shared."""
    if not role.is_bare or node.held or node.parts:
        return _first_of_its_kind(node, role)
    counts, gpus = node.counts or counted(node), role.gpus
    return counts[gpus] if gpus < len(counts) else inf


def _first_of_its_kind(node: Node, role: Role) -> float:
    if node.held or node.parts:
        times = slot_times(node, role, 1)
        return times[0] if times else inf
    if role.label is not None and role.label not in node.labels:
        return inf
    if role.cpus or role.memory or (role.kind is not None and len(node.kinds) > 1):
        return _first_release(node, role)
    if role.kind is not None and role.kind not in node.kinds:
        return inf
    counts = node.counts or counted(node)
    return counts[role.gpus] if role.gpus < len(counts) else inf


def _first_release(node: Node, role: Role) -> float:
    gpus, cpus, memory = role.gpus, role.cpus, role.memory
    kind = node.kind_mask(role.kind)
    total = node.total
    if kind.bit_count() < gpus or total.cpus < cpus or total.memory < memory:
        return inf
    mask, cpus_free, memory_free = node.mask, node.cpus, node.memory
    if (mask & kind).bit_count() >= gpus and cpus_free >= cpus and memory_free >= memory:
        return NOW
    for end, seats in releases(node):
        for seat in seats:
            mask |= seat.mask
            cpus_free += seat.cpus
            memory_free += seat.memory
        if (mask & kind).bit_count() >= gpus and cpus_free >= cpus and memory_free >= memory:
            return end
    return inf


def counted(node: Node) -> list[float]:
    """When so many devices are free there, by how many; no device may be shared. Kept until the
    node changes otherwise than `recounted` can tell."""
    mask = node.mask
    found = [NOW] * (mask.bit_count() + 1)
    for end, seats in releases(node):
        for seat in seats:
            mask |= seat.mask
        found += [end] * (mask.bit_count() + 1 - len(found))
    node.counts = found
    return found


def recounted(node: Node, counts: list[float], job: Job, seat: Seat, is_taken: bool) -> None:
    """What was counted, with one seat of a job that has just been taken, or given back."""
    if seat.part or node.held or job.going:
        return
    size, end = seat.mask.bit_count(), job.end
    if is_taken:
        del counts[:size]
        at = bisect_left(counts, end)
        counts[at:at] = [end] * size
    else:
        at = bisect_left(counts, end)
        del counts[at : at + size]
        counts[:0] = [NOW] * size
    node.counts = counts


def slot_times(node: Node, role: Role, most: int) -> list[float]:
    """When the first, second… member finds room there, if nobody else comes."""
    state = State.of(node)
    found = [NOW] * min(most, slots(node, state, role))
    if len(found) == most:
        return found
    if slots(node, State.whole(node), role) <= len(found):
        return found
    for end, seats in releases(node):
        if end == inf:
            break
        for seat in seats:
            state.give(node, seat)
        count = min(most, slots(node, state, role))
        found += [end] * (count - len(found))
        if len(found) >= most:
            break
    return found


def releases(node: Node) -> Releases:
    """Who gives back what there, soonest first. Kept until the node changes."""
    if node.ends is not None:
        return node.ends
    found: Releases = []
    for job in node.jobs.values():
        if len(job.seats) == 1 and not job.going:
            found.append((job.end, job.seats))
        else:
            _of_gang(node, job, found)
    if len(found) > 1:
        found.sort(key=_FIRST)
    node.ends = found
    return found


def free_by_time(node: Node) -> tuple[list[float], list[int]]:
    """When devices come free there, and which are free before that, from each of these times on,
    and in the end; no device may be shared. Kept until the node changes."""
    if node.by_time is not None:
        return node.by_time
    mask, times, masks = node.mask, [], [node.mask]
    for end, seats in node.ends or releases(node):
        for seat in seats:
            mask |= seat.mask
        times.append(end)
        masks.append(mask)
    node.by_time = times, masks
    return node.by_time


def mask_at(node: Node, time: float) -> int:
    """Which devices are free there then, where this is asked once; no device may be shared."""
    mask = node.mask
    for job in node.jobs.values():
        if job.end <= time or job.going:
            for seat in job.seats:
                if seat.node == node.name and (job.end <= time or seat.member in job.going):
                    mask |= seat.mask
    return mask


_FIRST: Final = itemgetter(0)


def _of_gang(node: Node, job: Job, found: Releases) -> None:
    """Of several members, those that are there; those told to go are as good as gone."""
    name, going = node.name, job.going
    if going:
        leaving = tuple([s for s in job.seats if s.node == name and s.member in going])
        if leaving:
            found.append((-1e300, leaving))
    staying = tuple([s for s in job.seats if s.node == name and s.member not in going])
    if staying:
        found.append((job.end, staying))


# From each time on at which more may be free: until when there is room for one member, for two…
Windows = list[tuple[float, list[float]]]
Known = tuple[Windows, float]  # those that begin before this time


class Front:
    """Nodes in the order in which they have room for one member of a kind, within one decision:
    those that nobody has booked by their times, those booked by when their windows begin."""

    def __init__(self, times: SlotTimes, look: Callable[[SlotTimes, int, float], Known]) -> None:
        times.refresh()
        self.times = times
        self._look = look  # at the windows of a node that is booked, as far as they begin by then
        self.booked: list[tuple[float, int]] = []  # none of their windows begins before, in order
        self.windows: dict[int, Known] = {}  # of those booked, once somebody looked
        self._placed: set[int] = set()
        self._passed = 0  # so many of the first are booked

    def book(self, number: int, soon: float) -> None:
        """It is booked, or once more: its windows are not what they were."""
        if number in self._placed:
            self.windows.pop(number, None)
            return
        self._placed.add(number)
        first = self.times.times.get(number, inf)
        if first < inf:
            insort(self.booked, (first if first > soon else soon, number))

    def free(self, bookings: dict[int, list[Booking]]) -> Iterator[tuple[float, int]]:
        """(time, node number) of those not booked, soonest first."""
        moments, numbers = self.times.moments, self.times.numbers
        for at in range(self._passed, len(numbers)):
            if numbers[at] not in bookings:
                yield moments[at], numbers[at]

    def soonest(self, bookings: dict[int, list[Booking]], soon: float) -> tuple[float, list[int]]:
        """The first time at which nodes not booked have room, and which have it then."""
        moments, numbers, at = self.times.moments, self.times.numbers, self._passed
        while at < len(numbers) and numbers[at] in bookings:
            at += 1
        self._passed = at
        if at == len(numbers):
            return inf, []
        first = moments[at] if moments[at] > soon else soon
        equal = numbers[at : bisect_right(moments, first, at)]
        return first, [number for number in equal if number not in bookings]

    def booked_until(self, time: float) -> list[tuple[int, Windows]]:
        """Booked nodes that have room by then for a member, be it short."""
        found: list[tuple[int, Windows]] = []
        moved: list[tuple[tuple[float, int], float]] = []
        windows = self.windows
        for entry in self.booked:
            begin, number = entry
            if begin > time:
                break
            known = windows.get(number)
            if known is None or known[1] <= time:
                known = windows[number] = self._look(self.times, number, time)
                first = known[0][0][0] if known[0] else known[1]
                if first != begin:
                    moved.append((entry, first))
                    if first > time:
                        continue
            found.append((number, known[0]))
        for entry, first in moved:
            del self.booked[bisect_left(self.booked, entry)]
            if first < inf:
                insort(self.booked, (first, entry[1]))
        return found


def windows_beside(
    node: Node, bookings: list[Booking], first: float, gpus: int, kind: int, time: float
) -> Known:
    """Of members that ask for nothing but whole devices of this kind, beside what comes free on a
    node and what is booked; from the first time on at which one has room, as far as they begin by
    this time."""
    times, masks = node.by_time or free_by_time(node)
    if len(bookings) > 1:
        bookings = sorted(bookings, key=_start)
    found: Windows = []
    point = first
    while point < inf:
        if point > time:
            return found, point
        at = bisect_right(times, point)
        following = times[at] if at < len(times) else inf
        free = masks[at] & kind
        later: list[Booking] = []
        for booking in bookings:
            if booking.start > point:
                later.append(booking)
            elif booking.end > point:
                free &= ~booking.seat.mask
            if point < booking.end < following:
                following = booking.end
        count = free.bit_count() // gpus
        if count or found:
            found.append((point, _untils(free, count, later, gpus)))
        point = following
    return found, inf


def _untils(free: int, count: int, later: list[Booking], gpus: int) -> list[float]:
    """Of so many members on these devices, until when there is room for one, for two…"""
    untils = [inf] * count
    for booking in later:
        if not count:
            break
        free &= ~booking.seat.mask
        left = free.bit_count() // gpus
        while count > left:
            count -= 1
            untils[count] = booking.start
    return untils


def _start(booking: Booking) -> float:
    return booking.start
