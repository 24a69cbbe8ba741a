"""The gang's journal on HDFS: what the next attempt of the ApplicationMaster reads.

    jobs/<id>/journal-<attempt>/000001 …    segments, JSON lines, written whole
    jobs/<id>/journal-<attempt>.closed/     read by a later attempt, closed to the earlier one

Entries wait in memory and go out together, by a thread of their own; `on_durable` hears how many
entries are safe. An attempt that was given up may still be alive on a node that was cut off:
whoever comes after it renames its directory first, and a segment is never written into a
directory that is not there, so the earlier one learns that it has been superseded.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable

from dromon.hadoop.hdfsfaults import HdfsError, NotThere
from dromon.hadoop.webhdfs import WebHdfs

Entry = dict[str, Any]

LONGEST_WAIT = 5.0  # between two attempts to write while HDFS does not take it


class Superseded(Exception):
    """A later attempt has taken over: touch nothing any more."""


def parse(segment: bytes) -> list[Entry]:
    """What a segment holds. A line that was cut short with its writer was never acted upon."""
    return [json.loads(line) for line in segment.splitlines(keepends=True) if line.endswith(b"\n")]


class Journal:
    def __init__(
        self,
        hdfs: WebHdfs,
        record: str,
        attempt: int,
        on_durable: Callable[[int], None],
        on_superseded: Callable[[], None],
    ) -> None:
        self._hdfs = hdfs
        self._record = record
        self._directory = f"{record}/journal-{attempt}"
        self._attempt = attempt
        self._on_durable = on_durable
        self._on_superseded = on_superseded
        self._waiting: list[Entry] = []
        self._taken = self._segments = 0
        self._changed = threading.Condition()
        self._closed = False
        self.trouble = ""  # why nothing can be written now
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)

    def open(self, hdfs: WebHdfs | None = None) -> list[Entry]:
        """Close the journals of earlier attempts and begin one; all that they kept. By another
        way to HDFS, where one is given: a more patient one."""
        hdfs = hdfs or self._hdfs
        entries: list[Entry] = []
        for attempt in range(1, self._attempt):
            before = f"{self._record}/journal-{attempt}"
            closed = f"{before}.closed"
            if hdfs.stat(before) is not None:
                hdfs.rename(before, closed)
            if hdfs.stat(closed) is not None:
                for name in sorted(name for name, _ in hdfs.list(closed)):
                    entries += parse(hdfs.read(f"{closed}/{name}"))
        hdfs.make_directory(self._directory)
        self._thread.start()
        return entries

    def append(self, entry: Entry) -> int:
        """Its number; it is safe once `on_durable` has heard of that number."""
        with self._changed:
            self._waiting.append(entry)
            self._taken += 1
            self._changed.notify_all()
            return self._taken

    def close(self, patience: float) -> bool:
        """Write what waits and end; whether all of it could be written."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _write(self) -> None:
        wait = 0.1
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                batch, through = list(self._waiting), self._taken
            path = f"{self._directory}/{self._segments + 1:06d}"
            data = "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in batch).encode()
            try:
                self._hdfs.write(path, data, make_parents=False)
                # HDFS lets a file be written to its end in a directory that was renamed meanwhile,
                # and whoever renamed it may have read before that end.
                if self._hdfs.stat(path) is None:
                    raise NotThere(path)
            except NotThere:
                self._on_superseded()
                return
            except (HdfsError, OSError) as error:
                self.trouble = str(error)
                time.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
                continue
            wait, self.trouble = 0.1, ""
            self._segments += 1
            with self._changed:
                del self._waiting[: len(batch)]
            self._on_durable(through)
