"""When nodes have room for members of one kind, from when their jobs are expected to end."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf

from dromon.sched.board import State, slots
from dromon.sched.job import Role, Seat
from dromon.sched.node import Node

NOW = -inf  # a slot that is free already


class Booking:
    """A planned job's seat, from its planned start to its planned end."""

    __slots__ = ("end", "seat", "start")

    def __init__(self, start: float, end: float, seat: Seat) -> None:
        self.start = start
        self.end = end
        self.seat = seat


def slot_key(role: Role) -> tuple[object, ...]:
    """Members of the same key have room at the same times."""
    return (role.cpus, role.memory, role.gpus, role.kind, role.label)


class SlotTimes:
    """For members of one kind: when each node has room for the first of them. Kept between
    decisions; only nodes that changed are looked at again."""

    def __init__(self, nodes: dict[int, Node], role: Role) -> None:
        self.role = role
        self.nodes = nodes
        self.changed: dict[int, Node] = dict(nodes)
        self.times: dict[int, float] = {}
        self.order: list[tuple[float, int]] = []  # (time, node number), soonest first

    def refresh(self) -> None:
        if not self.changed:
            return
        times, order = self.times, self.order
        is_new = not times
        for number, node in self.changed.items():
            first = inf
            if node.is_open and self.nodes.get(number) is node:
                first = first_slot(node, self.role)
            before = times.get(number, inf)
            if before != first:
                times[number] = first
                if before < inf:
                    del order[bisect_left(order, (before, number))]
                if first < inf and not is_new:
                    insort(order, (first, number))
        if is_new:
            self.order = sorted((time, number) for number, time in times.items() if time < inf)
        self.changed.clear()

    def soonest(self) -> tuple[float, int] | None:
        """The one node that has room before all others; None: there are several, or none."""
        self.refresh()
        order = self.order
        if not order or (len(order) > 1 and order[1][0] <= order[0][0]):
            return None
        return order[0]

    def before(self, time: float) -> int:
        """How many nodes have room before then."""
        self.refresh()
        return bisect_left(self.order, (time,))


def first_slot(node: Node, role: Role) -> float:
    """The first of `slot_times`; inf: none. Counts by itself where no device is shared."""
    if node.held or node.parts:
        times = slot_times(node, role, 1)
        return times[0] if times else inf
    gpus, cpus, memory = role.gpus, role.cpus, role.memory
    kind = node.all if role.kind is None else node.kinds.get(role.kind, 0)
    if role.label is not None and role.label not in node.labels:
        return inf
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


def releases(node: Node) -> list[tuple[float, list[Seat]]]:
    """Who gives back what there, soonest first. Kept until the node changes."""
    if node.ends is not None:
        return node.ends
    found: list[tuple[float, list[Seat]]] = []
    name = node.name
    for job in node.jobs.values():
        seats = job.seats
        if job.going:
            leaving = [s for s in seats if s.node == name and s.member in job.going]
            seats = [s for s in seats if s.member not in job.going]
            if leaving:
                found.append((-1e300, leaving))
        if len(seats) > 1:
            seats = [s for s in seats if s.node == name]
        if seats:
            found.append((job.end, seats))
    if len(found) > 1:
        found.sort(key=_end)
    node.ends = found
    return found


def _end(release: tuple[float, list[Seat]]) -> float:
    return release[0]


class Front:
    """Nodes in the order in which they have room for one member of a kind, within one decision:
    those that nobody has booked by their times, those booked by a time before which they have
    none whatever its duration."""

    def __init__(self, times: SlotTimes) -> None:
        times.refresh()
        self.times = times
        self.booked: list[tuple[float, int]] = []  # a heap; may hold what is out of date
        self.bounds: dict[int, float] = {}
        self.stale: dict[int, Node] = {}  # booked since their bounds were found

    def free(self, bookings: dict[int, list[Booking]]) -> Iterator[tuple[float, int]]:
        """(time, node number) of those not booked, soonest first."""
        for entry in self.times.order:
            if entry[1] not in bookings:
                yield entry

    def bound(self, number: int, time: float) -> None:
        self.bounds[number] = time
        if time < inf:
            heappush(self.booked, (time, number))

    def booked_before(self, time: float) -> list[int]:
        """Booked nodes that may have room sooner."""
        found = []
        kept = []
        while self.booked and self.booked[0][0] < time:
            entry = heappop(self.booked)
            if self.bounds.get(entry[1]) == entry[0] and entry[1] not in found:
                found.append(entry[1])
                kept.append(entry)
        for entry in kept:
            heappush(self.booked, entry)
        return found
