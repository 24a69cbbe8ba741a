"""What makes CPUs and GPUs comparable: the largest node there is taken to be."""

from dataclasses import dataclass

from dromon.sched.asks import milli
from dromon.sched.node import WHOLE


@dataclass(frozen=True, slots=True)
class Scale:
    cpus: float = 128.0
    gpus: float = 8.0

    @property
    def thousandths(self) -> tuple[int, int]:
        return milli(self.cpus), round(self.gpus * WHOLE)
