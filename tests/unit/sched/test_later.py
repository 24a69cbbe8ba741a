"""Planned starts that are put off: nobody can tell from the decisions."""

from heapq import heappop, heappush
from random import Random
from typing import Any

import pytest

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide
from dromon.sched.decisions import Preempt, Start
from dromon.sched.rules import QueueRule, Reservation, Rules

# Nobody is put off while there are reservations; this one asks for nothing.
NOTHING = Reservation("nothing", start=1e9, end=2e9, gpus=0)
SIZES = (1, 1, 1, 2, 2, 4, 8, 16)
SECONDS = (1.0, 2.0, 3.0, 5.0, 8.0, 13.7, 20.0, 30.0, 50.0, 137.0, 200.0)


def job(chance: Random, number: int, now: float) -> events.JobSubmitted:
    gpus = chance.choice(SIZES)
    members, each = (1, gpus) if gpus <= 8 else (gpus // 8, 8)
    return events.JobSubmitted(
        f"j{number}", number, now, (RoleAsk("worker", members, members, gpus=each),), 0, True,
        f"u{chance.randrange(3)}", f"q{chance.randrange(4)}", max_duration=chance.choice(SECONDS),
    )  # fmt: skip


def told(decisions: Any) -> list[tuple[str, str]]:
    return [(type(decision).__name__, decision.job) for decision in decisions]


@pytest.mark.parametrize("policy", ["drf", "fair", "fifo", "sjf"])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_planned_later_changes_no_decision(policy: str, seed: int) -> None:
    chance = Random(seed)
    queues = tuple(QueueRule(f"q{q}", limit={"gpus": 24.0}) for q in range(4))
    lazy = Cluster(Rules(queues=queues, policy=policy))
    eager = Cluster(Rules(queues=queues, policy=policy, reservations=(NOTHING,)))
    now, number, ends = 0.0, 0, [(0.0, "")]

    def tell(event: events.Event) -> None:
        lazy.apply(event)
        eager.apply(event)

    for node in range(6):
        tell(events.NodeJoined(f"n{node}", 96, 2**40, tuple(Gpu(str(i)) for i in range(8))))
    for _ in range(60):
        number += 1
        tell(job(chance, number, now))
    started = 0
    for _ in range(30):
        decisions = decide(lazy, now, 0)
        assert told(decisions) == told(decide(eager, now, 0))
        for decision in decisions:
            if isinstance(decision, Start):
                started += 1
                tell(events.JobStarted(decision.job, decision.placement, now))
                asked = lazy.jobs[decision.job].duration
                heappush(ends, (now + asked * chance.uniform(0.3, 1.0), decision.job))
            elif isinstance(decision, Preempt):
                tell(events.JobReleased(decision.job, now))
        now, ended = heappop(ends) if ends else (now + 1.0, "")
        if ended in lazy.jobs and lazy.jobs[ended].state != "queued":
            tell(events.JobEnded(ended, now))
        number += 1
        tell(job(chance, number, now))
    assert started > 20
