"""One job as the cluster knows it, and the shape of what it asks. No decisions here.

Jobs of the same ask share one `Shape`: where one of them does not fit, none does. Inside the room
amounts are whole numbers (thousandths of CPUs and GPUs, bytes), so that they add up exactly.
"""

from math import floor
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from dromon.sched.asks import CPUS, GPUS, MEMORY, Ask, Placement, RoleAsk, milli
from dromon.sched.crowd import Crowd

if TYPE_CHECKING:
    from dromon.sched.queues import Member

QUEUED: Final = "queued"
RUNNING: Final = "running"
STOPPING: Final = "stopping"
FOREVER: Final = float("inf")

Demand = dict[str, int]  # resource -> thousandths, or bytes
NOWHERE: Final[Placement] = MappingProxyType({})
NOBODY: Final[frozenset[str]] = frozenset()
NOTHING: Final[Demand] = {}


class Role:
    """A role's ask in whole numbers."""

    __slots__ = (
        "ask", "cpus", "first", "gpus", "is_apart", "is_bare", "kind", "label", "memory", "min",
        "name", "part", "replicas", "slot_key",
    )  # fmt: skip

    def __init__(self, ask: RoleAsk, members: int | None = None) -> None:
        """`members`: that many of them as if they were one."""
        times = members or 1
        self.ask = ask
        self.name = ask.role
        self.first = f"{ask.role}-0"  # its first member
        self.min = ask.min if members is None else 1
        self.replicas = ask.replicas
        self.cpus = milli(ask.cpus) * times
        self.memory = (ask.memory or 0) * times
        whole = ask.gpus == int(ask.gpus)
        self.gpus = int(ask.gpus) * times if whole else 0
        self.part = 0 if whole else milli(ask.gpus)
        self.kind = ask.gpu_kind if ask.gpus else None
        self.label = ask.node_label
        self.is_apart = ask.spread == "node"
        self.is_bare = not self.cpus and not self.memory and self.kind is self.label is None
        # Members of the same key have room at the same times.
        self.slot_key: tuple[object, ...] = (
            self.cpus,
            self.memory,
            self.gpus,
            self.kind,
            self.label,
        )

    def demand(self) -> Demand:
        """Of one member."""
        gpus = self.gpus * 1000 + self.part
        found = {CPUS: self.cpus, MEMORY: self.memory, GPUS: gpus}
        if self.kind is not None:
            found[f"{GPUS}.{self.kind}"] = gpus
        return {resource: amount for resource, amount in found.items() if amount}


class Shape:
    """An ask made ready: its roles, the choosiest first; what `min` of each come to; which
    dimensions they use. `plain`: its only role, when members may lie anywhere and share no
    device."""

    __slots__ = (
        "ask",
        "can_grow",
        "crowd",
        "demand",
        "gpus",
        "is_simple",
        "number",
        "one",
        "per_member",
        "plain",
        "refusal",
        "roles",
        "uses",
        "verdict_of",
    )  # fmt: skip

    def __init__(self, ask: Ask, number: int) -> None:
        self.ask = ask
        self.number = number
        self.roles = sorted((Role(role) for role in ask), key=_choosiness)
        self.uses = frozenset(dimension for role in ask for dimension in role.uses)
        self.per_member = {role.name: role.demand() for role in self.roles}
        self.demand: Demand = {}
        for role in self.roles:
            for resource, amount in self.per_member[role.name].items():
                if role.min:
                    self.demand[resource] = self.demand.get(resource, 0) + amount * role.min
        self.gpus = self.demand.get(GPUS, 0)
        only = self.roles[0] if len(self.roles) == 1 else None
        self.plain = only if only and only.min and not only.is_apart and not only.part else None
        self.is_simple = self.plain is not None and self.plain.gpus > 0
        self.one = self._as_one()
        self.can_grow = any(role.min < role.replicas for role in ask)
        self.crowd = Crowd()  # who waits, in all queues
        self.verdict_of = -1  # the version of the nodes that `refusal` is about
        self.refusal: str | None = None

    def _as_one(self) -> Role | None:
        """The whole gang as one member, to be put on one node; None when it cannot be."""
        if self.plain:
            return Role(self.plain.ask, self.plain.min)
        return None


