"""SRTF: whoever has the least time left goes first, and takes the nodes from those that have more.

The time left is what was asked for (`max_duration`) less what was run; who asks for none is last.
"""

from dromon.sched.job import Job
from dromon.sched.policies.preemption import REPACK


class Srtf:
    name, preemption, is_fair, changes_in_time = "srtf", REPACK, False, True
    backfills = True

    def key(self, job: Job, now: float) -> tuple[float, ...]:
        return (job.remaining(now),)
