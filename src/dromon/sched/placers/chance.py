"""By lot: any node that takes it, and any device of it. A yardstick for simulations.

Draws come from a counter that is mixed well, so the same calls give the same lots; it is the one
scorer that remembers something, and no daemon should use it.
"""

from typing import Final

from dromon.sched.asks import RoleAsk
from dromon.sched.node import Node
from dromon.sched.placers.devices import asked, lefts

_MASK: Final = (1 << 64) - 1


class Random:
    name = "random"
    is_steady = False  # the same node and role get another score each time

    def __init__(self, seed: int = 0) -> None:
        self._state = seed & _MASK

    def _draw(self) -> int:
        """The next of a fixed row of numbers (splitmix64)."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
        return mixed ^ (mixed >> 31)

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]:
        return (self._draw(),)

    def device(self, node: Node, role: RoleAsk) -> int:
        _, part = asked(role)
        fitting = [position for position, left in enumerate(lefts(node)) if left >= part]
        return fitting[self._draw() % len(fitting)] if fitting else -1
