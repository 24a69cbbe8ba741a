"""What the site's scorer says of each node, for each kind of member. Kept between decisions: only
nodes that have changed are scored again."""

from collections.abc import Callable, Container, Iterable
from typing import Final

from dromon.sched.asks import RoleAsk
from dromon.sched.board import State, slots
from dromon.sched.index import NodeIndex
from dromon.sched.job import Role
from dromon.sched.node import Node
from dromon.sched.placers import Placer

KINDS: Final = 1000  # of members, before all is forgotten
Score = tuple[float, ...]


class ScoreBook:
    def __init__(self, nodes: dict[int, Node], placer: Placer, index: NodeIndex) -> None:
        self._nodes = nodes
        self._index = index
        self._placer = placer
        self._is_steady = getattr(placer, "is_steady", True)
        self._kinds: dict[RoleAsk, _Kind] = {}

    def best(self, role: Role, turn: Callable[[int], int], without: Container[int]) -> Node | None:
        """The node that takes one such member and has the smallest score; equals go by turn."""
        best: tuple[Score, int] | None = None
        chosen = -1
        for number, score in self._scores(role).items():
            if (best is None or score <= best[0]) and number not in without:
                mine = (score, turn(number))
                if best is None or mine < best:
                    best, chosen = mine, number
        return self._nodes[chosen] if best is not None else None

    def _scores(self, role: Role) -> dict[int, Score]:
        """Of the nodes that would take one."""
        kind = self._up_to_date(role)
        if self._is_steady:
            return kind.scores
        score, nodes = self._placer.score, self._nodes
        return {number: score(nodes[number], role.ask) for number in kind.scores}

    def _up_to_date(self, role: Role) -> "_Kind":
        log = self._index.log
        kind = self._kinds.get(role.ask)
        if kind is None:
            if len(self._kinds) >= KINDS:
                self._kinds.clear()
            kind = self._kinds[role.ask] = _Kind()
        stale: Iterable[int]
        if kind.log is log:
            stale = set(log[kind.seen :])
        else:
            kind.scores.clear()
            stale = list(self._nodes)
        for number in stale:
            self._score(kind, role, number)
        kind.log, kind.seen = log, len(log)
        return kind

    def _score(self, kind: "_Kind", role: Role, number: int) -> None:
        node = self._nodes.get(number)
        if node is None or not node.is_open or not takes_one(node, role):
            kind.scores.pop(number, None)
        else:
            kind.scores[number] = self._placer.score(node, role.ask) if self._is_steady else ()


class _Kind:
    __slots__ = ("log", "scores", "seen")

    def __init__(self) -> None:
        self.scores: dict[int, Score] = {}
        self.log: list[int] = []  # of changed nodes
        self.seen = 0  # so much of it


def takes_one(node: Node, role: Role) -> bool:
    if not role.part:
        return slots(node, State(node.cpus, node.memory, node.mask, node.parts), role) > 0
    if role.label is not None and role.label not in node.labels:
        return False
    if node.cpus < role.cpus or node.memory < role.memory:
        return False
    return node.device_for(role, node.mask, node.parts) >= 0
