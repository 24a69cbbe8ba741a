"""Room on nodes, now and later, for the slow scheduler: who holds what until when, and whether a
gang finds place all through a stretch of time. Says nothing about who may have it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import nextafter

from dromon.sched import events
from dromon.sched.asks import CPUS, GPUS, MEMORY, Ask, Placement, RoleAsk, Share

ALL = frozenset({CPUS, MEMORY, GPUS})


def milli(amount: float) -> int:
    return round(amount * 1000)


@dataclass
class Left:
    """What is left on one node; of each device in thousandths."""

    node: events.NodeJoined
    number: int  # of all that are there
    cpus: int
    memory: int
    gpus: dict[str, int]

    def change(self, share: Share, sign: int) -> None:
        self.cpus += sign * milli(share.cpus)
        self.memory += sign * (share.memory or 0)
        for device in share.gpus:
            if device in self.gpus:
                self.gpus[device] += sign * milli(share.part)


Room = dict[str, Left]
Turn = tuple[int, int]  # the seed, and how many nodes there are: settles ties


@dataclass(frozen=True)
class Hold:
    """One member's share of a node from one time to another. Of nobody: set aside."""

    job: str
    member: str
    share: Share
    begin: float
    end: float


def empty(nodes: Iterable[events.NodeJoined]) -> Room:
    return {
        n.name: Left(n, at, milli(n.cpus), n.memory, dict.fromkeys((g.id for g in n.gpus), 1000))
        for at, n in enumerate(nodes)
    }


class Timeline:
    """Holds on nodes, without the drained ones, and devices that others have."""

    def __init__(
        self, nodes: Iterable[events.NodeJoined], drained: set[str], outside: set[tuple[str, str]]
    ) -> None:
        self.nodes = list(nodes)
        self.drained = drained
        self.outside = outside
        self.holds: list[Hold] = []

    def at(self, time: float, without: frozenset[tuple[str, str]] = frozenset()) -> Room:
        room = {name: of for name, of in empty(self.nodes).items() if name not in self.drained}
        for node, device in self.outside:
            if node in room and device in room[node].gpus:
                room[node].gpus[device] -= 1000
        for hold in self.holds:
            is_there = hold.begin <= time < hold.end and (hold.job, hold.member) not in without
            if is_there and hold.share.node in room:
                room[hold.share.node].change(hold.share, -1)
        return room

    def times(self, begin: float, end: float) -> list[float]:
        """When something more is taken inside this stretch, and its beginning."""
        return sorted({begin, *(h.begin for h in self.holds if begin < h.begin < end)})

    def through(
        self, begin: float, end: float, without: frozenset[tuple[str, str]] = frozenset()
    ) -> Room:
        """What is left all the time between the two."""
        least, *rooms = [self.at(time, without) for time in self.times(begin, end)]
        for room in rooms:
            for name, left in room.items():
                mine = least[name]
                mine.cpus, mine.memory = min(mine.cpus, left.cpus), min(mine.memory, left.memory)
                mine.gpus = {d: min(of, left.gpus[d]) for d, of in mine.gpus.items()}
        return least

    def ends(self, now: float) -> list[float]:
        return sorted({h.end for h in self.holds if now < h.end < float("inf")})

    def let_go(self, gone: Iterable[tuple[str, str]], end: float) -> None:
        """These end otherwise than was thought."""
        gone = set(gone)
        self.holds = [
            Hold(h.job, h.member, h.share, h.begin, end) if (h.job, h.member) in gone else h
            for h in self.holds
        ]


def after(now: float, end: float) -> float:
    """What should have ended already is about to."""
    return max(end, nextafter(now, float("inf")))


def lasting(now: float, begin: float, duration: float) -> float:
    """When it ends. Waiting for what is overdue makes a job no longer."""
    return (now if begin == after(now, begin) == after(now, now) else begin) + duration


# ---- gangs --------------------------------------------------------------------------------------


def uses(ask: Ask) -> frozenset[str]:
    return frozenset(d for role in ask for d in role.uses)


def of_kind(role: RoleAsk, node: events.NodeJoined) -> list[str]:
    return [gpu.id for gpu in node.gpus if role.gpu_kind in (None, gpu.kind)]


