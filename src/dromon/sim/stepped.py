"""A simulation whose cost model is asked about every running job at every event.

Then no end stands still: each event puts all of them off. So ends are no pending events here, but
counted anew after every event.
"""

from dromon.sim.simulation import Simulation
from dromon.sim.trace import FOREVER


class SteppedSimulation(Simulation):
    _ends: dict[int, float]  # running job -> when it will end if nothing happens before
    _first = FOREVER

    def _next(self) -> float:
        return min(super()._next(), self._first)

    def _happen(self, now: float) -> None:
        if self._first <= now:
            until = now + self.costs.together * now
            for place in [place for place, end in self._ends.items() if end <= until]:
                self._end(place, now)
        for place in self._since:
            self._left[place] = super()._work_left(place, now - self._last)
        super()._happen(now)

    def _work_left(self, place: int, ran: float) -> float:
        return self._left[place]  # counted already

    def _foresee(self, place: int, now: float) -> None:
        self._left.setdefault(place, self.costs.work(self.jobs[place]))

    def _decide(self, now: float) -> None:
        super()._decide(now)
        span, jobs, left = self.costs.span, self.jobs, self._left
        self._ends = {place: now + span(jobs[place], left[place]) for place in self._since}
        self._first = min(self._ends.values(), default=FOREVER)
        self._last = now

    _last = 0.0
