"""Timing things side by side: every round runs each contender once, so noise hits all alike."""

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROUNDS = 9  # at least seven; medians are reported
TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"  # public ones, if at hand


@dataclass
class Bar:
    """One line of the report: what was measured, beside what it must reach."""

    what: str
    measured: float
    limit: float
    unit: str
    at_least: bool = False  # the limit is a floor, not a ceiling
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def is_met(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def line(self) -> str:
        sign = ">=" if self.at_least else "<="
        mark = "ok    " if self.is_met else "MISSED"
        detail = "  ".join(f"{k} {_show(v)}" for k, v in self.detail.items())
        return (
            f"{mark} {self.what:<46} {_show(self.measured):>9} {sign} {_show(self.limit):<9}"
            f" {self.unit:<10} {detail}"
        )


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def side_by_side(
    contenders: Mapping[str, Callable[[], float]], rounds: int = ROUNDS
) -> dict[str, float]:
    """name -> median seconds; a contender returns its own seconds."""
    for contender in contenders.values():
        contender()  # warm up: caches, byte code, the daemon itself
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            times[name].append(contender())
    return {name: statistics.median(found) for name, found in times.items()}


def timed(action: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    return run


def python_pass() -> float:
    """P: starting Python to do nothing, in Dromon's own environment."""
    return timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))()


class Memory:
    """How fast this machine's memory is now: what neighbours take of it and of the shared caches
    shows in whatever walks through a lot of it. Two loads that miss for each step."""

    STEPS = 1_000_000

    def __init__(self) -> None:
        self._next = list(range(3_000_000))
        random.Random(1).shuffle(self._next)

    def step(self) -> float:
        """Nanoseconds of processor time for one step."""
        at, following = 0, self._next
        began = time.process_time()
        for _ in range(self.STEPS):
            at = following[at]
        return (time.process_time() - began) / self.STEPS * 1e9


def first_line(command: list[str], starting: bytes = b"") -> float:
    """Seconds until a command's first line that starts so. The rest of its life is not counted."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(starting):
                took = time.perf_counter() - start
                process.stdout.read()
                return took
    raise RuntimeError(f"{command} printed no such line")
