"""LAS: whoever has had the least service so far goes first. Needs to know no durations.

Two-dimensional (time times GPUs) and in steps, as in Tiresias: jobs of one step do not chase each
other away; in it, those that run come first, then who came first. A job that has had its step's
limit goes one further and never comes back.
"""

from collections.abc import Sequence
from typing import Final

from dromon.sched.job import RUNNING, Job
from dromon.sched.policies.preemption import REPACK

LIMITS: Final = (3250.0, 7200.0)  # GPU-seconds; the figures of the Tiresias paper's simulator


class Las:
    name, preemption, is_fair, changes_in_time = "las", REPACK, False, True
    backfills = True

    def __init__(self, limits: Sequence[float] = LIMITS) -> None:
        self._limits = tuple(limits)

    def key(self, job: Job, now: float) -> tuple[float, ...]:
        return (self.step(job, now), job.state != RUNNING)

    def step(self, job: Job, now: float) -> int:
        service = job.attained(now) * max(job.gpus, 1.0)
        return sum(service >= limit for limit in self._limits)

    def wakes(self, running: Sequence[Job], now: float) -> float | None:
        """When the first of those that run goes a step further."""
        soonest: float | None = None
        for job in running:
            step = self.step(job, now)
            if step < len(self._limits):
                left = self._limits[step] / max(job.gpus, 1.0) - job.attained(now)
                if soonest is None or now + left < soonest:
                    soonest = now + left
        return soonest
