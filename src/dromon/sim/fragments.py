"""How much of what is free is of no use to the jobs of the trace, sampled now and then."""

from collections import Counter
from collections.abc import Sequence

from dromon.sched.asks import RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.placers.devices import lefts
from dromon.sched.placers.fgd import Fgd, Workload
from dromon.sim.asking import Asks
from dromon.sim.outcome import Outcome
from dromon.sim.trace import TraceJob

SAMPLES = 200  # about so many in a run


def workload_of(jobs: Sequence[TraceJob], asks: Asks) -> Workload:
    """What members of these jobs ask for, and how often."""
    members: Counter[RoleAsk] = Counter()
    for job in jobs:
        for role in asks.of(job):
            members[role] += role.min
    return Workload(members)


class Fragmentation:
    """A probe. Sums what each node has free that a usual member could not use."""

    def __init__(self, workload: Workload, jobs: int) -> None:
        self._measure = Fgd(workload)
        self._every = max(1, 2 * jobs // SAMPLES)  # a job is about two events
        self._events = 0

    def look(self, cluster: Cluster, now: float, outcome: Outcome) -> None:
        self._events += 1
        if self._events % self._every != 1 and self._every > 1:
            return
        wasted = 0.0
        for node in cluster.nodes.values():
            if node.mask or node.parts:
                wasted += self._measure.fragment(node, node.cpus, lefts(node))
        if outcome.gpus:
            outcome.fragments.append((now, wasted / 1000 / outcome.gpus))
