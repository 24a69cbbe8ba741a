"""What a cluster hears. Values only; the shell makes them from what happens and from decisions."""

from dataclasses import dataclass, field

from dromon.sched.asks import Ask, Gpu, Placement


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node is there; the same name again means that it has changed."""

    name: str
    cpus: float
    memory: int
    gpus: tuple[Gpu, ...] = ()
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeLeft:
    name: str


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    id: str
    seq: int  # submit order, unique
    time: float
    ask: Ask
    priority: int = 0  # higher goes first
    preemptible: bool = False
    user: str = ""
    queue: str = "default"


@dataclass(frozen=True, slots=True)
class JobStarted:
    id: str
    placement: Placement = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobStopping:
    """It was told to end or to give way; it holds its placement until it has."""

    id: str


@dataclass(frozen=True, slots=True)
class JobReleased:
    """Back to the queue, at its old place in the order."""

    id: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    id: str


@dataclass(frozen=True, slots=True)
class GpuHeld:
    """Somebody outside of this cluster's control has this device."""

    node: str
    device: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class GpuFreed:
    node: str
    device: str


Event = (
    NodeJoined | NodeLeft | JobSubmitted | JobStarted | JobStopping | JobReleased | JobEnded
    | GpuHeld | GpuFreed
)  # fmt: skip
