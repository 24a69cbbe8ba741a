"""What a submit has to do before the job is on its way: packing and uploading, on one passing line.

Ctrl-C ends it like any command, until the cluster is being asked: from then on nobody could say
whether the job exists, so the key is kept until the answer is there, and pressed again then.
"""

from __future__ import annotations

import signal
import time

from dromon.engines.base import SUBMITTING
from dromon.units import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from dromon.cli.console import Console

PERIOD = 0.1  # seconds between two drawings
WORTH_A_LINE = 16 << 20  # bytes; less is there before anybody without a terminal would wonder
CELLS = 20


class Transfer:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._what = ""
        self._began = self._drawn = 0.0
        self._before: object = None
        self._held = False

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != self._what:
            self._what, self._began, self._drawn = what, now, 0.0
            if what == SUBMITTING:
                self._hold()
            elif not self._console.is_terminal and total >= WORTH_A_LINE:
                self._console.say(f"{what}: {format_size(total)}")
        if now - self._drawn >= PERIOD or (total and done >= total):
            self._drawn = now
            self._console.passing(f"dromon: {line(what, done, total, now - self._began)}")

    def end(self) -> None:
        """Whatever came of it: the line goes, and a Ctrl-C that was kept is heard."""
        self._console.clear()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]
            self._before = None

    @property
    def interrupted(self) -> bool:
        return self._held

    def _hold(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._held = True
        self._console.say("the cluster is being asked already; one moment")


def line(what: str, done: int, total: int, seconds: float) -> str:
    """ "uploading the code [#####···············] 25%  84.0 MiB of 336.0 MiB  21.0 MiB/s"."""
    if not total:
        return f"{what} …" if not done else f"{what}  {format_size(done)}"
    share = min(1.0, done / total)
    cells = int(share * CELLS)
    rate = f"  {format_size(done / seconds)}/s" if seconds >= 1 and done else ""
    bar = "#" * cells + "·" * (CELLS - cells)
    return f"{what} [{bar}] {share:.0%}  {format_size(done)} of {format_size(total)}{rate}"
