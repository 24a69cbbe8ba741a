"""Members whose node was lost from sight: until when one of them may still be running there.

An agent that hears nothing ends its member when its lease is over, and the member's grace after
that. Before then nobody may take its place: no rank ever runs twice. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

MARGIN = 2.0  # for clocks that run apart


class Fences:
    def __init__(self, wait: float) -> None:
        self._wait = wait + MARGIN
        self._until: dict[str, tuple[float, str]] = {}

    @property
    def members(self) -> AbstractSet[str]:
        return self._until.keys()

    @property
    def first(self) -> float:
        """When the next one is over."""
        return min((until for until, _ in self._until.values()), default=float("inf"))

    def put(self, member: str, heard: float, message: str) -> None:
        """`heard` is when its lease was last renewed."""
        self._until.setdefault(member, (heard + self._wait, message))

    def lift(self, member: str) -> str:
        """It was heard of after all; the words it was fenced with."""
        return self._until.pop(member, (0.0, ""))[1]

    def passed(self, now: float) -> list[tuple[str, str]]:
        """Those that must have ended by now, with the words; each is given once."""
        over = [(member, words) for member, (until, words) in self._until.items() if until <= now]
        for member, _ in over:
            del self._until[member]
        return over
