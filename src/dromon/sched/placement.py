"""Would a gang fit an empty cluster, and if not, why never. With the words for amounts."""

from collections.abc import Callable, Iterable

from dromon.sched.asks import CPUS, GPUS, MEMORY, Ask, Refusal, RoleAsk, milli
from dromon.sched.board import Board, State
from dromon.sched.cluster import Cluster
from dromon.sched.node import Node
from dromon.sched.place import Turning
from dromon.units import counted, format_size


def empty_board(cluster: Cluster, seed: int = 0) -> Board:
    """All nodes as if nothing ran and nobody outside held a device."""
    return Board(cluster.nodes.values(), State.whole, Turning(cluster, seed))


def can_ever_fit(cluster: Cluster, ask: Ask) -> Refusal | None:
    """None when the gang would fit if nothing else ran; otherwise why it never will."""
    for role in ask:
        refusal = _member_never_fits(cluster.nodes.values(), role)
        if refusal is not None:
            return refusal
    if empty_board(cluster).place(cluster.shape(ask)) is not None:
        return None
    return _gang_never_fits(cluster, ask)


def _member_never_fits(nodes: Iterable[Node], role: RoleAsk) -> Refusal | None:
    if role.gpus > 1 and role.gpus != int(role.gpus):
        return Refusal(
            f"{role.role} asks for {role.gpus:g} GPUs; whole ones are given, or a part of one"
        )
    if not role.min:
        return None
    refusals: list[tuple[Node, str]] = []
    for node in nodes:
        why = refuse(role, node)
        if why is None:
            return None
        refusals.append((node, why))
    if len(refusals) == 1:
        node, why = refusals[0]
        return Refusal(f"{role.role}: {node.name} is the only node: {why}")
    texts = "; ".join(f"{node.name} {why}" for node, why in refusals[:3])
    return Refusal(f"no node can ever take a {role.role}: {texts or 'there is none'}")


def refuse(ask: RoleAsk, node: Node) -> str | None:
    """Why a member could not be there even if it were empty."""
    if ask.node_label is not None and ask.node_label not in node.labels:
        return f"has no label {ask.node_label}"
    if milli(ask.cpus) > node.total.cpus:
        return f"needs {counted(ask.cpus, 'CPU')}, has {node.total.cpus / 1000:g}"
    if ask.memory is not None and ask.memory > node.total.memory:
        has = format_size(max(0, node.total.memory))
        return f"needs {format_size(ask.memory)} of memory, has {has}"
    has_gpus = (node.all & node.kind_mask(ask.gpu_kind)).bit_count()
    if ask.gpus > has_gpus:
        return f"needs {quantity(GPUS, ask.gpus, (ask,))}, has {has_gpus}"
    return None


def _gang_never_fits(cluster: Cluster, ask: Ask) -> Refusal:
    total = available(cluster, ask, State.whole)
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
        GPUS: sum(milli(r.gpus) * r.min for r in ask) / 1000,
    }


def available(cluster: Cluster, ask: Ask, state_of: Callable[[Node], State]) -> dict[str, float]:
    """What the open nodes that this gang could use would have free."""
    labels = {role.node_label for role in ask}
    kinds = {role.gpu_kind for role in ask if role.gpus}
    sums: dict[str, float] = dict.fromkeys((CPUS, MEMORY, GPUS), 0.0)
    for node in cluster.nodes.values():
        if node.is_open and (None in labels or labels & node.labels):
            state = state_of(node)
            sums[CPUS] += state.cpus / 1000
            sums[MEMORY] += state.memory
            mask = node.all if None in kinds else _mask(node, kinds)
            sums[GPUS] += (state.mask & mask).bit_count()
            sums[GPUS] += sum(
                (1000 - used) / 1000 for position, used in state.parts.items()
                if mask >> position & 1
            )  # fmt: skip
    return sums


def _mask(node: Node, kinds: Iterable[str | None]) -> int:
    mask = 0
    for kind in kinds:
        mask |= node.kind_mask(kind)
    return mask


def figure(dimension: str, value: float) -> str:
    value = max(0, value)
    return format_size(value) if dimension == MEMORY else f"{value:g}"


def quantity(dimension: str, value: float, ask: Ask) -> str:
    """ "4 CPUs", "16.0 GiB of memory", "2 a100 GPUs"."""
    number = figure(dimension, value)
    if dimension == MEMORY:
        return f"{number} of memory"
    kinds = {role.gpu_kind for role in ask if role.gpus} if dimension == GPUS else set()
    kind = f"{kinds.pop()} " if len(kinds) == 1 and None not in kinds else ""
    word = "GPU" if dimension == GPUS else "CPU"
    return f"{number} {kind}{word}{'' if value == 1 else 's'}"
