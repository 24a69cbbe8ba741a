"""What a job's gang has heard, in a file of the store: the next coordinator reads it and goes on.

Events are on disk before anything follows from them. Without a store the file goes with the pod.
"""

from __future__ import annotations

import json
import os

from dromon.lifecycle import events as ev

NAME = "events.jsonl"


class Journal:
    def __init__(self, home: str) -> None:
        os.makedirs(home, exist_ok=True)
        self._path = os.path.join(home, NAME)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._is_settled = True

    def read(self) -> list[tuple[float, ev.Event]]:
        """A torn last line was never acted upon, and nothing is written behind it."""
        with open(self._path, "rb") as file:
            data = file.read()
        whole = data.rpartition(b"\n")[0]
        if len(whole) + 1 < len(data):
            os.ftruncate(self._fd, len(whole) + 1 if whole else 0)
        entries = [json.loads(line) for line in whole.splitlines()]
        return [(entry["time"], ev.from_json(entry["event"])) for entry in entries]

    def append(self, event: ev.Event, now: float) -> None:
        line = json.dumps({"time": now, "event": event.to_json()}) + "\n"
        os.write(self._fd, line.encode())
        self._is_settled = False

    def settle(self) -> None:
        """All that was appended is on disk when this returns."""
        if not self._is_settled:
            os.fsync(self._fd)
            self._is_settled = True
