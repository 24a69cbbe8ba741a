"""Does one member fit on one node? Filters are a tuple of functions; a refusal is data.

Refusals by dimension come first in the tuple's order, and their words end up in `dromon why`.
"""

from collections.abc import Callable, Set

from dromon.sched.asks import CPUS, GPUS, MEMORY, Free, Gpu, Refusal, RoleAsk, milli
from dromon.sched.cluster import Node
from dromon.units import format_size

Filter = Callable[[RoleAsk, Node, Free, Set[str]], Refusal | None]


def amount(value: float) -> str:
    return f"{value:g}"


def has_label(ask: RoleAsk, node: Node, free: Free, peers: Set[str]) -> Refusal | None:
    if ask.node_label is None or ask.node_label in node.labels:
        return None
    return Refusal(f"has no label {ask.node_label}")


def is_apart(ask: RoleAsk, node: Node, free: Free, peers: Set[str]) -> Refusal | None:
    """`peers`: nodes that have a member of the same role."""
    if ask.spread != "node" or node.name not in peers:
        return None
    return Refusal(f"has a {ask.role} already, and spread: node wants them apart")


def has_cpus(ask: RoleAsk, node: Node, free: Free, peers: Set[str]) -> Refusal | None:
    if milli(ask.cpus) <= free.cpus:
        return None
    return Refusal(f"needs {amount(ask.cpus)} CPUs, has {amount(free.cpus / 1000)}", CPUS)


def has_memory(ask: RoleAsk, node: Node, free: Free, peers: Set[str]) -> Refusal | None:
    if ask.memory is None or ask.memory <= free.memory:
        return None
    has = format_size(max(0, free.memory))
    return Refusal(f"needs {format_size(ask.memory)} of memory, has {has}", MEMORY)


def has_gpus(ask: RoleAsk, node: Node, free: Free, peers: Set[str]) -> Refusal | None:
    if not ask.gpus:
        return None
    usable = suitable(ask, free.gpus)
    if ask.gpus <= len(usable):
        return None
    kind = f"{ask.gpu_kind} " if ask.gpu_kind else ""
    plural = "" if ask.gpus == 1 else "s"
    return Refusal(f"needs {amount(ask.gpus)} {kind}GPU{plural}, has {len(usable)}", GPUS)


FILTERS: tuple[Filter, ...] = (has_label, is_apart, has_cpus, has_memory, has_gpus)
PLACE_FILTERS: tuple[Filter, ...] = (has_label, is_apart)
BY_DIMENSION: dict[str, Filter] = {CPUS: has_cpus, MEMORY: has_memory, GPUS: has_gpus}


def suitable(ask: RoleAsk, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    if ask.gpu_kind is None:
        return gpus
    return tuple(gpu for gpu in gpus if gpu.kind == ask.gpu_kind)


def refuse(ask: RoleAsk, node: Node, free: Free, peers: Set[str] = frozenset()) -> Refusal | None:
    """The first reason why this member cannot be there."""
    for filter in FILTERS:
        refusal = filter(ask, node, free, peers)
        if refusal is not None:
            return refusal
    return None
