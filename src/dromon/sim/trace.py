"""What there was to do: the jobs of a trace, in the order in which they came. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dromon.sched.asks import Ask

FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job. `gpus`, `cpus` and `memory` are those of each member; a job that says nothing of
    members is one, or as few as the nodes allow when it asks for more GPUs than a node has."""

    id: str
    submit: float  # seconds since the trace began
    duration: float  # seconds of work; FOREVER: it never ends
    gpus: float = 0.0
    members: int = 0  # 0: as few as possible
    cpus: float = 0.0
    memory: int | None = None
    kinds: tuple[str, ...] = ()  # of GPUs, any of them; empty: all will do
    label: str | None = None
    user: str = ""
    queue: str = "default"
    priority: int = 0
    preemptible: bool = True
    max_duration: float | None = None  # what its owner said
    stop_grace: float = 0.0
    model: str = ""  # what it trains, for cost models
    ask: Ask = ()  # roles as they were, where they are known; then the amounts above are not used

    @property
    def total_gpus(self) -> float:
        if self.ask:
            return sum(role.gpus * role.min for role in self.ask)
        return self.gpus * max(1, self.members)


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs by submit time, then by their place in the file."""

    jobs: Sequence[TraceJob]
    name: str = ""
    format: str = ""
    begin: float = field(default=0.0)  # what the first submit time was in the file, in seconds
