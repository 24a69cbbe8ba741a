"""Where a whole gang would go: all of it or nothing. Works on a trial, never on the cluster."""

from collections.abc import Iterable, Set

from dromon.sched.asks import (
    CPUS,
    DIMENSIONS,
    GPUS,
    MEMORY,
    Ask,
    Free,
    Placement,
    Refusal,
    RoleAsk,
    Share,
    milli,
)
from dromon.sched.cluster import Cluster, Job, Node
from dromon.sched.fit import BY_DIMENSION, PLACE_FILTERS, amount, refuse, suitable
from dromon.units import format_size


class Trial:
    """A cluster's nodes, with changes that nobody else sees."""

    def __init__(self, cluster: Cluster, *, empty: bool = False) -> None:
        self.nodes = cluster.nodes
        self._free: dict[str, Free] = {}
        if empty:  # as if nothing ran and nobody outside held a device
            self._free = {name: node.total for name, node in self.nodes.items()}

    def free(self, node: Node) -> Free:
        return self._free.get(node.name, node.free)

    def take(self, share: Share) -> None:
        self._free[share.node] = self.free(self.nodes[share.node]).less(share)

    def set_aside(self, node: Node, role: RoleAsk) -> None:
        """Keep for one member of this role as much as there is, up to what it needs."""
        free = self.free(node)
        kept = {gpu.id for gpu in suitable(role, free.gpus)[: int(role.gpus)]}
        self._free[node.name] = Free(
            max(0, free.cpus - milli(role.cpus)),
            max(0, free.memory - (role.memory or 0)),
            tuple(gpu for gpu in free.gpus if gpu.id not in kept),
        )

    def give_back(self, job: Job) -> None:
        """As if this job had ended."""
        for share in job.placement.values():
            node = self.nodes.get(share.node)
            if node is None:
                continue
            free = self.free(node)
            there = {gpu.id for gpu in free.gpus} | (set(share.gpus) - node.held.keys())
            self._free[node.name] = Free(
                free.cpus + milli(share.cpus),
                free.memory + (share.memory or 0),
                tuple(gpu for gpu in node.total.gpus if gpu.id in there),
            )

    def copy(self) -> "Trial":
        twin = object.__new__(Trial)
        twin.nodes, twin._free = self.nodes, dict(self._free)
        return twin

    def become(self, other: "Trial") -> None:
        self._free = other._free


def place(
    trial: Trial,
    ask: Ask,
    seed: int = 0,
    *,
    dimensions: Set[str] = DIMENSIONS,
    only_min: bool = False,
) -> Placement | None:
    """Shares for `min` of each role, and for as many more as there is room for; None and the
    trial untouched when even `min` does not fit. Only these `dimensions` are counted and taken."""
    attempt = trial.copy()
    placement: dict[str, Share] = {}
    largest_first = sorted(ask, key=lambda a: (-a.gpus, -a.cpus, -(a.memory or 0), a.role))
    apart: dict[str, set[str]] = {role.role: set() for role in ask}
    for role in largest_first:
        for member in role.members(0, role.min):
            share = _choose(attempt, role, apart[role.role], seed, dimensions)
            if share is None:
                return None
            placement[member] = share
    for role in () if only_min else largest_first:
        for member in role.members(role.min, role.replicas):
            share = _choose(attempt, role, apart[role.role], seed, dimensions)
            if share is None:
                break
            placement[member] = share
    trial.become(attempt)
    return placement


def _choose(
    trial: Trial, role: RoleAsk, apart: set[str], seed: int, dimensions: Set[str]
) -> Share | None:
    """Take the node that this member fills best; the seed settles ties."""
    filters = (*PLACE_FILTERS, *(BY_DIMENSION[d] for d in role.uses & dimensions))
    best: tuple[tuple[int, int, int, int], Node] | None = None
    count = len(trial.nodes)
    for number, node in enumerate(trial.nodes.values()):
        free = trial.free(node)
        if any(filter(role, node, free, apart) is not None for filter in filters):
            continue
        score = (len(free.gpus), free.cpus, free.memory, (number + seed) % count)
        if best is None or score < best[0]:
            best = (score, node)
    if best is None:
        return None
    node = best[1]
    gpus = suitable(role, trial.free(node).gpus)[: int(role.gpus)] if GPUS in dimensions else ()
    share = Share(
        node.name,
        role.cpus if CPUS in dimensions else 0.0,
        role.memory if MEMORY in dimensions else None,
        tuple(gpu.id for gpu in gpus),
    )
    trial.take(share)
    apart.add(node.name)
    return share


