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
    """Take off what is booked at any time between; CPUs and memory at the worst moment."""
    mine = [b for b in bookings if b.start < end and b.end > start]
    if not mine:
        return
    if not any(b.seat.cpus or b.seat.memory or b.seat.part for b in mine) and not state.parts:
        for booking in mine:
            state.mask &= ~booking.seat.mask
        return
    points = [start, *(b.start for b in mine if b.start > start)]
    cpus, memory = [], []
    for point in points:
        back = [s for time, seats in later if time <= point for s in seats]
        at = [b.seat for b in mine if b.start <= point < b.end]
        cpus.append(state.cpus + sum(s.cpus for s in back) - sum(s.cpus for s in at))
        memory.append(state.memory + sum(s.memory for s in back) - sum(s.memory for s in at))
    state.cpus, state.memory = min(state.cpus, *cpus), min(state.memory, *memory)
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
