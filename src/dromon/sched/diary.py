"""What is free on nodes at some time, beside what runs and what is booked. Plans nothing."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import inf, nextafter

from dromon.sched.asks import CPUS, GPUS, MEMORY
from dromon.sched.board import State, slots
from dromon.sched.booking import Booking, subtract
from dromon.sched.job import Job, Role, Seat
from dromon.sched.node import WHOLE, Node
from dromon.sched.slots import free_by_time, releases


class Diary:
    def __init__(self, now: float) -> None:
        self.now = now
        self.soon = nextafter(now, inf)  # when what should have ended already will have
        self.bookings: dict[int, list[Booking]] = {}  # node number -> those on it

    def state(
        self, node: Node, start: float, end: float, freed: Sequence[Seat] = (),
        closed: frozenset[str] = frozenset(),
    ) -> State:  # fmt: skip
        """What is free there throughout [start, end), were those seats `freed` already. Of what is
        `closed`, only what they leave."""
        if closed:
            return self._left_by(node, start, end, freed, closed)
        if not (freed or node.parts or node.held):
            found = self._plain_state(node, start, end)
            if found is not None:
                return found
        state = State.of(node)
        for seat in freed:
            state.give(node, seat)
        bookings = self.bookings.get(node.number)
        later: list[tuple[float, Sequence[Seat]]] = []
        if start > self.now or bookings:
            for time, seats in releases(node):
                if freed:
                    seats = tuple([seat for seat in seats if seat not in freed])
                if start > self.now and (time <= start or time <= self.soon):
                    for seat in seats:
                        state.give(node, seat)
                else:
                    later.append((max(time, self.soon), seats))
        if bookings:
            subtract(state, bookings, later, start, end)
        return state

    def _plain_state(self, node: Node, start: float, end: float) -> State | None:
        """The same where nothing is shared; None: this has to be worked out in full."""
        cpus, memory, mask = node.cpus, node.memory, node.mask
        if start > self.now and node.is_bare():
            times, masks = node.by_time or free_by_time(node)
            mask = masks[bisect_right(times, start if start > self.soon else self.soon)]
        elif start > self.now:
            due = start if start > self.soon else self.soon
            for time, seats in node.ends or releases(node):
                if time > due:
                    break
                for seat in seats:
                    if seat.part:
                        return None
                    cpus += seat.cpus
                    memory += seat.memory
                    mask |= seat.mask
        for booking in self.bookings.get(node.number, ()):
            if booking.start < end and booking.end > start:
                seat = booking.seat
                if seat.cpus or seat.memory or seat.part:
                    return None
                mask &= ~seat.mask
        return State(cpus, memory, mask, {})

    def _left_by(
        self, node: Node, start: float, end: float, freed: Sequence[Seat], closed: frozenset[str]
    ) -> State:
        state, shut = self.state(node, start, end, freed), self.state(node, start, end)
        # Where more is booked than is left without them, they leave that much less.
        state.cpus -= max(0, shut.cpus) if CPUS in closed else 0
        state.memory -= max(0, shut.memory) if MEMORY in closed else 0
        if GPUS in closed:
            for position, used in shut.parts.items():  # of a shared device, only what comes back
                if used < WHOLE and state.mask >> position & 1:
                    state.mask ^= 1 << position
                    state.parts[position] = 0
            state.mask &= ~shut.mask
            for position, used in state.parts.items():
                there = WHOLE if shut.mask >> position & 1 else 0
                there = WHOLE - shut.parts[position] if position in shut.parts else there
                state.parts[position] = min(WHOLE, used + there)
        return state

    def slots(self, node: Node, role: Role, start: float, end: float) -> int:
        """How many members of a plain role fit there throughout [start, end)."""
        return slots(node, self.state(node, start, end), role)

    def throughout_now(self, node: Node, job: Job) -> State:
        return self.state(node, self.now, self.now + job.duration)

    def free_until(self, role: Role, nodes: Iterable[Node]) -> float:
        """On those of these nodes that are booked, no member that is there from now on can stay
        longer than this."""
        until = self.now
        for node in nodes:
            bookings = self.bookings.get(node.number)
            if not bookings or node.mask.bit_count() < role.gpus or not node.is_open:
                continue
            for start in sorted(b.start for b in bookings):
                if start > until:
                    if not self.slots(node, role, self.now, start):
                        break
                    until = start
        return until

    def points(self, node: Node) -> Iterator[float]:
        """Times after now at which more may be free there."""
        soon = self.soon
        for job in node.jobs.values():
            yield job.end if job.end > soon else soon
            if job.going:
                yield soon
        for booking in self.bookings.get(node.number, ()):
            yield booking.end if booking.end > soon else soon
