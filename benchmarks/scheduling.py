"""The scheduler's own speed: decisions per second of processor time, and how that grows.

Everything is pure, so nothing but the core runs here. Sizes and durations are drawn from Philly
where the trace is at hand (../shared/traces), else from a distribution of the same shape.
"""

import csv
import gc
import gzip
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from heapq import heappop, heappush
from types import BuiltinFunctionType

from benchmarks import compiled
from benchmarks.measure import TRACES, Bar, Memory
from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import Preempt, Refuse, Start, decide
from dromon.sched.rules import QueueRule, Rules

PER_NODE = 8
QUEUES, USERS = 50, 20
LONG = 200_000  # steps


def drawn(seed: int) -> Iterator[tuple[int, float]]:
    """(GPUs, seconds) of jobs, for ever."""
    chance = random.Random(seed)
    known = _philly()
    while True:
        if known:
            yield chance.choice(known)
        else:
            gpus = chance.choices((1, 2, 4, 8, 16, 32), (70, 8, 8, 11, 2, 1))[0]
            yield gpus, min(30 * 86400.0, chance.lognormvariate(7.0, 2.2) + 10)


def _philly() -> list[tuple[int, float]]:
    path = TRACES / "philly.csv.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt") as text:
        return [
            (int(row["num_gpus"]), float(row["duration"])) for row in csv.DictReader(text)
            if 0 < int(row["num_gpus"]) <= 64
        ]  # fmt: skip


