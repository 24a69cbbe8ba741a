"""What starting costs. A cost model is asked how long a job runs from a start to its end when
nobody interrupts it, and how much of its work is done when somebody does.

A public hook: hand any object with these methods to `simulate`. One that says `every_event` is
asked about every running job at every event, as if all of them were started anew there; it costs
more time, and is what some simulators do.
"""

from dataclasses import dataclass
from typing import Protocol

from dromon.sim.trace import TraceJob


class Costs(Protocol):
    @property
    def every_event(self) -> bool: ...

    @property
    def together(self) -> float:
        """Ends that lie this close, relative to the time, are one event; mostly 0. Heard where
        `every_event` is so."""
        ...

    def work(self, job: TraceJob) -> float:
        """Seconds of work in all; usually its duration."""
        ...

    def span(self, job: TraceJob, left: float) -> float:
        """Seconds from a start to the end of a job with so much work left."""
        ...

    def done(self, job: TraceJob, span: float) -> float:
        """Seconds of work done in a run of so many seconds that was cut short."""
        ...


@dataclass(frozen=True, slots=True)
class StartUp:
    """Every start, also one after a preemption, takes so many seconds before work begins."""

    seconds: float = 0.0
    every_event: bool = False
    together: float = 0.0

    def work(self, job: TraceJob) -> float:
        return job.duration

    def span(self, job: TraceJob, left: float) -> float:
        return self.seconds + left

    def done(self, job: TraceJob, span: float) -> float:
        return max(0.0, span - self.seconds)


FREE = StartUp()
