"""On which of the nodes that could take it a member is put. Each scorer is a small pure module.

The smallest score wins; ties go by the node's number, turned by the seed. A scorer sees one node
with what is free on it, and what one member asks.
"""

from collections.abc import Callable
from typing import Protocol

from dromon.sched.asks import RoleAsk
from dromon.sched.node import Node
from dromon.sched.placers.chance import Random
from dromon.sched.placers.clustering import Clustering
from dromon.sched.placers.dotprod import DotProd
from dromon.sched.placers.fgd import Fgd
from dromon.sched.placers.firstfit import FirstFit
from dromon.sched.placers.packing import Packing
from dromon.sched.placers.tightfit import TightFit


class Placer(Protocol):
    name: str

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]: ...


class BestFit:
    """The fullest node that still takes it: fewest GPUs left, then CPUs, then memory. It is also
    what the node index finds by itself, so this is never called for whole GPUs."""

    name = "bestfit"

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]:
        return (node.gpus_left, node.cpus, node.memory)


PLACERS: dict[str, Callable[[], Placer]] = {
    "bestfit": BestFit, "fgd": Fgd, "firstfit": FirstFit, "tightfit": TightFit,
    "packing": Packing, "clustering": Clustering, "dotprod": DotProd, "random": Random,
}  # fmt: skip
