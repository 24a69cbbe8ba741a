"""What is left of each device of a node, and what a member asks of one. Shared by scorers."""

from dromon.sched.asks import RoleAsk, milli
from dromon.sched.node import WHOLE, Node


def lefts(node: Node) -> list[int]:
    """Thousandths left of each device, in the node's order."""
    mask, parts = node.mask, node.parts
    if not parts:
        return [WHOLE if mask >> position & 1 else 0 for position in range(len(node.ids))]
    return [
        WHOLE if mask >> position & 1 else WHOLE - parts[position] if position in parts else 0
        for position in range(len(node.ids))
    ]


def asked(role: RoleAsk) -> tuple[int, int]:
    """How many devices, and thousandths of each: (4, 1000), (1, 250), (0, 0)."""
    if not role.gpus:
        return 0, 0
    return (1, milli(role.gpus)) if role.gpus < 1 else (int(role.gpus), WHOLE)


def after(left: list[int], count: int, part: int) -> list[int]:
    """The devices once a member has its own: taken where least is left."""
    left = left[:]
    for position in sorted(range(len(left)), key=left.__getitem__):
        if not count:
            break
        if left[position] >= part:
            left[position] -= part
            count -= 1
    return left
