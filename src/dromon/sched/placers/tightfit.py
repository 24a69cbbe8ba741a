"""Tight fit: where the least of CPUs and GPUs together is left over ("BestFit" in the FGD paper).

Scores are whole numbers out of 100, as a Kubernetes score plugin's are; equal ones go by node.
"""

from dromon.sched.asks import RoleAsk, milli
from dromon.sched.node import Node
from dromon.sched.placers.devices import asked, lefts
from dromon.sched.placers.scale import Scale


class TightFit:
    name = "tightfit"

    def __init__(self, scale: Scale | None = None) -> None:
        self._cpus, self._gpus = (scale or Scale()).thousandths

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]:
        count, part = asked(role)
        over = (node.cpus - milli(role.cpus)) / self._cpus * 0.5
        over += (sum(lefts(node)) - count * part) / self._gpus * 0.5
        return (-int((1 - over) * 100),)
