"""What is told without a pass is what a pass finds."""

import os
import sys
from collections import Counter
from heapq import heappop, heappush
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # clusters drawn by chance

from dromon.sched import events
from dromon.sched.asks import Gpu
from dromon.sched.cluster import Cluster
from dromon.sched.decide import Pass, decide
from dromon.sched.decisions import Decision, Refuse, Start
from dromon.sched.outright import outright
from dromon.sched.rules import Rules
from reference.sites import Site

# `make test-deep` asks for more. Not every dozen of clusters has decisions of each kind.
SEEDS, CHUNK = (600, 60) if os.environ.get("DROMON_DEEP") else (36, 12)


def by_a_pass(cluster: Cluster, now: float) -> tuple[Decision, ...]:
    cluster.review()
    passage = Pass(cluster, now, 0)
    passage.run()
    passage.undo()
    cluster.settle()
    return tuple(passage.decisions)


def test_where_nobody_waits_there_is_nothing_to_do() -> None:
    cluster = Cluster(Rules(policy="drf"))
    cluster.apply(events.NodeJoined("n0", 96, 2**40, (Gpu("0"),)))
    assert decide(cluster, 0.0, 0) == by_a_pass(cluster, 0.0) == outright(cluster, 0.0) == ()


def told_in(site: Site, steps: int) -> Counter[str]:
    """Which decisions were told outright; each is what a pass finds."""
    cluster, chance, now = site.cluster, site.chance, 0.0
    ends, told = [(0.0, "")], Counter[str]()
    for number in range(10_000, 10_000 + steps):
        found = by_a_pass(cluster, now)
        live = len(cluster.index.with_some(99) or ())
        without = outright(cluster, now)
        if without is not None:
            assert without == found, number
            starts = sum(isinstance(d, Start) for d in without)
            if live:
                told["one starts" if starts else "nobody can"] += 1
                told["several nodes"] += live > 1
        cluster.settle()
        for decision in decide(cluster, now, 0):
            if isinstance(decision, Refuse):
                cluster.apply(events.JobEnded(decision.job, now))
                continue
            assert isinstance(decision, Start)
            lasts = cluster.jobs[decision.job].duration * chance.uniform(0.3, 1.0)
            cluster.apply(events.JobStarted(decision.job, decision.placement, now))
            heappush(ends, (now + lasts, decision.job))
        if ends:
            now, ended = heappop(ends)
            cluster.apply(events.JobEnded(ended, now))
        cluster.apply(site.job(number, now))
    return told


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_is_told_outright_is_what_a_pass_finds(first: int) -> None:
    told = Counter[str]()
    for seed in range(first, first + CHUNK):
        told += told_in(Site(Random(seed)), 250)
    assert min(told[kind] for kind in ("one starts", "nobody can", "several nodes")) > 5, told
