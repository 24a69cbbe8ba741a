"""A trace, nodes, and the same `sched.decide` as the daemon's: what would have happened.

`simulate` is the way in. Its public hooks are a policy and a placer (protocols of `sched`), a cost
model (`costs.Costs`), and a probe. No clock is read and nothing is drawn: the same input gives the
same outcome.
"""

import gc
from collections.abc import Callable, Sequence

from dromon.sched.cluster import Cluster
from dromon.sched.events import NodeJoined
from dromon.sched.placers import Placer
from dromon.sched.policies import Policy
from dromon.sched.rules import Rules
from dromon.sim.asking import Asks, labelled
from dromon.sim.costs import FREE, Costs, StartUp
from dromon.sim.outcome import Outcome
from dromon.sim.reading import TraceError, read_trace
from dromon.sim.simulation import Probe, Simulation
from dromon.sim.stepped import SteppedSimulation
from dromon.sim.trace import FOREVER, Trace, TraceJob

__all__ = [
    "FOREVER", "FREE", "Costs", "Outcome", "Probe", "StartUp", "Trace", "TraceError", "TraceJob",
    "read_trace", "simulate",
]  # fmt: skip


def simulate(
    trace: Trace,
    nodes: Sequence[NodeJoined],
    rules: Rules | None = None,
    *,
    policy: Policy | None = None,
    placer: Placer | None = None,
    costs: Costs = FREE,
    patience: float | None = None,
    blind: bool = False,
    seed: int = 0,
    probe: Probe | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Outcome:
    """`policy`, `placer`: instead of those that the rules name. `patience`: a job that has not
    started so many seconds after it came leaves. `blind`: the scheduler is told no durations but
    those that owners said; else it knows how long everything takes."""
    nodes = labelled(nodes, trace.jobs)
    cluster = Cluster(rules or Rules(), policy=policy, placer=placer)
    for node in nodes:
        cluster.apply(node)
    kind = SteppedSimulation if costs.every_event else Simulation
    run = kind(trace.jobs, cluster, Asks(nodes), costs, patience=patience, blind=blind, seed=seed)
    run.outcome.gpus = sum(len(node.gpus) for node in nodes)
    gc.freeze()  # a million jobs need not be looked through again and again
    try:
        return run.through(probe, on_progress)
    finally:
        gc.unfreeze()
