"""How long a gang has run, over all its attempts, and when that is too long. No clock here."""

from typing import Optional


class RunningTime:
    """Seconds between barriers and ends: what `max_duration` limits."""

    def __init__(self, most: Optional[float]) -> None:
        self.most = most
        self.since: Optional[float] = None  # when the present attempt began to run
        self._before = 0.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunningTime) and vars(self) == vars(other)

    def begins(self, now: float) -> None:
        self.since = now

    def ends(self, now: float) -> None:
        self._before, self.since = self.at(now), None

    def at(self, now: float) -> float:
        return self._before + self.of_attempt(now)

    def of_attempt(self, now: float) -> float:
        return 0.0 if self.since is None else max(0.0, now - self.since)

    @property
    def deadline(self) -> Optional[float]:
        if self.since is None or self.most is None:
            return None
        return self.since + self.most - self._before