def _choosiness(role: Role) -> tuple[bool, bool, bool, float, float, int, str]:
    """Who may only be on some nodes, on some devices or on a node each is placed first, then
    whoever asks for most."""
    ask = role.ask
    return (
        role.label is None, role.kind is None, not role.is_apart,
        -ask.gpus, -ask.cpus, -(ask.memory or 0), role.name,
    )  # fmt: skip


class Job:
    __slots__ = (
        "checkpointed", "duration", "elastic", "end", "executed", "for_job", "gave_way_to", "going",
        "held", "id", "max_duration", "member", "placement", "preemptible", "priority", "queue",
        "seats", "seq", "shape", "start", "started", "state", "stop_grace", "submitted", "user",
        "verdict", "waits",
    )  # fmt: skip

    def __init__(
        self, id: str, seq: int, submitted: float, shape: Shape, priority: int, preemptible: bool,
        user: str, queue: str, max_duration: float | None, stop_grace: float,
        checkpointed: float | None, elastic: bool,
    ) -> None:  # fmt: skip
        # What is looked at together lies together once this is compiled: of those who wait, then
        # of those who run. A hundred thousand may wait: what these have nothing in is shared, and
        # nobody changes it in place.
        self.priority = priority
        self.seq = seq
        self.shape = shape
        self.duration = FOREVER  # what planning takes it to last; the cluster sets it
        self.id = id
        self.waits = False  # it stands in a line
        self.preemptible = preemptible
        self.state = QUEUED
        self.member: Member | None = None  # its user in its queue, where the accounts know it
        self.seats: tuple[Seat, ...] = ()
        self.end = FOREVER  # when planning expects it to have ended
        self.held: Demand = NOTHING  # what its placement comes to
        self.placement: Placement = NOWHERE
        self.going: frozenset[str] = NOBODY  # members that were told to go
        self.user = user
        self.queue = queue
        self.started = 0.0
        self.max_duration = max_duration
        self.submitted = submitted
        self.elastic = elastic
        self.stop_grace = stop_grace
        self.checkpointed = checkpointed
        self.start = 0  # a later start has a higher number
        self.executed = 0.0  # before this start
        self.for_job = ""  # whom it makes room for
        self.gave_way_to: frozenset[str] = NOBODY
        self.verdict: str | None = None  # why it was refused when it came

    def __lt__(self, other: "Job") -> bool:
        """Does it go first, of those of one user?"""
        if self.priority != other.priority:
            return self.priority > other.priority
        return self.seq < other.seq or (self.seq == other.seq and self.id < other.id)

    @property
    def ask(self) -> Ask:
        return self.shape.ask

    @property
    def uses(self) -> frozenset[str]:
        return self.shape.uses

    @property
    def gpus(self) -> float:
        """What `min` of each role ask for."""
        return self.shape.gpus / 1000

    def risen(self, aging: float, now: float) -> int:
        """By how many points of priority, having waited until then."""
        return floor(aging * max(0.0, now - self.submitted) / 3600)

    def attained(self, now: float) -> float:
        """Seconds that it has run, in all."""
        return self.executed + (now - self.started if self.state != QUEUED else 0.0)

    def remaining(self, now: float) -> float:
        return self.duration - self.attained(now)

    def work_lost(self, now: float) -> float:
        """GPU-seconds (CPU-seconds where it has no GPU) that would have to be done again."""
        since = self.started
        if self.checkpointed is not None and self.checkpointed > since:
            since = self.checkpointed
        held = self.held.get(GPUS) or self.held.get(CPUS, 0)
        return max(0.0, now - since) * held / 1000


class Seat:
    """What one member has of one node, as the node counts it."""

    __slots__ = ("cpus", "mask", "member", "memory", "node", "part")

    def __init__(self, member: str, node: str, cpus: int, memory: int, mask: int, part: int):
        self.member = member
        self.node = node
        self.cpus = cpus
        self.memory = memory
        self.mask = mask  # of devices, by their position
        self.part = part  # of its one device, in thousandths; 0: whole ones
