"""Whether a cluster could ever run a job, were it empty. Pure.

Only what is certain is refused: a cluster that is just starting, or grows, says nothing about
tomorrow, and a queue's limits are YARN's own to apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dromon.engines.yarn.am.asks import Size
from dromon.engines.yarn.reports import Node
from dromon.errors import Refused

GPU = "yarn.io/gpu"
LOOK = "`dromon nodes` shows what there is."


def refuse_impossible(roles: Mapping[str, Mapping[str, Any]], nodes: Sequence[Node]) -> None:
    usable = [node for node in nodes if node.is_usable]
    if not usable:
        return
    for name, role in roles.items():
        there = _labelled(usable, role["label"])
        if not there:
            raise Refused(
                f"roles.{name}.node_label: no node has the label {role['label']!r}", hint=LOOK
            )
        asked = Size(**role["container"])
        if not any(_fits(asked, node.total) for node in there):
            largest = max(there, key=lambda node: (_figures(node.total), node.id))
            raise Refused(
                f"roles.{name}: no node of the cluster can give {_lacking(asked, there)} to one "
                f"member; the largest has {words(largest.total)}",
                hint=f"Ask for less, or for more and smaller members; {LOOK}",
            )
        apart = sum(_fits(asked, node.total) for node in there)
        if role["spread"] == "node" and role["min"] > apart:
            raise Refused(
                f"roles.{name}: spread: node needs {role['min']} nodes, and {apart} of the "
                f"cluster's can take a member",
                hint=f"Ask for fewer members, or leave `spread:` out; {LOOK}",
            )
    for label in {role["label"] for role in roles.values()}:
        theirs = [role for role in roles.values() if role["label"] == label]
        asked = _sum((Size(**role["container"]), role["min"]) for role in theirs)
        total = _sum((node.total, 1) for node in _labelled(usable, label))
        if not _fits(asked, total):
            raise Refused(
                f"the gang needs {words(asked)} at once, and all nodes together have "
                f"{words(total)}",
                hint=f"Ask for fewer members, or set `min:`; {LOOK}",
            )


def words(size: Size) -> str:
    more = "".join(
        f", {n} {'GPUs' if kind == GPU else kind}" for kind, n in sorted(size.others.items()) if n
    )
    return f"{size.vcores} CPUs, {size.memory} MB{more}"


def _labelled(nodes: Iterable[Node], label: str) -> list[Node]:
    """A labelled node takes only those who ask for its label, and the others only the others."""
    return [node for node in nodes if (label in node.labels if label else not node.labels)]


def _fits(asked: Size, total: Size) -> bool:
    return (
        asked.memory <= total.memory
        and asked.vcores <= total.vcores
        and all(count <= total.others.get(kind, 0) for kind, count in asked.others.items())
    )


def _lacking(asked: Size, nodes: Sequence[Node]) -> str:
    """The figures that no node reaches; all of them where each alone is somewhere."""
    memory = asked.memory if asked.memory > max(n.total.memory for n in nodes) else 0
    vcores = asked.vcores if asked.vcores > max(n.total.vcores for n in nodes) else 0
    others = {
        kind: count
        for kind, count in asked.others.items()
        if count > max(n.total.others.get(kind, 0) for n in nodes)
    }
    if not (memory or vcores or others):
        return words(asked)
    named = [f"{vcores} CPUs"] if vcores else []
    named += [f"{memory} MB"] if memory else []
    named += [f"{n} {'GPUs' if k == GPU else k}" for k, n in sorted(others.items())]
    return ", ".join(named)


def _figures(size: Size) -> tuple[int, int, int]:
    return size.others.get(GPU, 0), size.vcores, size.memory


def _sum(sizes: Iterable[tuple[Size, int]]) -> Size:
    memory = vcores = 0
    others: dict[str, int] = {}
    for size, count in sizes:
        memory += size.memory * count
        vcores += size.vcores * count
        for kind, n in size.others.items():
            others[kind] = others.get(kind, 0) + n * count
    return Size(memory, vcores, others)
