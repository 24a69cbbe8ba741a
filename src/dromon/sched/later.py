"""Planned starts that are put off until somebody could be in their way. Lives for one decision.

On a full cluster few nodes have anything free. Whoever still may start will be on one of these,
for at most as long as its devices are not booked; so a planned job that will be elsewhere, or
there only afterwards, need not be planned now. It is there afterwards when too much of the node is
held for longer than whoever wants to start; it certainly is elsewhere when more nodes have room
for it sooner than all those planned before it can take. Where each is known to have a time at all
this is asked only once somebody wants to start, else at once. What cannot be told is planned,
after all that was put off, in order: the outcome is that of planning each in its turn.
"""

from collections.abc import Callable
from math import inf, nextafter
from typing import Final

from dromon.sched.job import Job, Role, Seat, Shape
from dromon.sched.node import Node
from dromon.sched.plan import Plan
from dromon.sched.queues import Queue
from dromon.sched.slots import first_slot

MANY: Final = 1 << 30
# How many nodes, how many would have been enough, and when this was found out: see `_elsewhere`.
Found = tuple[int, int, int]
FEW: Final = 6  # nodes with anything free; with more of them, everybody is planned at once


class Later:
    """`jobs_of` says who of a queue that was passed over is to be planned; `as_before` makes it as
    if those told to go since then stayed, until what it answers is called."""

    def __init__(
        self, plan: Plan, jobs_of: Callable[[Queue], list[Job]],
        as_before: Callable[[int], Callable[[], None]],
    ) -> None:  # fmt: skip
        self.plan = plan
        self.jobs_of = jobs_of
        self.as_before = as_before
        self.waiting: list[Job | Queue] = []
        self._earlier: list[tuple[int, list[Job | Queue]]] = []  # see `goes`
        self.leaving = 0  # seats that will be free sooner than was known to those
        self.members = 0  # of theirs, and at most of those that were passed over
        self._live: list[Node] | None = None
        self._is_on: bool | None = None
        self._before: dict[Shape, Found] = {}
        self._until: dict[Shape, tuple[int, float]] = {}
        self._unasked: dict[tuple[object, ...], Role] = {}  # kinds put off without asking
        self._kinds: dict[tuple[object, ...], Role] = {}  # all kinds put off

    def is_on(self) -> bool:
        """Could anything be put off in this decision?"""
        if self._is_on is None:
            self._is_on = self._begin()
        return self._is_on

    def _begin(self) -> bool:
        cluster = self.plan.cluster
        if self.plan.reservations or self.plan.closed or not cluster.policy.backfills:
            return False
        if cluster.accounts.others:
            return False
        self._live = cluster.index.with_some(FEW)
        return self._live is not None

    def may_wait(self, shape: Shape, shortest: float, members: int) -> bool:
        """Would nobody notice if so many members of such jobs, none of them shorter, were planned
        later?"""
        role = shape.plain
        if not self.is_on() or role is None or self.plan.closed:
            return False
        if self.asks_nothing():
            self._unasked[role.slot_key] = role
            return True
        return self._may_wait(shape, role, shortest, members)

    def _may_wait(self, shape: Shape, role: Role, shortest: float, members: int) -> bool:
        needed = self.members + members + len(self.plan.bookings)
        known = self._before.get(shape)
        # Asked for the shortest of all who wait, so that one answer serves most; else for this one.
        if known is None or (known[0] < needed and not self._is_all(known)):
            least = shape.crowd.shortest()
            known = self._before[shape] = self._elsewhere(role, least, 2 * needed)
        if known[0] >= needed:
            return True
        if not known[2] or shortest <= shape.crowd.shortest():
            return False
        return self._elsewhere(role, shortest, needed)[0] >= needed

    def _is_all(self, known: Found) -> bool:
        """There are no more."""
        return known[0] < known[1] and known[2] == self._version()

    def asks_nothing(self) -> bool:
        """Whoever may wait here can be planned, for everything ends and no device is held by
        others; and nothing is booked yet."""
        plan, cluster = self.plan, self.plan.cluster
        if plan.bookings or plan.closed or cluster.endless or cluster.hindered:
            return False
        return self.is_on()

    def put_off_freely(self, job: Job) -> None:
        """Only while `asks_nothing`."""
        role = job.shape.plain
        assert role is not None
        self._unasked[role.slot_key] = role
        self.put_off(job, role.min)

    def may_come(self, node: Node, end: float) -> bool:
        """Could somebody who was put off be planned there for a time before this?"""
        if not self.members or not self._may_come(node, end):
            return False
        return not self._unfold() or self._may_come(node, end)

    def _may_come(self, node: Node, end: float) -> bool:
        plan = self.plan
        live = FEW if self._live is None else len(self._live)
        for role in self._kinds.values():
            first = first_slot(node, role)
            if first <= plan.soon:
                return True
            if first < end:
                needed = self.members + len(plan.bookings) + live + self.leaving
                if plan.nodes_before(role, first, needed) < needed:
                    return True
        return False

    def is_in_the_way(self, job: Job) -> bool:
        """Could somebody who was put off without asking come to where this job may start, before
        it would have ended?"""
        if not self._unasked or not self._is_in_the_way(job):
            return False
        return not self._unfold() or self._is_in_the_way(job)

    def _is_in_the_way(self, job: Job) -> bool:
        role = job.shape.plain
        assert self._live is not None
        assert role is not None
        gpus, end, unasked = role.gpus, self.plan.now + job.duration, self._unasked
        if end <= self.plan.soon:
            return False
        for node in self._live:
            if node.mask.bit_count() >= gpus:
                for other in unasked.values():
                    if first_slot(node, other) < end and (
                        self._elsewhere(other, 0.0, self.members)[0] < self.members
                    ):
                        return True
        return False

    def until(self, shape: Shape, role: Role) -> float:
        """When such a job that starts now must have ended, given that it did not fit where nothing
        is booked. Only while `is_on`."""
        version = self._version()
        known = self._until.get(shape)
        if known is None or known[0] != version:
            assert self._live is not None
            known = self._until[shape] = (version, self.plan.free_until(role, self._live))
        return known[1]

    def _version(self) -> int:
        """Changes with each booking where something is free."""
        bookings = self.plan.bookings
        if not bookings:
            return 0
        return sum(len(bookings.get(node.number, ())) for node in self._live or ())

    def goes(self, told: int, seats: int) -> None:
        """Somebody is told to go, after so many: there will be room sooner than was found, and
        those put off so far are to be planned without it."""
        self._before.clear()
        self.leaving += seats
        if self.waiting:
            self._earlier.append((told, self.waiting))
            self.waiting = []

    def put_off(self, job: Job, members: int) -> None:
        role = job.shape.plain
        assert role is not None
        self._kinds[role.slot_key] = role
        self.waiting.append(job)
        self.members += members

    def passes_over(self, leaf: Queue, members: int) -> bool:
        """Would nobody notice if all those of a queue, none of whom can start, were planned later?
        Of its jobs nothing is known but how many members they have at most."""
        if not self.is_on() or self.plan.closed:
            return False
        roles = {shape: shape.plain for shape in leaf.shapes if shape.plain is not None}
        if self.asks_nothing():
            self._unasked.update({role.slot_key: role for role in roles.values()})
        else:
            for shape, role in roles.items():
                if not self._may_wait(shape, role, leaf.shapes[shape].shortest(), members):
                    return False
        self._kinds.update({role.slot_key: role for role in roles.values()})
        self.waiting.append(leaf)
        self.members += members
        return True

    def _unfold(self) -> bool:
        """Who they are that were passed over, so that no more are counted than there are. False:
        nobody was."""
        groups = [*[waiting for _, waiting in self._earlier], self.waiting]
        if not any(isinstance(one, Queue) for group in groups for one in group):
            return False
        self.members = 0
        for group in groups:
            jobs: list[Job] = []
            for one in group:
                jobs += self.jobs_of(one) if isinstance(one, Queue) else [one]
            group[:] = jobs
            self.members += sum(job.shape.plain.min for job in jobs if job.shape.plain is not None)
        return True

    def ask(self) -> None:
        """Ask now about those put off without asking: whoever comes to where something is free is
        planned, the others stay put off."""
        if self._earlier:
            return self.catch_up()
        self._unfold()
        waiting = self._no_more()
        for job in waiting:
            assert isinstance(job, Job)
            role = job.shape.plain
            assert role is not None
            if self._may_wait(job.shape, role, job.duration, role.min):
                self.put_off(job, role.min)
            else:
                found = self.earliest(job)
                assert found is not None  # as in `_plan`
                self.plan.book(job, *found)

    def earliest(self, job: Job) -> tuple[float, list[Seat]] | None:
        """Its planned start, beside those put off; most often it is known without planning them."""
        found = self._certain(job)
        if found is not None:
            return found
        if self.waiting or self._earlier:
            role, begin = job.shape.plain, self._first_begin()
            if role is not None and self.plan.end(job, self._soonest(role)) <= begin:
                found = self.plan.earliest(job)
                if found is not None and self.plan.end(job, found[0]) <= begin:
                    return found  # it will have ended before any of them could start
            self.catch_up()
        return self.plan.earliest(job)

    def _first_begin(self) -> float:
        """None of those put off can start before this, wherever it may be."""
        return min([self._soonest(role) for role in self._kinds.values()], default=inf)

    def _soonest(self, role: Role) -> float:
        return max(self.plan.cluster.slot_times(role).first(), self.plan.soon)

    def _certain(self, job: Job) -> tuple[float, list[Seat]] | None:
        """Where one node that has something free has room before all others: nobody put off will
        be there, for they are elsewhere, or there only after what is free now is booked."""
        role, plan = job.shape.plain, self.plan
        if self._unasked or self._earlier or plan.closed or not self.is_on():
            return None
        if role is None or role.min > 1:
            return None
        first = plan.cluster.slot_times(role).soonest()
        if first is None or first[0] <= plan.soon:
            return None
        time, node = first[0], plan.cluster.numbers[first[1]]
        if self._live is None or node not in self._live:
            return None
        if node.number in plan.bookings:
            end = plan.end(job, time)
            if self.waiting and end > _free_until(node, plan):
                return None
            if not plan.slots(node, role, time, end):
                return None
        return time, plan.seat_from(role, node, time, plan.end(job, time))

    def _no_more(self) -> list[Job | Queue]:
        """Nobody is put off; who was."""
        waiting, self.waiting, self.members = self.waiting, [], 0
        self._unasked, self._kinds = {}, {}
        return waiting

    def catch_up(self) -> None:
        """Plan them now."""
        self._unfold()
        earlier, self._earlier = self._earlier, []
        waiting = self._no_more()
        for told, jobs in earlier:
            again = self.as_before(told)
            self._plan(jobs)
            again()
        self._plan(waiting)

    def _plan(self, jobs: list[Job | Queue]) -> None:
        for job in jobs:
            assert isinstance(job, Job)
            found = self.plan.earliest(job)
            assert found is not None  # each has a time, or more nodes have room than are needed
            self.plan.book(job, *found)

    def _elsewhere(self, role: Role, shortest: float, enough: int) -> Found:
        """For jobs no shorter than this: on how many nodes (where it is enough, perhaps on more)
        there is room before any of those that have something free could be in question."""
        assert self._live is not None
        cluster, version = self.plan.cluster, self._version()
        offer = inf
        for node in self._live:
            offer = min(offer, self._offer(node, role, shortest))
        if offer == inf and not cluster.endless and not cluster.hindered:
            return MANY, enough, version  # each has its time somewhere, and never here
        if offer <= self.plan.soon:
            return 0, enough, version
        taken = len(self._live) + self.leaving
        count = self.plan.nodes_before(role, offer, enough + taken) - taken
        if count < enough and not self.leaving:
            count = self._others_before(role, offer)
        return count, enough, version

    def _others_before(self, role: Role, time: float) -> int:
        """How many nodes have room before then, one by one: none of those that have something free
        does, but where it is booked."""
        times, bookings = self.plan.cluster.slot_times(role), self.plan.bookings
        first = times.numbers[: times.before(time, MANY)]
        return len(bookings) + sum(number not in bookings for number in first)

    def _offer(self, node: Node, role: Role, shortest: float) -> float:
        """From when on a member could be there, as long as others may start there too."""
        plan = self.plan
        if node.number not in plan.bookings:
            return max(first_slot(node, role), plan.soon)
        until = _free_until(node, plan)
        for point in sorted({plan.soon, *plan.points(node)}):
            if point >= until:
                break
            end = plan.now + shortest if point == plan.soon else point + shortest
            if plan.slots(node, role, point, max(end, nextafter(point, inf))):
                return point
        return inf


def _free_until(node: Node, plan: Plan) -> float:
    """When the last of its devices that are free now is booked."""
    mask = node.mask
    bookings = [b for b in plan.bookings.get(node.number, ()) if b.end > plan.now]
    for booking in sorted(bookings, key=lambda booking: booking.start):
        mask &= ~booking.seat.mask
        if not mask:
            return booking.start
    return inf
