"""Packing: shared devices first, then free devices of a node in use, then an empty node.

Scores are whole numbers out of 100; equal ones go by node.
"""

from dromon.sched.asks import RoleAsk
from dromon.sched.node import WHOLE, Node
from dromon.sched.placers.devices import asked, lefts


class Packing:
    name = "packing"

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]:
        count, part = asked(role)
        if not count:
            return (0,)
        left = lefts(node)
        free = left.count(WHOLE)
        if free == len(left):  # the node is empty
            return (-max(33 - free, free),)
        used = [each for each in sorted(left) if each >= part][:count]
        fresh = used.count(WHOLE)
        if fresh:  # it needs devices that nobody has
            return (-max(50 - fresh, 33),)
        return (-max(100 - sum(each * 100 // WHOLE for each in used) // 10, 50),)
