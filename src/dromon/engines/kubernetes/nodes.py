"""The cluster's nodes: what they have, what is free, and whether a gang could ever be on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dromon.engines import base
from dromon.engines.kubernetes import quantities, room, situation
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.situation import Node
from dromon.errors import Refused

LOOK = "`dromon nodes` shows what there is."


def nodes_of(api: Api) -> list[base.Node]:
    return [_node(node) for node in situation.nodes(api) or ()]


def _node(node: Node) -> base.Node:
    notes = []
    if not node.is_ready:
        notes.append("not ready")
    if not node.is_open:
        notes.append("cordoned")
    notes += [f"taint {taint.key}" for taint in node.taints]
    return base.Node(
        node.name, amounts(node.total), amounts(node.free),
        labels=tuple(f"{key}={value}" for key, value in sorted(node.labels.items())
                     if "kubernetes.io/" not in key),
        notes=tuple(notes),
    )  # fmt: skip


def amounts(vector: Mapping[str, float]) -> dict[str, float]:
    """In the words of all engines."""
    return {
        "cpus": vector.get("cpu", 0.0),
        "memory": vector.get("memory", 0.0),
        "gpus": sum(n for kind, n in vector.items() if quantities.is_gpu(kind)),
    }


def plain_amounts(vector: Mapping[str, float]) -> dict[str, float]:
    """The same, of what it has alone."""
    return {
        "cpus" if kind == "cpu" else "gpus" if quantities.is_gpu(kind) else kind: amount
        for kind, amount in vector.items()
    }


def refuse_impossible(job: Mapping[str, Any], nodes: Sequence[Node] | None) -> None:
    """Only what is certain: were the cluster empty, and as it is now."""
    usable = [node for node in nodes or () if node.is_ready]
    if not usable:
        return
    wanted = room.shapes(job)
    found = room.fit(wanted, usable, lambda node: node.total)
    if found.shape is None:
        return
    shape = found.shape
    asked = quantities.told({k: n for k, n in shape.asks.items() if k != "pods"})
    where = f"roles.{shape.role}.resources"
    fitting = [node for node in room.suitable(shape, usable) if room.fits_one(shape, node.total)]
    if fitting:
        raise Refused(
            f"{where}: the gang needs {shape.least} times {asked} at once, and all nodes together "
            f"have room for {found.placed}",
            hint=f"Ask for fewer members, or set `min:`; {LOOK}",
        )
    others = room.objections(shape, usable)
    if not room.suitable(shape, usable):
        raise Refused(f"roles.{shape.role}: no node takes it: {others}", hint=LOOK)
    largest = max(usable, key=lambda n: (amounts(n.total)["gpus"], n.total.get("cpu", 0.0)))
    has = quantities.told(
        {k: n for k, n in largest.total.items() if k in shape.asks and k != "pods"}
    )
    raise Refused(
        f"{where}: no node of the cluster can give {asked} to one member; the largest has {has}",
        hint=f"Ask for less, or for more and smaller members; {LOOK}",
    )
