"""The daemon's clock: close to wall time, never jumping while the machine is up.

Durations must not change when somebody sets the clock, and events of one job written by two lives
of the daemon must compare. So time runs with the boot clock, at an offset fixed once per boot.
"""

import time

from dromon.engines.local.journal import Journal


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


class Clock:
    def __init__(self, journal: Journal) -> None:
        kept = (journal.get("clock") or "").split()
        boot = boot_id()
        if len(kept) == 2 and kept[0] == boot:
            self._offset = float(kept[1])
            self.same_boot = True
        else:
            self._offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
            self.same_boot = False
            journal.put("clock", f"{boot} {self._offset!r}")
            journal.commit()

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) + self._offset
