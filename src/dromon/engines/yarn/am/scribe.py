"""Small files of the job's record on HDFS, each replaced whole. Of one name only the newest counts.

What is written here is for people and clients; what the next attempt needs is in the journal.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from dromon.errors import DromonError
from dromon.hadoop.webhdfs import WebHdfs


class Scribe:
    def __init__(self, hdfs: WebHdfs, record: str) -> None:
        self._hdfs = hdfs
        self._record = record
        self._waiting: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="scribe", daemon=True)
        self._thread.start()

    def write(self, name: str, value: Any) -> None:
        """Soon; a failure is made good by the next write."""
        with self._changed:
            self._waiting[name] = value
            self._changed.notify_all()

    def write_now(self, name: str, value: Any) -> None:
        """Raises what HDFS says."""
        place = f"{self._record}/{name}"
        self._hdfs.write(f"{place}.new", json.dumps(value).encode())
        self._hdfs.rename(f"{place}.new", place, overwrite=True)

    def close(self, patience: float, last: Mapping[str, Any]) -> None:
        """Write these, and end."""
        with self._changed:
            self._waiting.update(last)
            self._closed = True
            self._changed.notify_all()
        self._thread.join(patience)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                name, value = self._waiting.popitem()
            try:
                self.write_now(name, value)
            except (OSError, DromonError):
                continue
