"""One coordinator after another: who is the job's now, and when the one before it is surely gone.

Pods of a node that does not answer are replaced while they may still run, and may still reach the
store. So a coordinator looks often whether another has come, and then ends with all that is in its
pod; the one that comes waits that long, unless the last one said that it was through.
"""

from __future__ import annotations

import json
import os
from typing import Any

NAME = "coordinator.json"
SURE = 2.0  # seconds between two looks whether another coordinator has taken over
# Seconds after which one that was alive has looked, and ended: a turn of its loop, a look, and
# what a busy machine adds.
GONE = 8.0


class Office:
    """`token`: of this pod; `epoch`: of this coordinator, counted over all pods of the job."""

    def __init__(self, home: str, token: str) -> None:
        self._path = os.path.join(home, NAME)
        self._token = token
        self.epoch = int((_read(self._path) or {}).get("epoch", 0)) + 1

    def enter(self) -> float:
        """From now on the job's coordinator is this one: seconds until it is the only one."""
        last = _read(self._path)
        before = _changed(self._path)
        self._write(over=False)
        if last is None or last.get("over"):
            return 0.0
        # Both times are the file server's.
        return max(0.0, GONE - (_changed(self._path) - before))

    def is_ours(self) -> bool:
        """OSError, ValueError: that cannot be known now."""
        found = _read(self._path)
        if found is None:
            raise FileNotFoundError(self._path)
        if (found.get("epoch"), found.get("token")) != (self.epoch, self._token):
            return False
        os.utime(self._path)  # for the next one, which asks how long we are silent
        return True

    def _write(self, *, over: bool) -> None:
        _write(self._path, {"epoch": self.epoch, "token": self._token, "over": over})


def leave(home: str, token: str) -> None:
    """Nothing of this pod's coordinator and member is left."""
    path = os.path.join(home, NAME)
    try:
        found = _read(path)
        if found is not None and found.get("token") == token:
            _write(path, {**found, "over": True})
    except (OSError, ValueError):
        pass  # the next one waits a little longer


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return None


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _write(path: str, data: dict[str, Any]) -> None:
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(data, file)
    os.replace(draft, path)
