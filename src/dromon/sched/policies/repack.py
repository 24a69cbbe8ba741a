"""Repack: rank all jobs, place them from an empty cluster, skip what does not fit. Whoever runs and
is not among those placed is sent away, and whoever is among them and does not run is started.

A rule for simulations: it stops and moves gangs as often as the ranking asks for it, and looks at
the ranking alone, not at caps, shares or reservations. A job that may stay where it is stays.

A policy ranks by its `key`; waiting jobs' keys may change only by running. One that has a
`rank(cluster, now)` gives the order itself.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import TYPE_CHECKING

from dromon.sched.board import Board, State, placement_of
from dromon.sched.decisions import Decision, Preempt, Refuse, Start
from dromon.sched.job import QUEUED, RUNNING, Job, Role, Seat, Shape
from dromon.sched.node import Node
from dromon.sched.placers.firstfit import FirstFit

if TYPE_CHECKING:
    from dromon.sched.cluster import Cluster
    from dromon.sched.policies import Policy

Rank = tuple[tuple[float, ...], int, str]
Chosen = list[tuple[Job, list[Seat]]]


def repack(cluster: "Cluster", policy: "Policy", now: float, seed: int) -> tuple[Decision, ...]:
    # 1. Rank all.
    own = getattr(policy, "rank", None)
    ranked = own(cluster, now) if own is not None else ranking(cluster, policy, now)
    # 2. Place from empty, in that order.
    chosen = pick(cluster, ranked, seed)
    # 3. Who no longer belongs there goes.
    kept = {job.id for job, _ in chosen if job.state == RUNNING}
    going = [job for job in cluster.holders() if job.state == RUNNING and job.id not in kept]
    coming = [(job, seats) for job, seats in chosen if job.state != RUNNING]
    decisions: list[Decision] = [Refuse(id, why) for id, why in cluster.refused.items()]
    first = coming[0][0].id if coming else ""
    decisions += [Preempt(job.id, first, "repack") for job in going]
    # 4. Who comes finds room beside those that stay, or else everybody moves to the new places.
    places = beside(cluster, going, coming, seed)
    if places is None:
        moving = [(j, seats) for j, seats in chosen if j.state == RUNNING and _moves(j, seats)]
        decisions += [Preempt(job.id, first, "repack") for job, _ in moving]
        places = [*moving, *coming]
    decisions += [
        Start(job.id, placement_of(seats, job.shape, cluster.nodes)) for job, seats in places
    ]
    return tuple(decisions)


# ---- 1. rank ------------------------------------------------------------------------------------


class Ranking:
    """The waiting jobs of one cluster in order, kept between calls."""

    def __init__(self) -> None:
        self.ranks: dict[str, Rank] = {}  # of those that wait
        self.order: list[Rank] = []

    def follow(self, cluster: "Cluster", policy: "Policy", now: float) -> None:
        jobs, refused = cluster.jobs, cluster.refused
        for id in [id for id in self.ranks if id not in jobs or jobs[id].state != QUEUED]:
            rank = self.ranks.pop(id)
            del self.order[bisect_left(self.order, rank)]
        for id in jobs.keys() - self.ranks.keys():
            job = jobs[id]
            if job.state == QUEUED and id not in refused:
                rank = self.ranks[id] = (policy.key(job, now), job.seq, id)
                insort(self.order, rank)


def ranking(cluster: "Cluster", policy: "Policy", now: float) -> Iterator[Job]:
    line = cluster.ranking
    if line is None:
        line = cluster.ranking = Ranking()
    line.follow(cluster, policy, now)
    running = sorted(
        (policy.key(job, now), job.seq, job.id) for job in cluster.holders() if job.state == RUNNING
    )
    return (cluster.jobs[id] for _, _, id in merge(running, line.order))


# ---- 2. place -----------------------------------------------------------------------------------


def pick(cluster: "Cluster", ranked: Iterable[Job], seed: int) -> Chosen:
    """Who gets a place, and where."""
    room = _Room(cluster, seed)
    chosen: Chosen = []
    shapes = cluster.shapes.values()
    need_gpus = all(shape.gpus for shape in shapes)
    full: set[Shape] = set()
    for job in ranked:
        shape = job.shape
        if shape in full:
            continue
        seats = room.place(shape)
        if seats is not None:
            chosen.append((job, seats))
            continue
        full.add(shape)
        if len(full) >= len(shapes) or (need_gpus and not room.has_gpus):
            break
    return chosen


class _Room(Board):
    """All nodes, empty but for those that were told to stop and have not yet."""

    def __init__(self, cluster: "Cluster", seed: int) -> None:
        count = max(1, len(cluster.nodes))
        stopping = [cluster.jobs[id] for id in cluster.stopping if id in cluster.jobs]
        super().__init__(
            (node for node in cluster.nodes.values() if node.is_open),
            lambda node: _empty(node, stopping),
            lambda number: (number + seed) % count,
        )
        self._is_in_order = isinstance(cluster.placer, FirstFit)
        self._most = max((len(node.ids) for node in self.nodes), default=0)

    @property
    def has_gpus(self) -> bool:
        return any(state.mask or state.parts for state in map(self.state, self.nodes))

    def _score(self, node: Node, state: State) -> tuple[float, int, int, int]:
        if self._is_in_order:
            return (node.number, 0, 0, 0)
        return super()._score(node, state)

    def place(self, shape: Shape) -> list[Seat] | None:
        role = shape.plain
        if role is None or role.label is not None or role.kind is not None:
            return super().place(shape)
        if role.min > 1 and role.gpus * role.min <= self._most:
            return super().place(shape)  # one node may hold all of it
        return self._place_plain(role)

    def _place_plain(self, role: Role) -> list[Seat] | None:
        """Most jobs of most traces: whole devices, wherever they are."""
        gpus, cpus, memory = role.gpus, role.cpus, role.memory
        taken: list[tuple[State, Seat]] = []
        for index in range(role.min):
            best: tuple[Node, State] | None = None
            least = 0.0
            for node in self.nodes:
                state = self.state(node)
                if state.mask.bit_count() < gpus or state.cpus < cpus or state.memory < memory:
                    continue
                if self._is_in_order:
                    best = (node, state)
                    break
                left = state.gpus_left()
                if best is None or left < least:
                    best, least = (node, state), left
            if best is None:
                for state, seat in taken:
                    state.cpus += seat.cpus
                    state.memory += seat.memory
                    state.mask |= seat.mask
                return None
            node, state = best
            mask = node.lowest(state.mask, gpus) if gpus else 0
            seat = Seat(f"{role.name}-{index}", node.name, cpus, memory, mask, 0)
            state.take(seat)
            taken.append((state, seat))
        return [seat for _, seat in taken]


def _empty(node: Node, stopping: list[Job]) -> State:
    state = State.whole(node)
    for id in node.held:
        if id in node.position:
            state.mask &= ~(1 << node.position[id])
    for job in stopping:
        for seat in job.seats:
            if seat.node == node.name:
                state.take(seat)
    return state


# ---- 4. where -----------------------------------------------------------------------------------


def beside(cluster: "Cluster", going: list[Job], coming: Chosen, seed: int) -> Chosen | None:
    """Places for those that come while all others stay; None: there are not."""
    if not coming:
        return []
    count = max(1, len(cluster.nodes))

    def base(node: Node) -> State:
        state = State.of(node)
        for job in going:
            for seat in job.seats:
                if seat.node == node.name:
                    state.give(node, seat)
        return state

    nodes = [node for node in cluster.nodes.values() if node.is_open]
    board = Board(nodes, base, lambda number: (number + seed) % count)
    places: Chosen = []
    for job, _ in coming:
        seats = board.place(job.shape)
        if seats is None:
            return None
        places.append((job, seats))
    return places


def _moves(job: Job, seats: list[Seat]) -> bool:
    before = {seat.member: (seat.node, seat.mask, seat.part) for seat in job.seats}
    return any(before.get(s.member) != (s.node, s.mask, s.part) for s in seats)
