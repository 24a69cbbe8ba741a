"""What is kept of a node for a planned job, and what that leaves of the node."""

from collections.abc import Iterable, Sequence

from dromon.sched.board import State
from dromon.sched.job import Seat
from dromon.sched.node import WHOLE


class Booking:
    """A planned job's seat, from its planned start to its planned end."""

    __slots__ = ("end", "seat", "start")

    def __init__(self, start: float, end: float, seat: Seat) -> None:
        self.start = start
        self.end = end
        self.seat = seat


def subtract(
    state: State, bookings: list[Booking], later: list[tuple[float, Sequence[Seat]]],
    start: float, end: float,
) -> None:  # fmt: skip
    """Take off what is booked at any time between; CPUs and memory at the worst moment. `later`:
    what comes back meanwhile, soonest first."""
    mine = [b for b in bookings if b.start < end and b.end > start]
    if not mine:
        return
    if not any(b.seat.cpus or b.seat.memory or b.seat.part for b in mine) and not state.parts:
        for booking in mine:
            state.mask &= ~booking.seat.mask
        return
    points = [start, *(b.start for b in mine if b.start > start)]
    least_cpus, least_memory = state.cpus, state.memory
    for point in points:
        cpus, memory = state.cpus, state.memory
        for time, seats in later:
            if time > point:
                break
            for seat in seats:
                cpus += seat.cpus
                memory += seat.memory
        for booking in mine:
            if booking.start <= point < booking.end:
                cpus -= booking.seat.cpus
                memory -= booking.seat.memory
        least_cpus, least_memory = min(least_cpus, cpus), min(least_memory, memory)
    state.cpus, state.memory = least_cpus, least_memory
    for position in {b.seat.mask.bit_length() - 1 for b in mine if b.seat.part}:
        left = WHOLE if state.mask >> position & 1 else 0
        left = WHOLE - state.parts[position] if position in state.parts else left
        worst = left
        for point in points:
            back = [s for time, seats in later if time <= point for s in seats]
            at = [b.seat for b in mine if b.start <= point < b.end]
            worst = min(worst, left + _parts_of(back, position) - _parts_of(at, position))
        state.parts[position] = WHOLE - max(0, worst)
        state.mask &= ~(1 << position)
    for booking in mine:
        seat = booking.seat
        if not seat.part:
            for position in state.parts:
                if seat.mask >> position & 1:
                    state.parts[position] = WHOLE
            state.mask &= ~seat.mask


def _parts_of(seats: Iterable[Seat], position: int) -> int:
    return sum(seat.part or WHOLE for seat in seats if seat.mask >> position & 1)