class Bench:
    """A full cluster with many waiting jobs, and the shell that carries decisions out."""

    def __init__(self, gpus: int, pending: int, policy: str = "drf", seed: int = 1) -> None:
        queues = tuple(
            QueueRule(f"q{q}", limit={"gpus": gpus / 4}, user_limit={"gpus": gpus / 8},
                      max_duration=40 * 86400.0)
            for q in range(QUEUES)
        )  # fmt: skip
        self.cluster = Cluster(Rules(queues=queues, policy=policy))
        self.now = 0.0
        self.seq = 0
        self.ends: list[tuple[float, str]] = []
        self.chance = random.Random(seed)
        self.jobs = drawn(seed)
        self.most = gpus // 8  # a gang's size; what is larger than the cluster is not drawn
        self.durations: dict[str, float] = {}
        self.decided = self.stops = 0
        for n in range(gpus // PER_NODE):
            devices = tuple(Gpu(str(i)) for i in range(PER_NODE))
            self.cluster.apply(events.NodeJoined(f"n{n}", 96, 2**40, devices))
        asked, held = 0, 0
        while held < gpus * 1.5 or asked < pending:
            event = self.arrival()
            self.cluster.apply(event)
            if held < gpus * 1.5:
                held += int(sum(r.gpus * r.min for r in event.ask))
            else:
                asked += 1
        self.carry_out()

    def arrival(self, priority: int = 0) -> events.JobSubmitted:
        gpus, seconds = next(self.jobs)
        while gpus > max(PER_NODE, self.most):
            gpus, seconds = next(self.jobs)
        self.seq += 1
        members, each = (1, gpus) if gpus <= PER_NODE else (-(-gpus // PER_NODE), PER_NODE)
        ask = (RoleAsk("worker", members, members, gpus=each),)
        id = f"j{self.seq}"
        self.durations[id] = seconds * self.chance.uniform(0.3, 1.0)  # users ask for more
        queue, user = self.chance.randrange(QUEUES), self.chance.randrange(USERS)
        return events.JobSubmitted(
            id, self.seq, self.now, ask, priority, True, f"u{user}", f"q{queue}",
            max_duration=seconds,
        )  # fmt: skip

    def carry_out(self, *happened: events.Event) -> float:
        """Seconds of processor time that it took to apply what happened, to decide, and to apply
        what came of it."""
        began = time.process_time()
        for event in happened:
            self.cluster.apply(event)
        decisions = decide(self.cluster, self.now, 0)
        for decision in decisions:
            if isinstance(decision, Start):
                self.cluster.apply(events.JobStarted(decision.job, decision.placement, self.now))
            elif isinstance(decision, Preempt):
                self.cluster.apply(events.JobReleased(decision.job, self.now))
                self.stops += 1
            elif isinstance(decision, Refuse):
                self.cluster.apply(events.JobEnded(decision.job, self.now))
        took = time.process_time() - began
        for decision in decisions:
            if isinstance(decision, Start):
                heappush(self.ends, (self.now + self.durations[decision.job], decision.job))
            self.decided += isinstance(decision, Start | Preempt)
        return took

    def step(self) -> float:
        """One end, one arrival."""
        while True:
            self.now, id = heappop(self.ends)
            job = self.cluster.jobs.get(id)
            if job is not None and job.state != "queued":
                break
        took = self.carry_out(events.JobEnded(id, self.now), self.arrival())
        self.durations.pop(id, None)
        return took

    def rate(self, steps: int) -> float:
        """Seconds per decision."""
        for _ in range(steps // 5):
            self.step()
        gc.collect()
        gc.freeze()
        self.decided = 0
        took = sum(self.step() for _ in range(steps))
        gc.unfreeze()
        return took / max(1, self.decided)

    def busy(self) -> float:
        total = self.cluster.accounts.total["gpus"]
        return self.cluster.accounts.tree["root"].usage["gpus"] / total


def steady(folder: str) -> Iterator[Bar]:
    """1,250 nodes of 8 GPUs, 100,000 waiting, one end and one arrival in each step. Where there is
    a C compiler, beside it the same source compiled: each has its round while the other waits.

    Then the same once more after many steps, when large jobs have gathered at the heads of the
    queues and wait for their planned starts."""
    bench, hindrance, memory = full(), compiled.hindrance(), Memory()
    with nullcontext() if hindrance else _Compiled() as other:
        before = memory.step()
        rates, faster = _rounds(bench, other, 0)
        shown: dict[str, float | str] = {"compiled": hindrance or "below"}
        shown |= {"busy": bench.busy(), "waiting": len(bench.cluster.jobs)}
        shown |= {"ns from memory, before": before, "and after": memory.step()}
        del memory
        yield Bar("decisions per CPU-second, full cluster", statistics.median(rates), 20_000.0,
                  "/s", at_least=True, detail=shown)  # fmt: skip
        if faster:
            yield Bar("the same, compiled by mypyc", statistics.median(faster), 50_000.0, "/s",
                      at_least=True, detail={"pure": statistics.median(rates)})  # fmt: skip
        later, faster_later = _rounds(bench, other, LONG)
    pairs = {"pure": (rates, later), "compiled": (faster, faster_later)}
    for name, (before, after) in pairs.items():
        if before:
            first, then = statistics.median(before), statistics.median(after)
            yield Bar(f"cost of a decision {LONG:,} steps later, {name}", first / then, 2.0, "x",
                      detail={"/s at first": first, "/s then": then})  # fmt: skip


def _rounds(bench: Bench, other: "_Compiled | None", after: int) -> tuple[list[float], list[float]]:
    """Decisions per second of each, round by round, after so many steps."""
    for _ in range(after):
        bench.step()
    if other is not None:
        other.go_on(after)
    rates, faster = [], []
    for _ in range(5):
        rates.append(1 / bench.rate(4000))
        if other is not None:
            faster.append(other.round())
    return rates, faster


def full() -> Bench:
    return Bench(10_000, 100_000)


class _Compiled:
    """The full cluster in another process, whose scheduler is compiled."""

    def __enter__(self) -> "_Compiled":
        path = os.pathsep.join([str(compiled.library()), str(compiled.ROOT)])
        self.child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scheduling"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        return self

    def go_on(self, steps: int) -> None:
        self._ask(f"step {steps}")

    def round(self) -> float:
        return float(self._ask("rate 4000"))

    def _ask(self, what: str) -> str:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(what + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline()

    def __exit__(self, *_: object) -> None:
        self.child.communicate()


def growth(folder: str) -> Iterator[Bar]:
    by_gpus = {gpus: Bench(gpus, 20_000).rate(2000) for gpus in (100, 1000, 10_000, 100_000)}
    yield Bar("cost of a decision, 100 to 100,000 GPUs", by_gpus[100_000] / by_gpus[100], 4.0, "x",
              detail={f"{n} us": 1e6 * s for n, s in by_gpus.items()})  # fmt: skip
    by_pending = {n: Bench(10_000, n).rate(2000) for n in (1000, 10_000, 100_000, 1_000_000)}
    yield Bar("cost of a decision, 1,000 to 1,000,000 waiting",
              by_pending[1_000_000] / by_pending[1000], 10.0, "x",
              detail={f"{n} us": 1e6 * s for n, s in by_pending.items()})  # fmt: skip


def idle(folder: str) -> Iterator[Bar]:
    """Asking again when nothing has changed, beside a step."""
    bench = Bench(10_000, 100_000)
    step = bench.rate(1000)
    began = time.process_time()
    for _ in range(1000):
        decide(bench.cluster, bench.now, 0)
    again = (time.process_time() - began) / 1000
    yield Bar("an idle cycle beside a decision", again / step, 1.0, "x",
              detail={"us": again * 1e6})  # fmt: skip


def preemption(folder: str) -> Iterator[Bar]:
    """An urgent job finds its cheapest victims on a full cluster of 10,000 GPUs."""
    bench = Bench(10_000, 1000, policy="fair")
    for _ in range(60):  # until each queue has about what it deserves
        bench.carry_out()
    took = []
    gc.collect()
    gc.freeze()
    for _ in range(500):
        event = bench.arrival(priority=10)
        bench.cluster.apply(event)
        began = time.process_time()
        decide(bench.cluster, bench.now, 0)
        took.append(time.process_time() - began)
        bench.cluster.apply(events.JobEnded(event.id, bench.now))
        bench.step()  # what else is decided is carried out, so that only the search is left
    gc.unfreeze()
    took.sort()
    yield Bar("preemption search, 10,000 GPUs (p99)", took[int(len(took) * 0.99)] * 1e3, 10.0, "ms",
              detail={"median": statistics.median(took) * 1e3})  # fmt: skip


def scheduling(folder: str) -> Iterator[Bar]:
    for part in (steady, growth, idle, preemption):
        yield from part(folder)


ALL: dict[str, Callable[[str], Iterator[Bar]]] = {"scheduling": scheduling}


def main() -> None:
    """For `_Compiled`: does what each line says that comes in."""
    assert isinstance(decide, BuiltinFunctionType), "not compiled"
    bench = full()
    for line in sys.stdin:
        what, count = line.split()
        if what == "step":
            for _ in range(int(count)):
                bench.step()
            print(flush=True)
        else:
            print(1 / bench.rate(int(count)), flush=True)


if __name__ == "__main__":
    main()
