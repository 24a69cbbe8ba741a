"""Nodes in the order in which they have room, beside what is booked. Lives for one decision."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from math import inf

from dromon.sched.booking import Booking
from dromon.sched.node import Node
from dromon.sched.slots import free_by_time
from dromon.sched.slottimes import SlotTimes

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
