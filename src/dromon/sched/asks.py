"""What a job asks for and what it is given. Values only.

CPUs are counted in thousandths inside this room, so that thirds add up to what they are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

CPUS: Final = "cpus"
MEMORY: Final = "memory"
GPUS: Final = "gpus"
DIMENSIONS: Final = frozenset({CPUS, MEMORY, GPUS})


def milli(cpus: float) -> int:
    return round(cpus * 1000)


@dataclass(frozen=True, slots=True)
class Gpu:
    id: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class RoleAsk:
    """What each member of one role needs, and how many members there should be."""

    role: str
    replicas: int
    min: int
    cpus: float = 0.0
    memory: int | None = None  # None: not accounted
    gpus: float = 0  # whole ones, or a part of one below 1
    gpu_kind: str | None = None
    node_label: str | None = None
    spread: str = "none"  # or "node": no two members of this role on one node

    def key(self) -> tuple[object, ...]:
        """All of it. Each job that is submitted is looked up by what it asks, and a tuple is found
        much sooner than a role."""
        return (
            self.min, self.gpus, self.role, self.replicas, self.cpus, self.memory, self.gpu_kind,
            self.node_label, self.spread,
        )  # fmt: skip

    @property
    def uses(self) -> frozenset[str]:
        """The dimensions any of it comes from."""
        if not self.replicas:
            return frozenset()
        asked = {CPUS: milli(self.cpus), MEMORY: self.memory, GPUS: self.gpus}
        return frozenset(dimension for dimension, amount in asked.items() if amount)

    def members(self, start: int, end: int) -> Iterator[str]:
        return (f"{self.role}-{index}" for index in range(start, end))


Ask = tuple[RoleAsk, ...]


@dataclass(slots=True, init=False)
class Share:
    """What one member has: on which node, how much, which devices. Every start makes some: they are
    not frozen only because that makes each three times as dear, and nobody changes one; and made
    as is written here, so that it can be compiled."""

    node: str
    cpus: float
    memory: int | None
    gpus: tuple[str, ...]
    part: float  # below 1: shares its one device with others, by agreement

    def __init__(
        self, node: str, cpus: float = 0.0, memory: int | None = None, gpus: tuple[str, ...] = (),
        part: float = 1.0,
    ) -> None:  # fmt: skip
        self.node = node
        self.cpus = cpus
        self.memory = memory
        self.gpus = gpus
        self.part = part


Placement = Mapping[str, Share]  # member -> share


@dataclass(frozen=True, slots=True)
class Free:
    """What is left on one node. `gpus` in device order."""

    cpus: int  # thousandths
    memory: int
    gpus: tuple[Gpu, ...] = ()

    def less(self, share: Share) -> "Free":
        return Free(
            self.cpus - milli(share.cpus),
            self.memory - (share.memory or 0),
            tuple(g for g in self.gpus if g.id not in share.gpus) if share.gpus else self.gpus,
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something does not fit, as data; `str()` says it."""

    text: str
    dimension: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Way:
    """What would let a job start. `kind`: stop (value: who), gpus or cpus or memory (at most so
    much per member), min (at most so many members), duration (at most so many seconds), queue
    (that one), priority (at least that), preemptible (it may be sent away)."""

    kind: str
    value: str | float
    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job does not run yet. `reason`: resources, order, cap, reservation, impossible,
    about to start, running, stopping, unknown."""

    sentence: str
    reason: str
    position: int | None = None  # in its queue
    holders: tuple[str, ...] = ()
    missing: Mapping[str, float] = field(default_factory=dict)
    unblock: tuple[str, ...] = ()
    start: float | None = None  # when it is likely to start
    sure: str = "unknown"  # how sure that is: "planned" (nobody may delay it), "likely", "unknown"
    ways: tuple[Way, ...] = ()  # what stands in `unblock`, as data
