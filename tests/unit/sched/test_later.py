"""Planned starts that are put off: nobody can tell from the decisions."""

import os
import sys
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # clusters drawn by chance

from dromon.sched import events
from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide
from dromon.sched.decisions import Preempt, Refuse, Start
from dromon.sched.rules import Reservation
from reference.sites import Site

# Nobody is put off while there are reservations; this one asks for nothing.
NOTHING = Reservation("nothing", start=1e9, end=2e9, gpus=0)
# `make test-deep` asks for more.
SEEDS = 400 if os.environ.get("DROMON_DEEP") else 8


def told(decisions: Any) -> list[tuple[str, str, str]]:
    return [(type(d).__name__, d.job, str(getattr(d, "placement", ""))) for d in decisions]


def decided_alike(site: Site, policy: str, steps: int) -> int:
    """How many have started, with and without planning later."""
    chance, rules = site.chance, replace(site.rules, policy=policy)
    lazy, eager = Cluster(rules), Cluster(replace(rules, reservations=(NOTHING,)))
    now, ends, started = 0.0, [(0.0, "")], 0

    def tell(event: events.Event) -> None:
        lazy.apply(event)
        eager.apply(event)

    for event in site.joined():
        tell(event)
    for number in range(site.nodes * 6):
        tell(site.job(number, now))
    for number in range(10_000, 10_000 + steps):
        decisions = decide(lazy, now, 0)
        assert told(decisions) == told(decide(eager, now, 0)), number
        for decision in decisions:
            if isinstance(decision, Start):
                started += 1
                tell(events.JobStarted(decision.job, decision.placement, now))
                asked = lazy.jobs[decision.job].duration
                heappush(ends, (now + asked * chance.uniform(0.3, 1.0), decision.job))
            elif isinstance(decision, Preempt):
                tell(events.JobReleased(decision.job, now))
            elif isinstance(decision, Refuse):
                tell(events.JobEnded(decision.job, now))
        now, ended = heappop(ends) if ends else (now + 1.0, "")
        if ended in lazy.jobs and lazy.jobs[ended].state != "queued":
            tell(events.JobEnded(ended, now))
        tell(site.job(number, now))
    return started


@pytest.mark.parametrize("policy", ["drf", "fair", "fifo", "sjf"])
@pytest.mark.parametrize("first", range(0, SEEDS, 4))
def test_what_is_planned_later_changes_no_decision(policy: str, first: int) -> None:
    sites = [Site(Random(f"{policy} {seed}")) for seed in range(first, first + 4)]
    assert sum(decided_alike(site, policy, 60) for site in sites) > 20
