"""How short the shortest of those of one shape is who wait.

A line is such a crowd, of one user; so are all lines of a queue together, and all queues. Knows no
jobs, only how long each is taken to last.
"""

from math import inf


class Crowd:
    """`whole` is the crowd that this is a part of. Nobody in a part is shorter than the whole is
    taken to be, so whoever does not matter in a part is not told to the whole."""

    __slots__ = ("_is_sure", "_shortest", "parts", "whole")

    def __init__(self, whole: "Crowd | None" = None) -> None:
        self.whole = whole
        self.parts: list[Crowd] = []
        self._shortest = inf
        self._is_sure = True  # else somebody has left who was as short as this
        if whole is not None:
            whole.parts.append(self)

    def join(self, duration: float) -> None:
        if duration < self._shortest:
            self._shortest = duration
            if self.whole is not None:
                self.whole.join(duration)

    def leave(self, duration: float) -> None:
        if duration <= self._shortest:
            self._is_sure = False
            if self.whole is not None:
                self.whole.leave(duration)

    def shortest(self) -> float:
        if not self._is_sure:
            self._shortest, self._is_sure = self._seek(), True
        return self._shortest

    def _seek(self) -> float:
        return min([part.shortest() for part in self.parts], default=inf)

    def dissolve(self) -> None:
        """Nobody is in it any more."""
        if self.whole is not None:
            self.whole.parts.remove(self)
            self.whole = None
