"""Room on nodes, now and later: who holds what until when, and where a gang finds place all
through a stretch of time. Says nothing about who may have it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil, inf, nextafter
from typing import Any

from dromon.sched import events
from dromon.sched.asks import Ask, Placement, RoleAsk, Share


def milli(amount: float) -> int:
    return round(amount * 1000)


@dataclass(frozen=True)
class Left:
    """What is left on one node; of CPUs and of each device in thousandths."""

    node: events.NodeJoined
    rank: int  # among equals
    cpus: int
    memory: int
    gpus: dict[str, int]

    def less(self, share: Share) -> "Left":
        gpus = {d: of - milli(share.part) * (d in share.gpus) for d, of in self.gpus.items()}
        memory = self.memory - (share.memory or 0)
        return replace(self, cpus=self.cpus - milli(share.cpus), memory=memory, gpus=gpus)


Room = dict[str, Left]


@dataclass(frozen=True)
class Hold:
    """A share of a node from one time to another. Of nobody: set aside, or somebody outside."""

    job: str
    share: Share
    begin: float
    end: float


def empty(nodes: dict[str, events.NodeJoined], seed: int = 0) -> Room:
    """The seed says which of equal nodes comes first."""
    return {
        n.name: Left(
            n, (at + seed) % len(nodes), milli(n.cpus), n.memory, {g.id: 1000 for g in n.gpus}
        )
        for at, n in enumerate(nodes.values())
    }


def less(room: Room, shares: Iterable[Share]) -> Room:
    room = dict(room)
    for share in shares:
        if share.node in room:
            room[share.node] = room[share.node].less(share)
    return room


def through(room: Room, holds: list[Hold], begin: float, end: float) -> Room:
    """What is left of it all the time between the two: the least of each, at each moment at which
    more is taken."""
    moments = {begin, *(h.begin for h in holds if begin < h.begin < end)}
    rooms = [less(room, [h.share for h in holds if h.begin <= m < h.end]) for m in moments]
    least = {}
    for name, left in room.items():
        lefts = [r[name] for r in rooms]
        gpus = {d: min(of.gpus[d] for of in lefts) for d in left.gpus}
        cpus, memory = min(of.cpus for of in lefts), min(of.memory for of in lefts)
        least[name] = replace(left, cpus=cpus, memory=memory, gpus=gpus)
    return least


def after(now: float, end: float) -> float:
    """What should have ended already is about to."""
    return max(end, nextafter(now, inf))


def lasting(now: float, begin: float, duration: float) -> float:
    """When it ends. Waiting for what is overdue makes a job no longer."""
    return (now if begin == after(now, now) else begin) + duration


def devices(role: RoleAsk, left: Left) -> tuple[str, ...]:
    """As many as a member of this role needs, or as there are. A part of a GPU comes from the
    fullest that has it left."""
    kinds = [gpu.id for gpu in left.node.gpus if role.gpu_kind in (None, gpu.kind)]
    able = [id for id in kinds if left.gpus[id] >= min(milli(role.gpus), 1000)]
    if role.gpus < 1:
        able.sort(key=lambda id: left.gpus[id])
    return tuple(able[: ceil(role.gpus)])


def share_on(role: RoleAsk, left: Left) -> Share | None:
    """This member's share of this node, if it has enough."""
    gpus, part = devices(role, left), role.gpus if 0 < role.gpus < 1 else 1.0
    fits = (
        role.node_label in (None, *left.node.labels)
        and milli(role.cpus) <= max(left.cpus, 0)
        and (role.memory or 0) <= max(left.memory, 0)
        and len(gpus) == ceil(role.gpus)
    )
    return Share(left.node.name, role.cpus, role.memory, gpus, part) if fits else None


def fullness(left: Left) -> tuple[int, ...]:
    return sum(max(of, 0) for of in left.gpus.values()), left.cpus, left.memory, left.rank


def choosiness(a: RoleAsk) -> tuple[Any, ...]:
    """Who may only be on some nodes or devices is placed first, then whoever asks for most."""
    only = (a.node_label is None, a.gpu_kind is None or not a.gpus, a.spread != "node")
    return (*only, -a.gpus, -a.cpus, -(a.memory or 0), a.role)


def place(room: Room, ask: Ask) -> Placement | None:
    """All on the fullest node that takes them all, or each on the fullest that takes it. None when
    they do not all fit."""
    alone = [{left.node.name: left} for left in sorted(room.values(), key=fullness)]
    found = (place_each(nodes, ask) for nodes in (*alone, room))
    return next((placement for placement in found if placement is not None), None)


def place_each(room: Room, ask: Ask) -> Placement | None:
    """The choosiest role first."""
    roles = sorted(ask, key=choosiness)
    return place_all(room, [(r, m) for r in roles for m in r.members(0, r.min)], set())


def place_all(room: Room, members: list[tuple[RoleAsk, str]], shut: set[str]) -> Placement | None:
    """Each on the fullest node that takes it and leaves room for the others; the first not on one
    that is shut."""
    if not members:
        return {}
    (role, member), *others = members
    for left in sorted(room.values(), key=fullness):
        share = None if left.node.name in shut else share_on(role, left)
        if share is None:
            continue
        barred = shut | {share.node} if role.spread == "node" else shut
        is_same = bool(others) and others[0][0] is role
        rest = place_all(less(room, [share]), others, barred if is_same else set())
        if rest is not None:
            return {member: share, **rest}
        if members[-1][0] is role:
            return None  # of one role it does not matter who is where
        shut = shut | {share.node}  # nor would it help if another of its role were there
    return None


def set_aside(room: Room, whole: Room, ask: Ask) -> Iterator[Share]:
    """As much as there is of what each member may come to need, wherever it may come to be."""
    for name, left in room.items():
        for role in ask:
            share = share_on(role, whole[name])
            for _ in range(0 if share is None else 1 if role.spread == "node" else role.min):
                cpus = min(max(left.cpus, 0), milli(role.cpus)) / 1000
                memory = min(max(left.memory, 0), role.memory or 0)
                kept = replace(share, cpus=cpus, memory=memory, gpus=devices(role, left))
                left = left.less(kept)
                yield kept
