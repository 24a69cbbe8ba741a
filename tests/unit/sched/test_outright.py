"""What is told without a pass is what a pass finds."""

import os
from collections import Counter
from heapq import heappop, heappush
from random import Random

import pytest

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import Pass, decide
from dromon.sched.decisions import Decision, Refuse, Start
from dromon.sched.outright import outright
from dromon.sched.rules import QueueRule, Rules

DEVICES = 8
# `make test-deep` asks for more.
SEEDS = 600 if os.environ.get("DROMON_DEEP") else 12


class Site:
    """A full cluster of some kind: small or larger, with or without trees, caps, classes, kinds."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.nodes = chance.choice((4, 16, 40))
        self.queues, self.users = chance.choice((1, 3, 8)), chance.choice((1, 4))
        self.classes = chance.choice(((0,), (0,), (0, 0, 0, 5)))
        self.has_kinds, self.has_cpus = chance.random() < 0.2, chance.random() < 0.2
        self.sizes = chance.choice(((1, 1, 1, 1, 1, 2, 4, 8, 16), (1, 2, 4, 8), (2, 3, 4), (1, 8)))
        self.times = chance.choice(((1.0, 3.0, 8.0, 20.0, 50.0, 137.0), (5.0, 5.0, 1000.0)))
        whole = self.nodes * DEVICES
        most = whole / chance.choice((1, 2, 4))
        is_tree = chance.random() < 0.5
        rules = tuple(
            QueueRule(f"q{q}", parent=f"p{q % 3}" if is_tree else "root", limit={"gpus": most},
                      user_limit={"gpus": most / chance.choice((1, 2, 4))}, weight=1.0 + q % 2)
            for q in range(self.queues)
        )  # fmt: skip
        self.cluster = Cluster(Rules(queues=rules, policy="drf"))
        for node in range(self.nodes):
            kind = f"kind{node % 2}" if self.has_kinds else ""
            devices = tuple(Gpu(str(i), kind) for i in range(DEVICES))
            label = frozenset({"fast"} if node % 2 else ())
            self.cluster.apply(events.NodeJoined(f"n{node}", 16, 2**40, devices, label))
        for number in range(self.nodes * chance.choice((3, 16))):
            self.cluster.apply(self.job(number, 0.0))
        too_large = (RoleAsk("worker", 1, 1, gpus=DEVICES + 1),)
        self.cluster.apply(events.JobSubmitted("never", 9999, 0.0, too_large, queue="q0",
                                               max_duration=1.0))  # fmt: skip

    def job(self, number: int, now: float) -> events.JobSubmitted:
        chance = self.chance
        gpus = chance.choice(self.sizes)
        members, each = (1, gpus) if gpus <= DEVICES else (gpus // DEVICES, DEVICES)
        ask = RoleAsk(
            "worker", members, members, gpus=each,
            gpu_kind=chance.choice((None, "kind0", "kind1")) if self.has_kinds else None,
            node_label=chance.choice((None, None, "fast")) if self.has_cpus else None,
            cpus=chance.choice((0, 0, 1, 4)) if self.has_cpus else 0,
        )  # fmt: skip
        return events.JobSubmitted(
            f"j{number}", number, now, (ask,), chance.choice(self.classes), True,
            f"u{chance.randrange(self.users)}", f"q{chance.randrange(self.queues)}",
            max_duration=chance.choice(self.times) * chance.choice((1.0, 1.0, 1.1)),
        )  # fmt: skip


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


@pytest.mark.parametrize("first", range(0, SEEDS, 12))
def test_what_is_told_outright_is_what_a_pass_finds(first: int) -> None:
    told = Counter[str]()
    for seed in range(first, first + 12):
        told += told_in(Site(Random(seed)), 250)
    assert min(told[kind] for kind in ("one starts", "nobody can", "several nodes")) > 5, told
