"""Who gives way to a blocked job: members above `min` first, then whole gangs, the cheapest.

By priority: lesser classes of the same queue. By reclaim: whatever a queue holds above what it
deserves, for a job whose own queue stays within it. Nobody is sent away in vain, and nobody more
while those that stop already make the room.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from dromon.sched.asks import CPUS, GPUS, MEMORY
from dromon.sched.board import Board, State, slots
from dromon.sched.caps import add_to
from dromon.sched.cluster import Cluster
from dromon.sched.job import QUEUED, RUNNING, Demand, Job, Role, Seat, Shape
from dromon.sched.later import Later
from dromon.sched.node import Node
from dromon.sched.place import now_board
from dromon.sched.plan import Plan
from dromon.sched.queues import Queue

Step = tuple[Job, Sequence[Seat], str]  # who, which seats, why: "elastic", "priority", "reclaim"


class Outlook:
    """Who will hold how much once those that stop have gone."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.less: dict[int, Demand] = {}  # queue number -> what goes
        self.expected: dict[str, Job] = {}  # those that get the room
        self.gone: dict[Seat, int] = {}  # how often it was said of whom
        for job, seats in _under_way(cluster):
            self.goes(job, seats)
        for job in cluster.promised.values():
            if job.id not in cluster.refused:
                self.expect(job)

    def goes(self, job: Job, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self.gone[seat] = self.gone.get(seat, 0) + 1
            if self.gone[seat] == 1:
                self._count(job, seat, 1)

    def stays(self, job: Job, seats: Iterable[Seat]) -> None:
        """After all."""
        for seat in seats:
            self.gone[seat] -= 1
            if self.gone[seat] == 0:
                self._count(job, seat, -1)

    def _count(self, job: Job, seat: Seat, sign: int) -> None:
        held = job.shape.per_member.get(seat.member.rpartition("-")[0], {})
        for queue in self.cluster.accounts.tree[job.queue].path:
            add_to(self.less.setdefault(queue.number, {}), held, sign)

    def expect(self, job: Job) -> None:
        self.expected[job.id] = job

    def coming(self, job: Job, held: Collection[str]) -> Sequence[Job]:
        """Those for whom room is being made before this one, and whom no cap holds: nobody is to
        take what a cap leaves them. `held`: whom one does."""
        expected = self.expected
        if not expected:
            return ()
        before = (job.seq, job.id) if job.id in expected else None
        return [
            other for other in expected.values()
            if other.state == QUEUED and other is not job and other.id not in held
            and (before is None or (other.seq, other.id) < before)
        ]  # fmt: skip

    def usage(self, queue: Queue, resource: str) -> int:
        less = self.less.get(queue.number)
        return queue.usage.get(resource, 0) - (less.get(resource, 0) if less else 0)

    def _to_come(self, queue: Queue) -> Demand:
        """What those of this queue come to that still wait for their room."""
        more: Demand = {}
        for job in self.expected.values():
            if job.state == QUEUED and queue in self.cluster.accounts.tree[job.queue].path:
                add_to(more, job.shape.demand, 1)
        return more

    def is_within(self, job: Job) -> bool:
        """Would its queue and all above it stay within what they deserve, with it counted?"""
        leaf = self.cluster.accounts.tree[job.queue]
        return self._keeps_within(leaf, job.shape, job.id in self.expected)

    def are_within(self, leaf: Queue) -> bool:
        """Each of those who wait there, by itself."""
        return all(self._keeps_within(leaf, shape, False) for shape in leaf.shapes)

    def may_be_within(self, leaf: Queue) -> bool:
        """Some of those who wait there."""
        expected = self.expected  # room is made for these, and they are counted already
        return any(other.queue == leaf.name for other in expected.values()) or any(
            self._keeps_within(leaf, shape, False) for shape in leaf.shapes
        )

    def _keeps_within(self, leaf: Queue, shape: Shape, is_counted: bool) -> bool:
        for queue in leaf.path:
            if queue.parent is None:
                continue
            more = self._to_come(queue) if self.expected else {}
            for resource, amount in shape.demand.items():
                deserved = queue.deserved.get(resource)
                if deserved is None:
                    continue
                asked = more.get(resource, 0) + (0 if is_counted else amount)
                if self.usage(queue, resource) + asked > deserved:
                    return False
        return True

    def is_over(self, queue: Queue, resources: Iterable[str]) -> bool:
        return any(
            self.usage(queue, resource) > queue.deserved[resource]
            for resource in resources
            if resource in queue.deserved
        )


class Room:
    """The nodes as a blocked job would find them, were some seats given back."""

    def __init__(self, plan: Plan, later: Later | None, job: Job, closed: frozenset[str]) -> None:
        """`later`: None where it is known already that nobody put off comes to be there."""
        self.end = plan.now + job.duration
        self.plan = plan
        self.later = later
        self.job = job
        self.closed = closed
        self.freed: dict[int, list[Seat]] = {}
        self.given: dict[Seat, int] = {}  # a member may go for itself, and with its gang
        self._states: dict[int, State] = {}
        self._slots: dict[int, int] = {}
        self._count = 0
        if later is not None and (job.shape.plain is None or closed or plan.reservations):
            later.catch_up()  # who is planned where may matter anywhere
        if job.shape.plain is not None:
            for node in self._with_room(job.shape.plain):
                self._recount(node)

    @property
    def nodes(self) -> list[Node]:
        return [node for node in self.plan.cluster.nodes.values() if node.is_open]

    def _with_room(self, role: Role) -> Iterable[Node]:
        """Those that may have a slot already: the others are looked at once a seat is freed."""
        if not role.gpus:
            return self.nodes
        found = [self.plan.cluster.numbers[number] for number in self.plan.bookings]
        for group in self.plan.cluster.index.groups.values():
            found += group.mixed.values()
            for bucket in group.buckets[role.gpus :]:
                found += [entry[3] for entry in bucket]
        return [node for node in {n.number: n for n in found}.values() if node.is_open]

    def state(self, node: Node) -> State:
        found = self._states.get(node.number)
        if found is None:
            plan = self.plan
            freed = self.freed.get(node.number, ())
            found = plan.state(node, plan.now, self.end, freed, self.closed)
            self._states[node.number] = found
        return found

    def _recount(self, node: Node) -> None:
        role = self.job.shape.plain
        assert role is not None
        number = node.number
        if self.later is not None and self.later.may_come(node, self.end):
            self.later.catch_up()
        if self.closed:
            count = slots(node, self.state(node), role)
        elif not (role.cpus or role.memory or node.held or node.parts) and role.gpus:
            count = self._count_devices(node, role)
        elif not self.freed.get(number) and number not in self.plan.bookings:
            count = slots(node, State.of(node), role)
        else:
            count = slots(node, self.state(node), role)
        self._count += count - self._slots.get(number, 0)
        self._slots[number] = count

    def _count_devices(self, node: Node, role: Role) -> int:
        """Slots there of a role that asks for nothing but whole devices: most are such."""
        if role.label is not None and role.label not in node.labels:
            return 0
        mask, now = node.mask, self.plan.now
        for seat in self.freed.get(node.number, ()):
            mask |= seat.mask
        for booking in self.plan.bookings.get(node.number, ()):
            if booking.start < self.end and booking.end > now:
                mask &= ~booking.seat.mask
        return (mask & node.kind_mask(role.kind)).bit_count() // role.gpus

    def give(self, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self.given[seat] = self.given.get(seat, 0) + 1
            node = self.plan.cluster.nodes.get(seat.node)
            if self.given[seat] == 1 and node is not None and node.is_open:
                self.freed.setdefault(node.number, []).append(seat)
                self._changed(node)

    def take(self, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self.given[seat] -= 1
            node = self.plan.cluster.nodes.get(seat.node)
            if self.given[seat] == 0 and node is not None and node.is_open:
                self.freed[node.number].remove(seat)
                self._changed(node)

    def _changed(self, node: Node) -> None:
        self._states.pop(node.number, None)
        if self.job.shape.plain is not None:
            self._recount(node)

    def fits(self) -> bool:
        plain = self.job.shape.plain
        if plain is not None and self._count < plain.min:
            return False
        if plain is not None and not self.plan.reservations:
            return True
        return self.seats() is not None

    def seats(self) -> list[Seat] | None:
        nodes = self.nodes
        if self.job.shape.plain is not None:
            by_number = self.plan.cluster.numbers
            nodes = [by_number[number] for number, count in self._slots.items() if count]
        board = Board(nodes, lambda node: self.state(node).copy(), self.plan.turn)
        seats = board.place(self.job.shape)
        if seats is None or not self.plan.respects(self.job, seats, self.plan.now, self.freed):
            return None
        return seats


def give_way(
    plan: Plan, later: Later, job: Job, outlook: Outlook, *, is_first: bool, may_preempt: bool,
    closed: frozenset[str], untouchable: set[str], coming: Sequence[Job],
) -> list[Step]:  # fmt: skip
    """The cheapest steps that make room for a blocked job; none when none do, or when those under
    way are enough."""
    cluster = plan.cluster
    leaf = cluster.accounts.tree[job.queue]
    by_priority = is_first and may_preempt and any(p < job.priority for p in leaf.lower)
    reclaims = (
        may_preempt and cluster.accounts.over > 0
        and leaf.parent is not None and outlook.is_within(job)
    )  # fmt: skip
    resources: list[str] = []
    if reclaims:
        if len(job.uses) > 1:  # which of them it lacks depends on what is planned
            later.catch_up()
        resources = lacking_resources(plan, job, closed)
        reclaims = any(outlook.is_over(queue, resources) for queue in cluster.accounts.tree.values()
                       if queue.parent is not None)  # fmt: skip
    if not by_priority and not reclaims and not cluster.elastic:
        return []
    room = Room(plan, later, job, closed)
    under_way = list(_under_way(cluster))
    if under_way:
        for _, seats in under_way:
            room.give(seats)
        if room.fits():
            return []
        if not closed:
            later.catch_up()
            found = plan.earliest(job)
            if found is not None and found[0] <= _by_when(plan, under_way):
                return []
    steps: list[Step] = []
    for step in _extra_members(cluster, untouchable):
        outlook.goes(step[0], step[1])
        room.give(step[1])
        steps.append(step)
        if room.fits():
            return _least(room, steps, outlook)
    if by_priority or reclaims:
        for step in _victims(plan, job, outlook, by_priority, reclaims, resources, untouchable):
            outlook.goes(step[0], step[1])
            room.give(step[1])
            steps.append(step)
            if room.fits():
                steps = _least(room, steps, outlook)
                if not _is_held_without(plan, job, steps, coming):
                    return steps
                break
    for step in steps:
        outlook.stays(step[0], step[1])
    return []


def coming_room(
    plan: Plan, later: Later | None, job: Job, closed: frozenset[str]
) -> tuple[float, list[Seat]] | None:
    """By when, and where, there is room for it once those have gone that are told to."""
    under_way = list(_under_way(plan.cluster))
    if not under_way:
        return None
    room = Room(plan, later, job, closed)
    for _, seats in under_way:
        room.give(seats)
    if plan.reservations:  # once others are told to go, it may have at once what is free
        found = now_board(plan, plan.turn, job).place(job.shape)
        if found is not None and plan.respects(job, found, plan.now, room.freed):
            return plan.soon, found
    found = room.seats()
    return None if found is None else (_by_when(plan, under_way), found)


def _is_held_without(plan: Plan, job: Job, steps: list[Step], coming: Sequence[Job]) -> bool:
    """Would a cap hold it once these have gone? What is guaranteed to their queues is then kept
    for those, not for a job that nobody could send away."""
    cluster = plan.cluster
    if job.preemptible or not cluster.accounts.has_guarantees:
        return False
    going = {other.id: other for other, _, why in steps if why != "elastic"}
    going |= {id: cluster.jobs[id] for id in cluster.stopping}
    resumes = [cluster.suspend(other, plan.now) for other in going.values()]
    cap = cluster.accounts.cap(job, plan.now, coming=coming)
    for resume in reversed(resumes):
        resume()
    plan.forget_fronts()
    return cap is not None


def _under_way(cluster: Cluster) -> Iterator[tuple[Job, Sequence[Seat]]]:
    for id in cluster.stopping:
        yield cluster.jobs[id], cluster.jobs[id].seats
    for id in cluster.shrinking:
        job = cluster.jobs[id]
        if id not in cluster.stopping:
            yield job, [seat for seat in job.seats if seat.member in job.going]


def _by_when(plan: Plan, under_way: list[tuple[Job, Sequence[Seat]]]) -> float:
    """They will have gone."""
    return max(
        plan.soon if other.state == RUNNING else max(other.end, plan.soon) for other, _ in under_way
    )


def _extra_members(cluster: Cluster, untouchable: set[str]) -> Iterator[Step]:
    """One by one, of those that started last, the last member first."""
    for job in sorted(cluster.elastic.values(), key=lambda job: -job.start):
        if job.id in untouchable or job.state != RUNNING:
            continue
        counts: dict[str, int] = {}
        for seat in job.seats:
            if seat.member not in job.going:
                role = seat.member.rpartition("-")[0]
                counts[role] = counts.get(role, 0) + 1
        least = {role.name: role.min for role in job.shape.roles}
        for seat in reversed(job.seats):
            role = seat.member.rpartition("-")[0]
            if seat.member not in job.going and counts[role] > least.get(role, 0):
                counts[role] -= 1
                yield job, [seat], "elastic"


def _victims(
    plan: Plan, job: Job, outlook: Outlook, by_priority: bool, reclaims: bool,
    resources: list[str], untouchable: set[str],
) -> Iterator[Step]:  # fmt: skip
    """Cheapest first: least work lost, then youngest."""
    cluster, now = plan.cluster, plan.now
    leaf = cluster.accounts.tree[job.queue]
    own = set(leaf.path)
    protected = cluster.rules.min_run_time
    spared = untouchable | job.gave_way_to
    found: list[tuple[float, int, str, Job, Queue | None]] = []

    def consider(other: Job, above: Queue | None) -> None:
        if other.state == RUNNING and other.id not in spared:
            found.append((other.work_lost(now), -other.start, other.id, other, above))

    if by_priority:
        for other in leaf.jobs.values():
            may_go = other.preemptible and now - other.started >= protected
            if may_go and _standing(leaf, other) < job.priority:
                consider(other, None)
    if reclaims:
        for queue in cluster.accounts.tree.values():
            if queue.jobs and queue is not leaf:
                above = next(q for q in reversed(queue.path) if q not in own)
                if outlook.is_over(above, resources):
                    for other in queue.jobs.values():
                        consider(other, above)
    found.sort(key=lambda candidate: candidate[:3])
    for _, _, _, other, borrower in found:
        if borrower is None:
            yield other, _seats(other), "priority"
        elif outlook.is_over(borrower, resources) and any(other.held.get(r) for r in resources):
            yield other, _seats(other), "reclaim"


def _standing(leaf: Queue, job: Job) -> int:
    """Its priority, with what it had risen by when it started: otherwise whoever had to wait so
    long would be sent away at once by those it came before."""
    return job.priority + (job.risen(leaf.rule.aging, job.started) if leaf.rule.aging else 0)


def _seats(job: Job) -> list[Seat]:
    return [seat for seat in job.seats if seat.member not in job.going]


def _least(room: Room, steps: list[Step], outlook: Outlook) -> list[Step]:
    """Spare whoever is not needed, beginning with those that cost most."""
    needed: list[Step] = []
    for step in reversed(steps):
        room.take(step[1])
        if room.fits():
            outlook.stays(step[0], step[1])
        else:
            room.give(step[1])
            needed.append(step)
    return needed[::-1]


def lacking_resources(plan: Plan, job: Job, closed: frozenset[str]) -> list[str]:
    found = []
    for dimension in sorted(lacking(plan, job, closed)):
        found.append(dimension)
        if dimension == GPUS:
            kinds = {role.kind for role in job.shape.roles if role.kind is not None and role.min}
            found += [f"{GPUS}.{kind}" for kind in sorted(kinds)]
    return found


def lacking(plan: Plan, job: Job, closed: frozenset[str] = frozenset()) -> frozenset[str]:
    """The dimensions that are too short for a job that does not fit, or closed to it; when each
    alone would do and only their sum does not, all that it uses."""
    if len(job.uses) <= 1:
        return job.uses
    nodes = [node for node in plan.cluster.nodes.values() if node.is_open]
    short = set(closed & job.uses)
    for dimension in (CPUS, MEMORY, GPUS):
        if dimension in job.uses - closed:
            board = Board(nodes, lambda node: plan.throughout_now(node, job), plan.turn,
                          frozenset({dimension}))  # fmt: skip
            if board.place(job.shape) is None:
                short.add(dimension)
    return frozenset(short) or job.uses
