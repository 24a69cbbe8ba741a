"""First fit: the first node, in the order in which nodes joined, that takes it."""

from dromon.sched.asks import RoleAsk
from dromon.sched.node import Node


class FirstFit:
    name = "firstfit"

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]:
        return (node.number,)
