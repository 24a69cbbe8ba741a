"""The nodes of a cluster and who sits where. No queues are ordered and nothing is decided here.

What a decision starts stays entered until somebody looks or says otherwise (`leave`): most likely
the next events say just that, and then nothing has to be entered twice.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from dromon.sched import events
from dromon.sched.accounts import Accounts
from dromon.sched.asks import CPUS, GPUS, MEMORY, Free, Placement, milli
from dromon.sched.caps import add_to
from dromon.sched.index import NodeIndex
from dromon.sched.job import (
    FOREVER,
    NOBODY,
    NOTHING,
    NOWHERE,
    QUEUED,
    RUNNING,
    STOPPING,
    Demand,
    Job,
    Role,
    Seat,
)
from dromon.sched.node import Node
from dromon.sched.rules import Reservation, Rules
from dromon.sched.slots import recounted
from dromon.sched.slottimes import SlotTimes

KEPT: Final = 16  # kinds of members


class Floor:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._tentative: dict[str, tuple[Job, Placement, float]] = {}  # see `leave`
        self._nodes: dict[str, Node] = {}
        self.numbers: dict[int, Node] = {}  # the same, by number
        self._jobs: dict[str, Job] = {}
        self.index = NodeIndex()
        self._counted: dict[str, Demand] = {}  # node -> what it adds to the total
        self._slot_times: dict[tuple[object, ...], SlotTimes] = {}
        self._accounts = Accounts(rules)
        self.stopping: set[str] = set()
        self.shrinking: set[str] = set()  # some of their members were told to go
        self.elastic: dict[str, Job] = {}  # running, with more members to win or to lose
        self.hindered: set[str] = set()  # nodes that are not open, or with devices held outside
        self.nodes_version = 0  # of what there is, not of what is free
        self.reserved_use: set[str] = set()  # reservations that were made use of
        self._numbers = 0
        self._is_reviewed = True

    @property
    def nodes(self) -> dict[str, Node]:
        if self._tentative:
            self.settle()
        return self._nodes

    @property
    def jobs(self) -> dict[str, Job]:
        if self._tentative:
            self.settle()
        return self._jobs

    @property
    def accounts(self) -> Accounts:
        if self._tentative:
            self.settle()
        return self._accounts

    def leave(self, job: Job, placement: Placement, now: float) -> None:
        """A decision's start stays entered as it is: most likely the next events say just this.
        Whoever looks or says anything else finds it taken back."""
        job.state, job.placement = QUEUED, NOWHERE
        self._tentative[job.id] = (job, placement, now)

    def settle(self) -> None:
        """Take back what was decided and did not happen."""
        left, self._tentative = list(self._tentative.values()), {}
        for job, _, now in reversed(left):
            self.vacate(job, now)
            job.state, job.end, job.started = QUEUED, FOREVER, 0.0

    def holders(self) -> list[Job]:
        """Everybody who holds a placement."""
        if self._tentative:
            self.settle()
        return [job for queue in self._accounts.tree.values() for job in queue.jobs.values()]

    def running(self) -> list[Job]:
        """The same, by id."""
        return sorted(self.holders(), key=lambda job: job.id)

    def slot_times(self, role: Role) -> SlotTimes:
        """When each node has room for such a member; the last few kinds asked for are kept."""
        found = self._slot_times.get(role.slot_key)
        if found is None:
            kept = self._slot_times
            if len(kept) >= KEPT:
                del kept[min(kept, key=lambda key: kept[key].last_read())]
            found = kept[role.slot_key] = SlotTimes(self.numbers, role, self.index)
        return found

    # ---- nodes ----------------------------------------------------------------------------------

    def _node_joined(self, event: events.NodeJoined) -> None:
        total = Free(milli(event.cpus), event.memory, tuple(event.gpus))
        old = self._nodes.get(event.name)
        if old is None:
            self._numbers += 1
        node = Node(
            event.name, old.number if old else self._numbers, total, frozenset(event.labels)
        )
        if old is not None:
            node.held, node.jobs, node.is_open = old.held, old.jobs, old.is_open
            old.is_open = False
            self.index.update(old)
        else:
            node.jobs = {
                job.id: job for job in self.holders()
                if any(share.node == node.name for share in job.placement.values())
            }  # fmt: skip
        self._nodes[node.name] = self.numbers[node.number] = node
        for job in node.jobs.values():
            self._seat(job)
        node.recount()
        self._nodes_changed(node)

    def _node_left(self, event: events.NodeLeft) -> None:
        node = self._nodes.pop(event.name, None)
        if node is not None:
            del self.numbers[node.number]
            node.is_open = False
            self._nodes_changed(node)

    def _node_drained(self, event: events.NodeDrained) -> None:
        self._open(event.name, False)

    def _node_opened(self, event: events.NodeOpened) -> None:
        self._open(event.name, True)

    def _open(self, name: str, is_open: bool) -> None:
        node = self._nodes.get(name)
        if node is not None and node.is_open != is_open:
            node.is_open = is_open
            self._nodes_changed(node)

    def _nodes_changed(self, node: Node) -> None:
        self._look_at(node)
        total = dict(self._accounts.total)
        add_to(total, self._counted.pop(node.name, {}), -1)
        if node.is_open:
            self._counted[node.name] = _total(node)
            add_to(total, self._counted[node.name], 1)
        self._accounts.set_total(total)
        self.nodes_version += 1
        self._is_reviewed = False

    def _gpu_held(self, event: events.GpuHeld) -> None:
        node = self._nodes.get(event.node)
        if node is not None:
            node.held[event.device] = event.by
            self._recount(node)

    def _gpu_freed(self, event: events.GpuFreed) -> None:
        node = self._nodes.get(event.node)
        if node is not None and node.held.pop(event.device, None) is not None:
            self._recount(node)

    def _recount(self, node: Node) -> None:
        node.recount()
        self._look_at(node)

    def _look_at(self, node: Node) -> None:
        self.index.update(node)
        if self._nodes.get(node.name) is node and (node.held or not node.is_open):
            self.hindered.add(node.name)
        else:
            self.hindered.discard(node.name)

    # ---- seats ----------------------------------------------------------------------------------

    def occupy(
        self, job: Job, placement: Placement, now: float, seats: tuple[Seat, ...] | None = None
    ) -> None:
        """`seats`: those of the placement, for `min` of each role, where they are known."""
        job.state = RUNNING
        job.started = now
        job.end = now + job.duration
        if seats is None:
            job.placement = dict(placement)
            self._seat(job)
            job.held = held_by(job, placement)
        else:
            job.placement, job.seats, job.held = placement, seats, job.shape.demand
        for seat in job.seats:
            self._take(job, seat)
        self._accounts.charge(job, job.held, 1, now, 1)
        if job.elastic and job.shape.can_grow:
            self.elastic[job.id] = job

    def _seat(self, job: Job) -> None:
        job.seats = tuple([self.seat(member, share) for member, share in job.placement.items()])

    def seat(self, member: str, share: Any) -> Seat:
        node = self._nodes.get(share.node)
        mask = 0
        if node is not None:
            for id in share.gpus:
                if id in node.position:
                    mask |= 1 << node.position[id]
        part = milli(share.part) if share.part < 1 else 0
        return Seat(member, share.node, milli(share.cpus), share.memory or 0, mask, part)

    def _take(self, job: Job, seat: Seat) -> None:
        node = self._nodes.get(seat.node)
        if node is not None:
            counts = node.counts
            node.take(seat)
            node.jobs[job.id] = job
            self.index.update(node)
            if counts is not None:
                recounted(node, counts, job, seat, True)

    def vacate(self, job: Job, now: float) -> None:
        """Give a running job's shares back."""
        for reservation in self.rules.reservations:
            if self.makes_use(reservation, job, now):
                self.reserved_use.add(reservation.id)
        if self.stopping or self.shrinking or self.elastic:
            self.stopping.discard(job.id)
            self.shrinking.discard(job.id)
            self.elastic.pop(job.id, None)
        for seat in job.seats:
            node = self._nodes.get(seat.node)
            if node is not None:
                counts = node.counts
                node.give(seat)
                node.jobs.pop(job.id, None)
                self.index.update(node)
                if counts is not None:
                    recounted(node, counts, job, seat, False)
        self._accounts.charge(job, job.held, -1, now, -1)
        job.seats, job.placement, job.held, job.going = (), NOWHERE, NOTHING, NOBODY

    def suspend(self, job: Job, now: float) -> Callable[[], None]:
        """As if it had ended, until the answer is called."""
        placement, state, start = job.placement, job.state, job.start
        started, end, going = job.started, job.end, job.going
        was_elastic = job.id in self.elastic
        self.vacate(job, now)

        def resume() -> None:
            self.occupy(job, placement, now)
            job.state, job.start, job.started, job.end, job.going = (
                state, start, started, end, going,
            )  # fmt: skip
            self.touch(job)
            if state == STOPPING:
                self.stopping.add(job.id)
            if going:
                self.shrinking.add(job.id)
            if not was_elastic:
                self.elastic.pop(job.id, None)

        return resume

    def touch(self, job: Job) -> None:
        """When it ends is expected otherwise than before."""
        for seat in job.seats:
            node = self._nodes.get(seat.node)
            if node is not None:
                self.index.update(node)

    def add_members(self, job: Job, placement: Placement, now: float) -> None:
        job.placement = {**job.placement, **placement}
        for member, share in placement.items():
            seat = self.seat(member, share)
            job.seats = (*job.seats, seat)
            self._take(job, seat)
        more = held_by(job, placement)
        job.held = dict(job.held)
        add_to(job.held, more, 1)
        self._accounts.charge(job, more, 1, now)

    def drop_members(self, job: Job, members: Iterable[str], now: float) -> None:
        gone = {m: job.placement[m] for m in members if m in job.placement}
        job.going = job.going.difference(gone)
        if not job.going:
            self.shrinking.discard(job.id)
        job.placement = {m: share for m, share in job.placement.items() if m not in gone}
        for seat in [seat for seat in job.seats if seat.member in gone]:
            job.seats = tuple([s for s in job.seats if s is not seat])
            node = self._nodes.get(seat.node)
            if node is not None:
                node.give(seat)
                if not any(s.node == node.name for s in job.seats):
                    node.jobs.pop(job.id, None)
                self.index.update(node)
        less = held_by(job, gone)
        job.held = dict(job.held)
        add_to(job.held, less, -1)
        self._accounts.charge(job, less, -1, now)

    def makes_use(self, reservation: Reservation, job: Job, now: float) -> bool:
        """Has this job had GPUs of it before it would have been released?"""
        if not job.held.get(GPUS) or now <= reservation.start:
            return False
        wait = reservation.release_after or 0.0
        return job.started < reservation.start + wait and self.is_reserved_for(reservation, job)

    def is_reserved_for(self, reservation: Reservation, job: Job) -> bool:
        if reservation.user is not None and reservation.user != job.user:
            return False
        if reservation.queue is None:
            return True
        queue = self._accounts.tree.get(job.queue)
        return queue is not None and any(q.name == reservation.queue for q in queue.path)


def _total(node: Node) -> Demand:
    found = {CPUS: node.total.cpus, MEMORY: node.total.memory, GPUS: len(node.ids) * 1000}
    for kind, mask in node.kinds.items():
        if kind:
            found[f"{GPUS}.{kind}"] = mask.bit_count() * 1000
    return found


def held_by(job: Job, placement: Placement) -> Demand:
    """What so many members of each role come to."""
    held: Demand = {}
    per_member = job.shape.per_member
    for member in placement:
        add_to(held, per_member.get(member.rpartition("-")[0], {}), 1)
    return held
