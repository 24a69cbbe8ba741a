"""A member's log once more on the pod's own output, for `kubectl logs` and for where no store is.

A thread follows the log files of the member's runs; whoever reads the pod's output slowly, or not
at all, holds up this thread and nothing else.
"""

from __future__ import annotations

import glob
import os
import threading

POLL = 0.1
PIECE = 1 << 16
MARK = "-- dromon: run "  # in front of what a later run printed
LAST = 5.0  # seconds that the end of the log may take on its way out


class Echo:
    def __init__(self, record: str, member: str, out: int = 1) -> None:
        self._pattern = os.path.join(glob.escape(record), f"{member}.[0-9]*", "log")
        self._out = out
        self._done: dict[str, int] = {}  # log -> how much of it is out
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="echo", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Everything is written; say the rest."""
        self._over.set()
        self._thread.join(LAST)

    def _follow(self) -> None:
        while not self._over.wait(POLL):
            self._copy()
        self._copy()

    def _copy(self) -> None:
        def run_of(path: str) -> int:
            return int(os.path.dirname(path).rpartition(".")[2])

        for path in sorted(glob.glob(self._pattern), key=run_of):
            offset = self._done.get(path, 0)
            try:
                if path not in self._done and run_of(path) > 1:
                    self._write(f"{MARK}{run_of(path)}\n".encode())
                with open(path, "rb") as file:
                    file.seek(offset)
                    while data := file.read(PIECE):
                        self._write(data)
                        offset += len(data)
            except OSError:
                pass  # nobody listens, or the store is away: the log itself has it
            self._done[path] = offset

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]
