"""Clustering: members that ask for the same number of GPUs together, apart from all others.

Best is a node whose members all ask alike, then one where some do, then an empty one, then any;
the fuller one first. Scores are whole numbers out of 100; equal ones go by node.
"""

from typing import Final

from dromon.sched.asks import RoleAsk
from dromon.sched.job import Job
from dromon.sched.node import Node
from dromon.sched.placers.devices import asked, lefts
from dromon.sched.placers.scale import Scale

SHARED: Final = 0  # the sort of those that have a part of a device; others go by how many they have


class Clustering:
    name = "clustering"

    def __init__(self, scale: Scale | None = None) -> None:
        self._gpus = (scale or Scale()).thousandths[1]

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]:
        count, part = asked(role)
        if not count:
            return (0,)
        there = {sort for job in node.jobs.values() for sort in sorts(job, node.name)}
        if (SHARED if part < 1000 else count) in there:
            base = 75 if len(there) == 1 else 50
        else:
            base = 0 if there else 25
        return (-(base + 25 * (self._gpus - sum(lefts(node))) // self._gpus),)


def sorts(job: Job, node: str) -> set[int]:
    """Of a job's members on this node that have GPUs."""
    return {
        SHARED if seat.part else seat.mask.bit_count()
        for seat in job.seats
        if seat.node == node and seat.mask
    }
