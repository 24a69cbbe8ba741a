"""DotProd: the node whose free vector of CPUs and GPUs has the smallest dot product with the ask.

Scores are whole numbers out of 100, as a Kubernetes score plugin's are; equal ones go by node.
"""

from dromon.sched.asks import RoleAsk, milli
from dromon.sched.node import Node
from dromon.sched.placers.devices import asked, lefts
from dromon.sched.placers.scale import Scale


class DotProd:
    name = "dotprod"

    def __init__(self, scale: Scale | None = None) -> None:
        self._cpus, self._gpus = (scale or Scale()).thousandths

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]:
        count, part = asked(role)
        cpus = node.cpus / self._cpus * milli(role.cpus) / self._cpus
        gpus = sum(lefts(node)) / self._gpus * (count * part) / self._gpus
        return (-int(100 * (1 - (cpus + gpus) / 2)),)