def lacking(trial: Trial, job: Job) -> frozenset[str]:
    """The dimensions that are too short for a job that does not fit; when each alone would do
    and only their sum does not, all that it uses."""
    short = frozenset(
        dimension
        for dimension in job.uses
        if place(trial.copy(), job.ask, dimensions={dimension}, only_min=True) is None
    )
    return short or job.uses


def reserve(trial: Trial, job: Job) -> frozenset[str]:
    """Set aside what a blocked job may come to need, on every node where it may come to be; the
    dimensions it lacks, which are closed to all others. More is kept than it will use: nobody can
    know yet which node gets free."""
    closed = lacking(trial, job)
    if closed == job.uses:
        return closed  # nobody who uses any of it may pass, so there is nothing to keep
    for node in trial.nodes.values():
        for role in job.ask:
            if refuse(role, node, node.total) is None:
                for _ in range(min(role.min, 1) if role.spread == "node" else role.min):
                    trial.set_aside(node, role)
    return closed


def can_ever_fit(cluster: Cluster, ask: Ask) -> Refusal | None:
    """None when the gang would fit if nothing else ran; otherwise why it never will."""
    for role in ask:
        refusal = _member_never_fits(cluster.nodes.values(), role)
        if refusal is not None:
            return refusal
    if place(Trial(cluster, empty=True), ask, only_min=True) is not None:
        return None
    return _gang_never_fits(cluster, ask)


def _member_never_fits(nodes: Iterable[Node], role: RoleAsk) -> Refusal | None:
    if role.gpus != int(role.gpus):
        return Refusal(f"{role.role} asks for {amount(role.gpus)} GPUs; only whole ones are given")
    if not role.min:
        return None
    refusals = [(node, refuse(role, node, node.total)) for node in nodes]
    if any(refusal is None for _, refusal in refusals):
        return None
    if len(refusals) == 1:
        node, refusal = refusals[0]
        return Refusal(f"{role.role}: {node.name} is the only node: {refusal}")
    texts = "; ".join(f"{node.name} {refusal}" for node, refusal in refusals[:3])
    return Refusal(f"no node can ever take a {role.role}: {texts or 'there is none'}")


def _gang_never_fits(cluster: Cluster, ask: Ask) -> Refusal:
    total = available(Trial(cluster, empty=True), ask)
    for dimension, needed in needs(ask).items():
        if needed > total[dimension]:
            return Refusal(
                f"the gang needs {quantity(dimension, needed, ask)} at once, "
                f"all nodes together have {quantity(dimension, total[dimension], ask)}",
                dimension,
            )
    apart = [r for r in ask if r.spread == "node" and r.min > len(cluster.nodes)]
    if apart:
        count = len(cluster.nodes)
        return Refusal(f"{apart[0].min} {apart[0].role} on as many nodes, and there are {count}")
    return Refusal("the gang's members cannot be packed onto the nodes at once")


def needs(ask: Ask) -> dict[str, float]:
    """What `min` of each role come to."""
    return {
        CPUS: sum(milli(r.cpus) * r.min for r in ask) / 1000,
        MEMORY: sum((r.memory or 0) * r.min for r in ask),
        GPUS: sum(r.gpus * r.min for r in ask),
    }


def available(trial: Trial, ask: Ask) -> dict[str, float]:
    """What the nodes that this gang could use have free on this trial."""
    labels = {role.node_label for role in ask}
    kinds = {role.gpu_kind for role in ask if role.gpus}
    sums: dict[str, float] = dict.fromkeys((CPUS, MEMORY, GPUS), 0.0)
    for node in trial.nodes.values():
        if None in labels or labels & node.labels:
            free = trial.free(node)
            sums[CPUS] += free.cpus / 1000
            sums[MEMORY] += free.memory
            sums[GPUS] += sum(None in kinds or gpu.kind in kinds for gpu in free.gpus)
    return sums


def figure(dimension: str, value: float) -> str:
    value = max(0, value)
    return format_size(value) if dimension == MEMORY else amount(value)


def quantity(dimension: str, value: float, ask: Ask) -> str:
    """ "4 CPUs", "16.0 GiB of memory", "2 a100 GPUs"."""
    number = figure(dimension, value)
    if dimension == MEMORY:
        return f"{number} of memory"
    kinds = {role.gpu_kind for role in ask if role.gpus} if dimension == GPUS else set()
    kind = f"{kinds.pop()} " if len(kinds) == 1 and None not in kinds else ""
    word = "GPU" if dimension == GPUS else "CPU"
    return f"{number} {kind}{word}{'' if value == 1 else 's'}"
