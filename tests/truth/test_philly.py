"""Helios-style figures on Philly: each virtual cluster by itself, strictly in order, no backfill,
October and November 2017."""

import csv
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from tests.truth.shared import long_run, trace_file

from dromon.sched.policies import Fifo, Policy, Sjf
from dromon.sim import Trace, read_trace, simulate
from dromon.sim.fleet import fleet

BEGIN, END = (datetime(2017, month, 1, tzinfo=UTC).timestamp() for month in (10, 12))
JOBS = 68_503


class StrictFifo(Fifo):
    backfills = False


class StrictSjf(Sjf):
    backfills = False


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("policy", "mean"), [(StrictFifo(), 11585.29), (StrictSjf(), 11543.43)])
def test_philly_gives_the_published_completion_times(policy: Policy, mean: float):
    if policy.name == "sjf":
        long_run()
    total, count = 0.0, 0
    for part, nodes in virtual_clusters():
        outcome = simulate(part, fleet([f"{nodes}x8"]), policy=policy)
        total += sum(end - job.submit for end, job in zip(outcome.finished, part.jobs, strict=True))
        count += len(part.jobs)
    assert count == JOBS
    assert total / count == pytest.approx(mean, rel=1e-3)


def virtual_clusters() -> Iterator[tuple[Trace, int]]:
    trace = read_trace(trace_file("philly.csv.gz"))
    with open(trace_file("philly_vc_nodes.csv"), newline="") as file:
        sizes = {row["vc"]: int(row["node num"]) for row in csv.DictReader(file)}
    jobs = [job for job in trace.jobs if BEGIN <= trace.begin + job.submit < END]
    for name, nodes in sizes.items():
        yield Trace([job for job in jobs if job.queue == name], name), nodes
