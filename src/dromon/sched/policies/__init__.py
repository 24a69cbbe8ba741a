"""In which order waiting jobs are looked at. Each policy is a small pure module.

A policy gives every job a key; smaller goes first, and ties go by submit order, then id. With
`is_fair` the keys only order jobs inside one user's line; queues and users come by their shares.
`preemption` says who may be sent away: nobody ("none"), lesser jobs of the same queue and what is
borrowed ("priority"), or whoever is not among the first when all are placed again from an empty
cluster ("repack"; for simulations, never the default of a live daemon).
"""

from collections.abc import Callable
from typing import Protocol

from dromon.sched.job import Job
from dromon.sched.policies.las import Las
from dromon.sched.policies.preemption import NONE, PRIORITY, REPACK
from dromon.sched.policies.srsf import Srsf
from dromon.sched.policies.srtf import Srtf

__all__ = ["NONE", "POLICIES", "PRIORITY", "REPACK", "Fair", "Fifo", "Policy", "Sjf"]


class Policy(Protocol):
    name: str
    preemption: str
    is_fair: bool
    changes_in_time: bool  # whether keys of waiting or running jobs change without an event
    backfills: bool  # whether anybody may pass a blocked job that has a planned start

    def key(self, job: Job, now: float) -> tuple[float, ...]: ...


class Fair:
    """Priority, then the smallest share of queue and user, then who came first."""

    name, preemption, is_fair, changes_in_time = "fair", PRIORITY, True, False
    backfills = True

    def key(self, job: Job, now: float) -> tuple[float, ...]:
        return (-job.priority,)


class Drf(Fair):
    """Fair, but nobody who runs is ever sent away."""

    name, preemption = "drf", NONE


class Fifo:
    """One line through all queues: priority, then who came first."""

    name, preemption, is_fair, changes_in_time = "fifo", PRIORITY, False, False
    backfills = True

    def key(self, job: Job, now: float) -> tuple[float, ...]:
        return (-job.priority,)


class Sjf:
    """The shortest first, by what each said or its queue allows; what may take for ever last."""

    name, preemption, is_fair, changes_in_time = "sjf", NONE, False, False
    backfills = True

    def key(self, job: Job, now: float) -> tuple[float, ...]:
        return (job.duration,)


POLICIES: dict[str, Callable[[], Policy]] = {
    "fair": Fair, "drf": Drf, "fifo": Fifo, "sjf": Sjf, "srtf": Srtf, "srsf": Srsf, "las": Las,
}  # fmt: skip
