"""Muri's published figures, equal to a millionth."""

import pytest
from tests.truth.muri import MuriCosts, MuriShortest, MuriTiresias
from tests.truth.shared import long_run, trace_file

from dromon.sched.placers import FirstFit
from dromon.sim import read_trace, simulate
from dromon.sim.fleet import fleet
from dromon.sim.measures import summarise

# (mean JCT, makespan, p99 JCT) in seconds
PUBLISHED = {
    (1, "srtf"): (1370603.198, 26045465.533, 16647148.091),
    (1, "srsf"): (980140.570, 26065759.045, 15529913.228),
    (1, "tiresias"): (3330371.307, 23556410.217, 14739851.505),
    (2, "srtf"): (2665607.375, 48847005.198, 33128484.196),
    (2, "srsf"): (2213949.687, 49026465.311, 31241250.835),
    (2, "tiresias"): (7396368.514, 48117093.308, 37913098.471),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("trace", "policy"), PUBLISHED)
def test_muri_gives_the_published_figures(trace: int, policy: str):
    if trace == 2 and policy != "srtf":
        long_run()
    jobs = read_trace(trace_file(f"muri_trace{trace}.csv.gz"))
    if policy == "tiresias":  # only the total of GPUs counts there
        outcome = simulate(jobs, fleet(["1x64"]), policy=MuriTiresias(), costs=MuriCosts(0.0))
    else:
        nodes = fleet(["8x8,cpus=92,memory=520GiB"])
        costs = MuriCosts()
        chosen = MuriShortest(costs, by_service=policy == "srsf")
        outcome = simulate(jobs, nodes, policy=chosen, placer=FirstFit(), costs=costs)
    found = summarise(outcome, policy, "", 0)
    assert found.done == len(jobs.jobs)
    shown = (found.jct.mean, found.makespan, found.jct.p99)
    assert shown == pytest.approx(PUBLISHED[trace, policy], rel=1e-6)
