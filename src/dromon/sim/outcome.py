"""What happened to each job and how full the nodes were, as columns. No sums here."""

from array import array
from collections.abc import Sequence
from math import isnan, nan

from dromon.sim.trace import TraceJob

OPEN, DONE, DROPPED, REFUSED = range(4)
STATES = ("unfinished", "done", "dropped", "refused")


class Outcome:
    """Columns go by a job's place in the trace. Times are seconds since the trace began."""

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        count = len(jobs)
        self.jobs = jobs
        self.gpus = 0  # of all nodes
        self.seed = 0
        self.started = array("d", (nan,)) * count  # its first start
        self.finished = array("d", (nan,)) * count  # its end, or when it left or was refused
        self.ran = array("d", (0.0,)) * count  # seconds that it held its nodes, in all
        self.state = bytearray(count)
        self.interruptions: dict[int, int] = {}  # job -> how often it was preempted
        self.reasons: dict[int, str] = {}  # of refused jobs
        self.ended = 0  # done, dropped or refused
        self.times = array("d")  # when the use of GPUs changed
        self.used = array("d")  # GPUs in use from then on
        self.fragments: list[tuple[float, float]] = []  # (time, part of the GPUs), sampled
        self._asked = array("d", (job.total_gpus for job in jobs))
        self._now_used = 0.0

    def is_open(self, place: int) -> bool:
        return not self.state[place]

    def start(self, place: int, now: float) -> None:
        if isnan(self.started[place]):
            self.started[place] = now
        self._now_used += self._asked[place]

    def interrupt(self, place: int, ran: float) -> None:
        self.ran[place] += ran
        self.interruptions[place] = self.interruptions.get(place, 0) + 1
        self._now_used -= self._asked[place]

    def finish(self, place: int, now: float, ran: float) -> None:
        self.ran[place] += ran
        self._now_used -= self._asked[place]
        self.close(place, DONE, now)

    def close(self, place: int, state: int, now: float, reason: str = "") -> None:
        self.state[place] = state
        self.finished[place] = now
        self.ended += 1
        if reason:
            self.reasons[place] = reason

    def note(self, now: float) -> None:
        """An event is over."""
        if not self.used or self.used[-1] != self._now_used:
            self.times.append(now)
            self.used.append(self._now_used)

    def gpus_of(self, place: int) -> float:
        return self._asked[place]
