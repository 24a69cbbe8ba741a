"""When and where blocked jobs are to start, and what is free beside that. Lives for one decision.

A booking is a planned job's seats from its planned start to its planned end; whoever comes later
in the order is placed on what is free *throughout* its own time, beside what runs and what is
booked. So nobody who passes a planned job can make it start later.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from math import inf, nextafter
from typing import Final

from dromon.sched.board import Board, Turn
from dromon.sched.booking import Booking
from dromon.sched.cluster import Cluster
from dromon.sched.diary import Diary
from dromon.sched.front import Front, Known, Windows, windows_beside
from dromon.sched.job import Job, Role, Seat
from dromon.sched.node import Node
from dromon.sched.rules import Reservation
from dromon.sched.slots import counted, mask_at, releases, slot_times
from dromon.sched.slottimes import SlotTimes

Freed = Mapping[int, Sequence[Seat]]  # node number -> seats as good as given back
NOBODY: Final[Freed] = {}
MANY: Final = 1 << 30
LINEAR: Final = 200  # so many times are tried one by one; of more, the first from which on it fits


class Plan(Diary):
    def __init__(self, cluster: Cluster, now: float, turn: Turn) -> None:
        super().__init__(now)
        self.cluster = cluster
        self.turn = turn
        self.planned: list[tuple[Job, float, float, list[Seat]]] = []
        self.closed: frozenset[str] = frozenset()
        self.other: Plan | None = None  # see `without_borrowers`
        self._fronts: dict[tuple[object, ...], Front] = {}
        self.reservations: list[Reservation] = []
        if cluster.rules.reservations:
            self.reservations = [r for r in cluster.rules.reservations if self._is_on(r)]

    def _is_on(self, reservation: Reservation) -> bool:
        if reservation.end <= self.now:
            return False
        wait = reservation.release_after
        if wait is None or reservation.id in self.cluster.reserved_use:
            return True
        return self.now < reservation.start + wait or any(
            self.cluster.makes_use(reservation, job, self.now) for job in self.cluster.holders()
        )

    def book(
        self, job: Job, start: float, seats: Iterable[Seat], since: float | None = None
    ) -> None:
        """`since`: the seats are kept for it from then on, before it starts."""
        since = start if since is None else since
        self._book(job, start, list(seats), since)
        if self.other is not None:
            self.other._book(job, start, list(seats), since)

    def _book(self, job: Job, start: float, seats: list[Seat], since: float) -> None:
        end = self.end(job, start)
        self.planned.append((job, start, end, seats))
        for seat in seats:
            node = self.cluster.nodes[seat.node]
            self.bookings.setdefault(node.number, []).append(Booking(since, end, seat))
            for front in self._fronts.values():
                front.book(node.number, self.soon)

    def end(self, job: Job, start: float) -> float:
        """Waiting for what is overdue makes a job no longer: it still fits before the next."""
        return (self.now if start == self.soon else start) + job.duration

    def keep(self, node: Node, seat: Seat) -> None:
        """Set aside for good."""
        self.bookings.setdefault(node.number, []).append(Booking(self.now, inf, seat))
        self.forget_fronts()

    def without_borrowers(self) -> "Plan":
        """The same for those who need not wait for jobs that would borrow. What is booked in one
        is booked in both; what is closed or kept from here on, only where it is said."""
        if self.other is None:
            other = self.other = Plan(self.cluster, self.now, self.turn)
            other.bookings = {number: list(found) for number, found in self.bookings.items()}
            other.planned = list(self.planned)
            other.closed = self.closed
            other.other = self
        return self.other

    def forget_fronts(self) -> None:
        """Nodes have changed otherwise than by a booking."""
        self._fronts = {}
        if self.other is not None:
            self.other._fronts = {}

    def _front(self, role: Role) -> Front:
        key = role.slot_key
        found = self._fronts.get(key)
        if found is None:
            found = self._fronts[key] = Front(self.cluster.slot_times(role), self._windows)
            for number in self.bookings:
                found.book(number, self.soon)
        return found

    def nodes_before(self, role: Role, time: float, enough: int) -> int:
        """On how many nodes, booked or not, one member has room before then, were nothing
        booked; where it is enough, there may be more."""
        return self.cluster.slot_times(role).before(time, enough)

    def _windows(self, times: SlotTimes, number: int, time: float) -> Known:
        """Of a booked node, as far as they begin by then."""
        node, role = self.cluster.numbers[number], times.role
        first = max(times.times.get(number, inf), self.soon)
        if not node.is_open or first == inf:
            return [], inf
        bookings = self.bookings[number]
        if role.gpus and not (role.cpus or role.memory or node.held or node.parts):
            kind = node.kind_mask(role.kind)
            return windows_beside(node, bookings, first, role.gpus, kind, time)
        points = {first, *[end for end, _ in releases(node) if first < end < inf]}
        points |= {booking.end for booking in bookings if first < booking.end < inf}
        found: Windows = []
        starts = sorted({booking.start for booking in bookings})
        for point in sorted(points):
            count = self.slots(node, role, point, nextafter(point, inf))
            if count or found:
                untils = [inf] * count
                for start in starts:
                    if start > point and count:
                        left = self.slots(node, role, point, nextafter(start, inf))
                        untils[left:count] = [start] * (count - left)
                        count = left
                found.append((point, untils))
        return found, inf

    # ---- the earliest start ---------------------------------------------------------------------

    def earliest(self, job: Job) -> tuple[float, list[Seat]] | None:
        """When, after now, a blocked job could start, and where. None: something never ends."""
        if job.shape.plain is not None and not self.reservations:
            return self._earliest_plain(job, job.shape.plain)
        return self._earliest_of_any(job)

    def _earliest_plain(self, job: Job, role: Role) -> tuple[float, list[Seat]] | None:
        if role.min == 1:
            return self._soonest(role) or self._earliest_one(job, role)
        most, by_number, soon = role.min, self.cluster.numbers, self.soon
        front = self._front(role)
        plain: dict[int, float] = {}  # nodes that nobody has booked -> their first slot
        times: list[float] = []  # of their slots, the soonest `most`
        for time, number in front.free(self.bookings):
            first = time if time > soon else soon
            if len(times) >= most and first > times[most - 1]:
                break
            plain[number] = first
            for slot in slot_times(by_number[number], role, most):
                insort(times, slot if slot > soon else soon)
        last = times[most - 1] if len(times) >= most else inf
        booked = front.booked_until(last)
        changes = [(time, -1, 0) for time in times[:most]]
        for number, windows in booked:
            changes += [
                (point, number, self._fitting(untils, job, point))
                for point, untils in windows if point <= last
            ]  # fmt: skip
        changes.sort()
        at_most: dict[int, int] = {}  # slots of booked nodes; between their own points only fewer
        count = total = 0
        for at, (point, number, found) in enumerate(changes):
            if number < 0:
                count += 1
            else:
                total += found - at_most.get(number, 0)
                at_most[number] = found
            if count + total < most:
                continue
            if at + 1 < len(changes) and changes[at + 1][0] == point:
                continue
            nodes = [by_number[n] for n, first in plain.items() if first <= point]
            nodes += [by_number[n] for n, found in at_most.items() if found]
            seats = self._board(job, point, nodes).place(job.shape)
            if seats is not None:
                return point, seats
        return None

    def _earliest_one(self, job: Job, role: Role) -> tuple[float, list[Seat]] | None:
        """The same for one member."""
        front, by_number = self._front(role), self.cluster.numbers
        point, free = front.soonest(self.bookings, self.soon)
        nodes = [by_number[number] for number in free]
        for number, windows in front.booked_until(point):
            for begin, untils in windows:
                if begin > point:
                    break
                if untils and untils[0] >= self.end(job, begin):
                    if begin < point:
                        point, nodes = begin, []
                    nodes.append(by_number[number])
                    break
        if point == inf:
            return None
        end = self.end(job, point)
        if len(nodes) == 1:
            return point, self.seat_from(role, nodes[0], point, end)
        return point, self._best_seat(role, nodes, point, end)

    def seat_from(self, role: Role, node: Node, start: float, end: float) -> list[Seat]:
        """On this node, where there is room for one member between these times."""
        if node.number in self.bookings:
            return self._best_seat(role, [node], start, end)
        return self._one_seat(role, node, start)

    def _fitting(self, untils: list[float], job: Job, point: float) -> int:
        """For how many members a window is long enough."""
        end = self.end(job, point)
        fitting = len(untils)
        while fitting and untils[fitting - 1] < end:
            fitting -= 1
        return fitting

    def _soonest(self, role: Role) -> tuple[float, list[Seat]] | None:
        """For one member, where one node has room before all others and nothing booked matters."""
        if role.slot_key in self._fronts:
            return None
        times = self.cluster.slot_times(role)
        first = times.soonest()
        if first is None or first[0] <= self.soon:
            return None
        time, number = first
        for booked in self.bookings:
            if times.times.get(booked, inf) <= time:
                return None
        return time, self._one_seat(role, self.cluster.numbers[number], time)

    def _one_seat(self, role: Role, node: Node, time: float) -> list[Seat]:
        if node.held or node.parts:
            mask = self.state(node, time, time).mask
        elif node.by_time is not None:
            times, masks = node.by_time
            mask = masks[bisect_right(times, time)]
        else:
            mask = mask_at(node, time)
        chosen = node.lowest(mask & node.kind_mask(role.kind), role.gpus)
        return [Seat(role.first, node.name, role.cpus, role.memory, chosen, 0)]

    def _best_seat(self, role: Role, nodes: list[Node], start: float, end: float) -> list[Seat]:
        """Of nodes that have room for one member, on the one that it fills best."""
        best: tuple[tuple[float, int, int, int], Node, int] | None = None
        for node in nodes if len(nodes) == 1 else self._tightest(nodes, start):
            state = self.state(node, start, end)
            left = state.gpus_left()
            if best is None or left <= best[0][0]:
                score = (left, state.cpus, state.memory, self.turn(node.number))
                if best is None or score < best[0]:
                    best = (score, node, state.mask)
        assert best is not None
        _, node, mask = best
        chosen = node.lowest(mask & node.kind_mask(role.kind), role.gpus)
        return [Seat(role.first, node.name, role.cpus, role.memory, chosen, 0)]

    def _tightest(self, nodes: list[Node], start: float) -> list[Node]:
        """Without some of which it is known, from what comes free there, that another is filled
        better."""
        cluster, bookings = self.cluster, self.bookings
        if cluster.hindered or cluster.index.has_shared():
            return nodes
        found, tight, least = [], [], MANY
        due = start if start > self.soon else self.soon
        for node in nodes:
            if node.number in bookings:
                found.append(node)
                continue
            left = bisect_right(node.counts or counted(node), due)
            if left < least:
                least, tight = left, [node]
            elif left == least:
                tight.append(node)
        if len(tight) > 1 and all(node.is_bare() for node in tight):
            turn = self.turn
            tight = [min(tight, key=lambda node: (node.cpus, node.memory, turn(node.number)))]
        return found + tight

    def _earliest_of_any(self, job: Job) -> tuple[float, list[Seat]] | None:
        points = {self.soon} if self.cluster.shrinking else set()
        points |= {max(other.end, self.soon) for other in self.cluster.holders()}
        points |= {b.end for bookings in self.bookings.values() for b in bookings}
        if self.reservations:  # once others were told to go, it may fit at once beside these
            points.add(self.now)
        for reservation in self.reservations:
            points |= {t for t in (reservation.start, reservation.end) if t > self.now}
        times = sorted(point for point in points if point < inf)
        nodes = [node for node in self.cluster.nodes.values() if node.is_open]
        if len(times) <= LINEAR:
            for time in times:
                seats = self._try(job, time, nodes)
                if seats is not None:
                    return time, seats
            return None
        low, high, best = 0, len(times) - 1, None
        while low <= high:
            middle = (low + high) // 2
            seats = self._try(job, times[middle], nodes)
            if seats is None:
                low = middle + 1
            else:
                best, high = (times[middle], seats), middle - 1
        return best

    def _try(self, job: Job, time: float, nodes: list[Node]) -> list[Seat] | None:
        seats = self._board(job, time, nodes).place(job.shape)
        if seats is None or not self.respects(job, seats, time):
            return None
        return seats

    def _board(self, job: Job, time: float, nodes: list[Node]) -> Board:
        end = self.end(job, time)
        return Board(nodes, lambda node: self.state(node, time, end), self.turn)

    # ---- reservations ---------------------------------------------------------------------------

    def respects(self, job: Job, seats: Iterable[Seat], time: float, freed: Freed = NOBODY) -> bool:
        """Does what is reserved for others stay free while this job would run?"""
        return self.in_the_way(job, seats, time, freed) is None

    def in_the_way(
        self, job: Job, seats: Iterable[Seat], time: float, freed: Freed = NOBODY
    ) -> Reservation | None:
        if not self.reservations or not job.shape.gpus:
            return None
        wanted = list(seats)
        for reservation in self.reservations:
            if self.cluster.is_reserved_for(reservation, job):
                continue
            begin = max(time, reservation.start)
            end = min(self.end(job, time), reservation.end)
            if begin >= end:
                continue
            points = {begin}
            for bookings in self.bookings.values():
                points.update(b.start for b in bookings if begin < b.start < end)
            points.update(r.start for r in self.reservations if begin < r.start < end)
            if any(self._free(reservation, job, p, wanted, freed) < 0 for p in points):
                return reservation
        return None

    def _free(
        self, reservation: Reservation, job: Job, point: float, wanted: list[Seat], freed: Freed
    ) -> int:
        """Wholly free GPUs at that time, less those kept: for it, and for others of its kind."""
        free = 0
        taken: dict[str, int] = {}
        for seat in wanted:
            taken[seat.node] = taken.get(seat.node, 0) | seat.mask
        at = max(point, self.now)
        for node in self.cluster.nodes.values():
            if node.is_open:
                gone = freed.get(node.number, ())
                mask = self.state(node, at, nextafter(at, inf), gone).mask
                mask &= ~taken.get(node.name, 0)
                free += (mask & node.kind_mask(reservation.kind)).bit_count()
        for other in self.reservations:
            if reservation.kind not in (None, other.kind) or not other.start <= point < other.end:
                continue
            if not self.cluster.is_reserved_for(other, job):
                free -= max(0, other.gpus - self.in_use(other, point, freed))
        return free

    def in_use(self, reservation: Reservation, point: float, freed: Freed) -> int:
        """GPUs of it that its own jobs will hold then."""
        count = 0
        for job in self.cluster.holders():
            ends = job.end if job.end > self.now else self.soon
            if ends > point and self.cluster.is_reserved_for(reservation, job):
                seats: Sequence[Seat] = job.seats
                if job.going and point > self.now:  # those that were told to go will have gone
                    seats = [seat for seat in seats if seat.member not in job.going]
                count += self._devices(seats, reservation, freed)
        for job, start, end, seats in self.planned:
            if start <= point < end and self.cluster.is_reserved_for(reservation, job):
                count += self._devices(seats, reservation, freed)
        return count

    def _devices(self, seats: Iterable[Seat], reservation: Reservation, freed: Freed) -> int:
        count = 0
        for seat in seats:
            node = self.cluster.nodes.get(seat.node)
            if node is not None and seat not in freed.get(node.number, ()):
                count += (seat.mask & node.kind_mask(reservation.kind)).bit_count()
        return count
