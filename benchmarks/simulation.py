"""The simulator's bars: jobs for each second of processor time, the whole scheduler in the loop.

Traces are public ones beside the checkout (../shared/traces); a bar without its trace is left out.
"""

import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import TRACES, Bar
from dromon.sched.policies import NONE, Fifo
from dromon.sim import FOREVER, Trace, TraceJob, read_trace, simulate
from dromon.sim.asking import Asks
from dromon.sim.fleet import fleet
from dromon.sim.fragments import workload_of
from dromon.sim.study import placer_for

NODES = "1250x8"


def philly(folder: str) -> Iterator[Bar]:
    """All of Philly on 352 nodes of 8 GPUs: fair share over its queues, gangs, backfill."""
    path = TRACES / "philly.csv.gz"
    if not path.exists():
        return
    trace = read_trace(str(path))
    rates = []
    for _ in range(3):
        start = time.process_time()
        outcome = simulate(trace, fleet(["352x8"]))
        rates.append(len(trace.jobs) / (time.process_time() - start))
        assert outcome.ended == len(trace.jobs), outcome.ended
    yield Bar("simulated Philly, 2,816 GPUs", max(rates), 20_000.0, "jobs/CPU-s", at_least=True,
              detail={"Helios": 640, "Muri at most": 450})  # fmt: skip


def synthetic(jobs: int, seed: int = 1) -> Trace:
    """Sizes, durations and arrivals like those of a busy cluster, drawn with a fixed seed."""
    lot = random.Random(seed)
    found, now = [], 0.0
    for number in range(jobs):
        now += lot.expovariate(1.0)  # about 95 % of 10,000 GPUs
        gpus = lot.choices((1, 2, 4, 8, 16), (70, 8, 10, 10, 2))[0]
        found.append(
            TraceJob(
                str(number), now, 30 + lot.lognormvariate(7, 1.6), gpus,
                user=f"u{number % 97}", queue=f"q{number % 20}",
            )
        )  # fmt: skip
    return Trace(found, "synthetic")


def million(folder: str) -> Iterator[Bar]:
    """In a process of its own, so that the memory is the simulation's alone."""
    command = [sys.executable, "-m", "benchmarks.simulation", "1000000"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True,
        cwd=Path(__file__).resolve().parents[1],
    )  # fmt: skip
    seconds, peak = map(float, done.stdout.split())
    yield Bar("1,000,000 jobs simulated on 10,000 GPUs", seconds, 90.0, "CPU-s")
    yield Bar("its memory", peak / 2**30, 2.0, "GB")


def fgd(folder: str) -> Iterator[Bar]:
    """Alibaba's openb, brought to 1.3 times its GPUs, with FGD: pods that do not fit leave."""
    path = TRACES / "openb_pod_list_default.csv.gz"
    if not path.exists():
        return

    class OneByOne(Fifo):
        preemption, backfills = NONE, False

    pods = read_trace(str(path)).jobs
    nodes = fleet([str(TRACES / "openb_node_list_gpu_node.csv.gz")])
    lot = random.Random(42)
    come = lot.sample(pods, len(pods))
    total, most = sum(pod.gpus for pod in come), 1.3 * sum(len(node.gpus) for node in nodes)
    while total + (pod := lot.choice(pods)).gpus <= most:
        come.append(pod)
        total += pod.gpus
    trace = Trace(
        [
            TraceJob(str(n), float(n), FOREVER, p.gpus, cpus=p.cpus, memory=p.memory)
            for n, p in enumerate(come)
        ]
    )
    start = time.process_time()
    placer = placer_for("fgd", nodes, workload_of(pods, Asks(nodes)), 42)
    outcome = simulate(trace, nodes, policy=OneByOne(), placer=placer, patience=0)
    took = time.process_time() - start
    given = 100 * outcome.used[-1] / outcome.gpus
    yield Bar("FGD on openb", took, 60.0, "CPU-s",
              detail={"its own simulator": 2706, "allocated %": given})  # fmt: skip


ALL: dict[str, Callable[[str], Iterator[Bar]]] = {
    "simulated_philly": philly,
    "simulated_million": million,
    "simulated_fgd": fgd,
}


def main() -> None:
    """For `million`: seconds of processor time and bytes at most."""
    trace, nodes = synthetic(int(sys.argv[1])), fleet([NODES])
    start = time.process_time()
    simulate(trace, nodes)
    took = time.process_time() - start
    print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    main()
