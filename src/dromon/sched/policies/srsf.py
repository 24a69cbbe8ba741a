"""SRSF: whoever has the least service left, time times GPUs, goes first and takes the nodes."""

from dromon.sched.job import Job
from dromon.sched.policies.preemption import REPACK


class Srsf:
    name, preemption, is_fair, changes_in_time = "srsf", REPACK, False, True
    backfills = True

    def key(self, job: Job, now: float) -> tuple[float, ...]:
        return (job.remaining(now) * max(job.gpus, 1.0),)