def devices(role: RoleAsk, left: Left) -> list[str] | None:
    """Those that a member of this role would get; None when there are too few. A part of a GPU
    comes from the fullest that has it left."""
    kinds = of_kind(role, left.node)
    if role.gpus < 1:
        able = [id for id in kinds if left.gpus[id] >= milli(role.gpus)]
        return sorted(able, key=lambda id: left.gpus[id])[:1] or None
    whole = [id for id in kinds if left.gpus[id] == 1000]
    return whole[: int(role.gpus)] if len(whole) >= role.gpus else None


def share_on(role: RoleAsk, left: Left, dimensions: frozenset[str] = ALL) -> Share | None:
    """This member's share of this node, counting only these dimensions."""
    if role.node_label is not None and role.node_label not in left.node.labels:
        return None
    cpus = role.cpus if CPUS in dimensions else 0.0
    memory = role.memory if MEMORY in dimensions else None
    gpus: list[str] | None = []
    if (milli(cpus) and milli(cpus) > left.cpus) or (memory and memory > left.memory):
        return None
    if role.gpus and GPUS in dimensions:
        gpus = devices(role, left)
        if gpus is None:
            return None
    part = role.gpus if gpus and role.gpus < 1 else 1.0
    return Share(left.node.name, cpus, memory, tuple(gpus), part)


def place(
    room: Room, ask: Ask, turn: Turn = (0, 1), dimensions: frozenset[str] = ALL
) -> Placement | None:
    """`min` of each role, the biggest role first: all on the fullest node that takes them all, or
    each on the fullest that takes it. None when they do not all fit."""
    for name in sorted(room, key=lambda name: fullness(room[name], turn)):
        if all(share_on(role, room[name], dimensions) for role in ask if role.min):
            alone = {name: Left(**{**vars(room[name]), "gpus": dict(room[name].gpus)})}
            placement = place_each(alone, ask, turn, dimensions)
            if placement is not None:
                return placement
    return place_each(room, ask, turn, dimensions)


def place_each(room: Room, ask: Ask, turn: Turn, dimensions: frozenset[str]) -> Placement | None:
    """Takes it from the room."""
    placement: dict[str, Share] = {}
    for role in sorted(ask, key=lambda a: (-a.gpus, -a.cpus, -(a.memory or 0), a.role)):
        for member in role.members(0, role.min):
            share = put(room, role, placement, turn, dimensions)
            if share is None:
                return None
            placement[member] = share
    return placement


def put(
    room: Room, role: RoleAsk, beside: Placement, turn: Turn, dimensions: frozenset[str] = ALL
) -> Share | None:
    """One more member of this role; `beside`: its gang's other members."""
    peers = {s.node for m, s in beside.items() if m.rpartition("-")[0] == role.role}
    for name in sorted(room, key=lambda name: fullness(room[name], turn)):
        share = share_on(role, room[name], dimensions)
        if share is not None and not (role.spread == "node" and name in peers):
            room[name].change(share, -1)
            return share
    return None


def fullness(left: Left, turn: Turn) -> tuple[float, ...]:
    seed, count = turn
    gpus = sum(max(of, 0) for of in left.gpus.values())
    return (gpus, left.cpus, left.memory, (left.number + seed) % count)


def set_aside(room: Room, nodes: Room, ask: Ask) -> Iterator[Share]:
    """As much as there is of what each member may come to need, wherever it may come to be."""
    for name, left in room.items():
        for role in ask:
            if share_on(role, nodes[name]) is None:
                continue
            for _ in range(min(role.min, 1) if role.spread == "node" else role.min):
                gpus = [g.id for g in left.node.gpus if left.gpus[g.id] == 1000]
                gpus = [g for g in gpus if g in of_kind(role, left.node)][: int(role.gpus)]
                if 0 < role.gpus < 1:
                    gpus = devices(role, left) or []
                share = Share(
                    name,
                    min(max(left.cpus, 0), milli(role.cpus)) / 1000,
                    min(max(left.memory, 0), role.memory or 0),
                    tuple(gpus),
                    role.gpus if 0 < role.gpus < 1 else 1.0,
                )
                left.change(share, -1)
                yield share
