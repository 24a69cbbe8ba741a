"""What a cluster hears. Values only; the shell makes them from what happens and from decisions."""

from dataclasses import dataclass

from dromon.sched.asks import Ask, Gpu, Placement
from dromon.sched.rules import Amounts, Rules


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
class NodeDrained:
    """What runs there goes on; nothing new is put there."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeOpened:
    name: str


@dataclass(frozen=True, slots=True)
class RulesChanged:
    rules: Rules
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class Used:
    """What somebody held between two times that are over; told once, before any job."""

    queue: str
    user: str
    priority: int
    amounts: Amounts
    start: float
    end: float


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
    max_duration: float | None = None  # None: the queue's, else it may run for ever
    stop_grace: float = 0.0
    checkpointed: float | None = None  # when its work was last saved
    elastic: bool = True  # members above `min` may come and go while it runs
    accepted: bool = False  # it passed the door earlier: whether its queue is open or full is moot


@dataclass(slots=True, init=False)  # as shares are
class JobStarted:
    id: str
    placement: Placement
    time: float

    def __init__(self, id: str, placement: Placement, time: float = 0.0) -> None:
        self.id = id
        self.placement = placement
        self.time = time


@dataclass(frozen=True, slots=True)
class JobStopping:
    """It was told to end or to give way; it holds its placement until it has."""

    id: str
    time: float = 0.0
    for_job: str = ""  # whom it makes room for, from the decision


@dataclass(frozen=True, slots=True)
class JobReleased:
    """Back to the queue, at its old place in the order."""

    id: str
    time: float = 0.0
    executed: float | None = None  # how long it has worked in all; None: as long as it ran


@dataclass(frozen=True, slots=True)
class JobEnded:
    id: str
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class JobCheckpointed:
    """Its work so far is safe."""

    id: str
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class JobGrown:
    """Members came to an elastic gang that runs."""

    id: str
    placement: Placement
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class JobShrinking:
    """These members were told to go; they hold their shares until they have."""

    id: str
    members: tuple[str, ...]
    time: float = 0.0
    for_job: str = ""


@dataclass(frozen=True, slots=True)
class JobShrunk:
    """These members have gone."""

    id: str
    members: tuple[str, ...]
    time: float = 0.0


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
    NodeJoined | NodeLeft | NodeDrained | NodeOpened | RulesChanged | Used
    | JobSubmitted | JobStarted | JobStopping | JobReleased | JobEnded | JobCheckpointed
    | JobGrown | JobShrinking | JobShrunk
    | GpuHeld | GpuFreed
)  # fmt: skip
