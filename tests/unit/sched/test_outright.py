"""What is told without a pass is what a pass finds."""

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

NODES, DEVICES = 16, 8


def job(chance: Random, number: int, now: float) -> events.JobSubmitted:
    gpus = chance.choice((1, 1, 1, 1, 1, 2, 4, 8, 16))
    members, each = (1, gpus) if gpus <= 8 else (gpus // 8, 8)
    return events.JobSubmitted(
        f"j{number}", number, now, (RoleAsk("worker", members, members, gpus=each),),
        chance.choice((0, 0, 0, 5)), True, f"u{chance.randrange(4)}", f"q{chance.randrange(3)}",
        max_duration=chance.choice((1.0, 3.0, 8.0, 20.0, 50.0, 137.0)),
    )  # fmt: skip


def full(chance: Random) -> Cluster:
    queues = tuple(
        QueueRule(f"q{q}", limit={"gpus": 48.0}, user_limit={"gpus": 16.0}) for q in range(3)
    )
    cluster = Cluster(Rules(queues=queues, policy="drf"))
    devices = tuple(Gpu(str(i)) for i in range(DEVICES))
    for node in range(NODES):
        cluster.apply(events.NodeJoined(f"n{node}", 96, 2**40, devices))
    for number in range(250):
        cluster.apply(job(chance, number, 0.0))
    too_large = (RoleAsk("worker", 1, 1, gpus=DEVICES + 1),)
    never = events.JobSubmitted("never", 999, 0.0, too_large, queue="q0", max_duration=1.0)
    cluster.apply(never)
    return cluster


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


@pytest.mark.parametrize("seed", range(6))
def test_what_is_told_outright_is_what_a_pass_finds(seed: int) -> None:
    chance, now, told = Random(seed), 0.0, 0
    cluster, ends = full(chance), [(0.0, "")]
    for number in range(1000, 1600):
        found = by_a_pass(cluster, now)
        without = outright(cluster, now)
        if without is not None:
            told += len(without) - 1
            assert without == found
        cluster.settle()
        for decision in decide(cluster, now, 0):
            if isinstance(decision, Refuse):
                assert decision.job == "never"
                continue
            assert isinstance(decision, Start)
            lasts = cluster.jobs[decision.job].duration * chance.uniform(0.3, 1.0)
            cluster.apply(events.JobStarted(decision.job, decision.placement, now))
            heappush(ends, (now + lasts, decision.job))
        now, ended = heappop(ends)
        cluster.apply(events.JobEnded(ended, now))
        cluster.apply(job(chance, number, now))
    assert told > 15
