"""The same trace on the same nodes under several policies, side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dromon.errors import UsageError
from dromon.sched.events import NodeJoined
from dromon.sched.placers import PLACERS, Placer
from dromon.sched.placers.fgd import Fgd, Workload
from dromon.sched.placers.scale import Scale
from dromon.sched.policies import POLICIES
from dromon.sched.rules import Rules
from dromon.sim.asking import Asks, labelled
from dromon.sim.costs import FREE, Costs
from dromon.sim.fragments import Fragmentation, workload_of
from dromon.sim.measures import Summary, summarise
from dromon.sim.trace import Trace

ALSO = {"tiresias": "las", "best": "bestfit"}  # names that papers use


def policy_name(name: str) -> str:
    return _known(name, POLICIES, "policy")


def placement_name(name: str) -> str:
    return _known(name, PLACERS, "placement")


def _known(name: str, table: Mapping[str, Callable[[], object]], what: str) -> str:
    found = ALSO.get(name.lower(), name.lower())
    if found not in table:
        raise UsageError(f"there is no {what} {name!r}", hint=f"Known are {', '.join(table)}.")
    return found


def placer_for(name: str, nodes: Sequence[NodeJoined], workload: Workload, seed: int) -> Placer:
    """A scorer that knows what nodes there are and which jobs come."""
    cpus = max((node.cpus for node in nodes), default=0.0)
    gpus = max((len(node.gpus) for node in nodes), default=0)
    scale = Scale(cpus or 1.0, gpus or 1.0)
    factory = PLACERS[name]
    if name == "fgd":
        return Fgd(workload)
    if name in ("dotprod", "tightfit", "clustering"):
        return factory(scale)  # type: ignore[call-arg]
    return factory(seed) if name == "random" else factory()  # type: ignore[call-arg]


def compare(
    trace: Trace,
    nodes: Sequence[NodeJoined],
    rules: Rules | None = None,
    *,
    policies: Sequence[str],
    placement: str | None = None,
    costs: Costs = FREE,
    blind: bool = False,
    patience: float | None = None,
    seed: int = 0,
    on_progress: Callable[[str, int], None] | None = None,
) -> list[Summary]:
    """One summary for each policy. `on_progress` hears the policy and how many jobs are over."""
    from dromon.sim import simulate

    rules = rules or Rules()
    chosen = placement_name(placement or rules.placement)
    workload = workload_of(trace.jobs, Asks(labelled(nodes, trace.jobs)))
    summaries = []
    for name in map(policy_name, policies):
        outcome = simulate(
            trace,
            nodes,
            replace(rules, policy=name),
            placer=placer_for(chosen, nodes, workload, seed),
            costs=costs,
            blind=blind,
            patience=patience,
            seed=seed,
            probe=Fragmentation(workload, len(trace.jobs)),
            on_progress=_about(name, on_progress),
        )
        summaries.append(summarise(outcome, name, chosen, seed))
    return summaries


def _about(
    name: str, on_progress: Callable[[str, int], None] | None
) -> Callable[[int], None] | None:
    return None if on_progress is None else lambda over: on_progress(name, over)
