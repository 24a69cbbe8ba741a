"""$DROMON_CHECKPOINT_DIR where the nodes share no directory: kept in step with the record on HDFS.

Every member has a directory of its own. What is written there goes to HDFS when its run ends, and
now and then before; a member that starts finds what all members left. Two that write the same
name at once overwrite each other, as they would on a shared disk.
"""

from __future__ import annotations

import os
import threading
import time

from dromon.errors import DromonError
from dromon.hadoop.webhdfs import Status, WebHdfs

EVERY = 30.0  # seconds between two looks at what has changed
SETTLED = 3.0  # a file that was written to more recently is still being written

_Shape = tuple[int, int]  # size, time of the last change


class Checkpoints:
    def __init__(self, directory: str, place: str, hdfs: WebHdfs, settled: float = SETTLED) -> None:
        self._settled = settled
        self._directory = directory
        self._place = place
        self._hdfs = hdfs
        self._known: dict[str, _Shape] = {}  # what is the same here and there -> as it is here
        self._there: dict[str, _Shape] = {}  # and as it was there
        self._turn = threading.Lock()
        self._running = threading.Event()
        self._thread: threading.Thread | None = None

    def fetch(self) -> None:
        """What HDFS has and this place has not. Raises what HDFS says."""
        with self._turn:
            os.makedirs(self._directory, exist_ok=True)
            self._fetch("")

    def keep_up(self) -> None:
        """Bring changes home now and then, until `bring_home`."""
        self._running.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def bring_home(self) -> None:
        """Everything, now: nothing writes any more. Raises what HDFS says."""
        self._running.clear()
        with self._turn:
            self._bring(before=float("inf"))

    def _fetch(self, inside: str) -> None:
        place = f"{self._place}/{inside}" if inside else self._place
        if self._hdfs.stat(place) is None:
            return
        for name, status in self._hdfs.list(place):
            path = f"{inside}/{name}" if inside else name
            here = os.path.join(self._directory, path)
            if status.is_directory:
                os.makedirs(here, exist_ok=True)
                self._fetch(path)
            elif not name.endswith(".partial") and self._is_wanted(path, status):
                draft = f"{here}.partial"
                with self._hdfs.open(f"{place}/{name}") as source, open(draft, "wb") as out:
                    while data := source.read(1 << 20):
                        out.write(data)
                os.replace(draft, here)
                self._known[path] = _shape(here)
                self._there[path] = (status.length, status.mtime)

    def _is_wanted(self, path: str, status: Status) -> bool:
        """It is not here, or newer there. What was written here and could not be brought home
        yet is not thrown away."""
        here = os.path.join(self._directory, path)
        if not os.path.lexists(here):
            return True
        is_same = self._known.get(path) == _shape(here)
        return is_same and self._there.get(path) != (status.length, status.mtime)

    def _watch(self) -> None:
        while True:
            time.sleep(EVERY)
            self._running.wait()
            try:
                with self._turn:
                    self._bring(before=time.time() - self._settled)
            except (OSError, DromonError):
                pass  # the next look, or the end of the run, tries again

    def _bring(self, before: float) -> None:
        found: set[str] = set()
        for folder, _, names in os.walk(self._directory):
            for name in names:
                here = os.path.join(folder, name)
                path = os.path.relpath(here, self._directory)
                # A pipe, a link to nowhere, or just thrown away; or half of a copy.
                if not os.path.isfile(here) or name.endswith(".partial"):
                    continue
                found.add(path)
                shape = _shape(here)
                if self._known.get(path) == shape or shape[1] / 1e9 > before:
                    continue
                place = f"{self._place}/{path}"
                with open(here, "rb") as file:
                    self._hdfs.write(f"{place}.partial", file)
                self._hdfs.rename(f"{place}.partial", place, overwrite=True)
                self._known[path] = shape
                status = self._hdfs.stat(place)
                if status is not None:
                    self._there[path] = (status.length, status.mtime)
        for path in set(self._known) - found:  # the member threw it away
            self._hdfs.delete(f"{self._place}/{path}")
            del self._known[path]
            self._there.pop(path, None)


def _shape(path: str) -> _Shape:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
