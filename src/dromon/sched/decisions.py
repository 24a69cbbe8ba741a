"""What `decide` says is to be done. Values only; the shell does it and tells the cluster."""

from dataclasses import dataclass

from dromon.sched.asks import Placement


@dataclass(slots=True, init=False)  # as shares are
class Start:
    job: str
    placement: Placement

    def __init__(self, job: str, placement: Placement) -> None:
        self.job = job
        self.placement = placement


@dataclass(frozen=True, slots=True)
class Preempt:
    """Its whole gang is to be warned and stopped; it comes back to its old place in the line."""

    job: str
    for_job: str
    reason: str = "priority"  # reclaim, repack


@dataclass(frozen=True, slots=True)
class Refuse:
    """It can never run here."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Grow:
    """More members for an elastic gang that runs."""

    job: str
    placement: Placement  # of the new members only


@dataclass(frozen=True, slots=True)
class Shrink:
    """Members above `min` are to go, so that others may start."""

    job: str
    members: tuple[str, ...]
    for_job: str = ""


Decision = Start | Preempt | Refuse | Grow | Shrink
