"""TensorBoard beside the gang: a container that the gang neither waits for nor misses. Pure.

It is asked for once the gang runs, a few times at most, and goes with the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROLE = "tensorboard"
TRIES = 3


class Side:
    """`asked`: whether the job wants one."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.is_wanted = bool(request["tensorboard"])
        self.container = ""
        self.trouble = ""  # how the last one ended
        self._tries = 0

    def missing(self, gang_runs: bool) -> Mapping[str, int]:
        """To be asked for besides the gang's own."""
        if not self.is_wanted:
            return {}
        open_ = gang_runs and not self.container and self._tries < TRIES
        return {ROLE: 1 if open_ else 0}

    def take(self, container: str) -> bool:
        """A container came; whether it is wanted."""
        if self.container or not self.is_wanted:
            return False
        self.container = container
        self._tries += 1
        return True

    def lose(self, container: str, words: str) -> bool:
        """Whether it was this one that ended."""
        if container != self.container:
            return False
        self.container = ""
        self.trouble = words
        return True
