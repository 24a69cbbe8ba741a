"""Records made ahead of the jobs that will have them.

A new directory or file costs up to half a millisecond on a busy filesystem, more than all else
when a job starts; renaming one costs nothing. So a few records lie ready, and more are made while
nobody waits.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable

from dromon.agent.record import Record
from dromon.engines.home import write_private

READY = 4  # as many as jobs are likely to start at once
SOON = 0.3


def open_record(root: str, address: str) -> None:
    """What an agent needs to find its coordinator and to be believed, and the checkpoints."""
    record = Record(root)
    os.makedirs(record.checkpoints, mode=0o700, exist_ok=True)
    write_private(record.key, secrets.token_hex(32))
    write_private(record.coordinator, json.dumps({"address": address, "epoch": 1}))


class Spares:
    """A folder of records that belong to no job yet. `later` runs something in a thread, after
    so many seconds."""

    def __init__(
        self, folder: str, address: str, later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self._folder = folder
        self._address = address
        self._later = later
        self._ready: list[str] = []
        self._made = 0
        self._is_filling = False
        self._is_due = False
        shutil.rmtree(folder, ignore_errors=True)  # of a daemon that was killed
        self.refill()

    def become(self, root: str) -> None:
        """Make `root` a record, from a spare when there is one."""
        try:
            os.rename(self._ready.pop(), root)
        except (IndexError, OSError):  # none ready; or there is something at `root` already
            os.makedirs(root, mode=0o700, exist_ok=True)
            open_record(root, self._address)
        self.refill()

    def refill(self) -> None:
        """At once when there is none left; otherwise when the job that took one has started."""
        if not self._ready and not self._is_filling:
            self._is_filling = True
            self._later(0.0, self._fill)
        elif len(self._ready) < READY and not self._is_due:
            self._is_due = True
            self._later(SOON, self._fill_when_due)

    def _fill_when_due(self) -> None:
        self._is_due = False
        if not self._is_filling:
            self._is_filling = True
            self._fill()

    def _fill(self) -> None:
        try:
            while len(self._ready) < READY:
                self._made += 1
                spare = os.path.join(self._folder, str(self._made))
                os.makedirs(spare, mode=0o700)
                open_record(spare, self._address)
                self._ready.append(spare)
        except OSError:
            pass  # a full disk, or the home is gone: whoever needs a record will say so
        finally:
            self._is_filling = False
