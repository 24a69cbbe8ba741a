"""What was used before this life of the shell counts as if it had been seen."""

import random

import pytest

from dromon.sched import events
from dromon.sched.asks import RoleAsk, Share
from dromon.sched.cluster import Cluster
from dromon.sched.rules import Budget, PriorityRule, QueueRule, Rules, UserRule

RULES = Rules(
    queues=(
        QueueRule("top", budgets=(Budget(1e6, "month"),)),
        QueueRule("a", parent="top", budgets=(Budget(1e6, "day"), Budget(1e6, "week", "user"))),
        QueueRule("b", parent="top"),
    ),
    priorities=(PriorityRule("urgent", 9, 1e6),),
    users=(UserRule("ann", budgets=(Budget(1e6, "month", "user"),)),),
    half_life=7200.0,
)
NOON = 1_795_176_000.0  # 12:00 UTC
Spell = tuple[str, str, str, int, int, float, float]


def spells(seed: int) -> list[Spell]:
    """(id, user, queue, priority, gpus, start, end), some of yesterday, many at once."""
    chance = random.Random(seed)
    found = []
    for number in range(12):
        start = NOON - chance.uniform(0, 30 * 3600)
        end = min(NOON, start + chance.uniform(60, 6 * 3600))
        user, queue = chance.choice(("ann", "bob")), chance.choice(("a", "b"))
        priority, gpus = chance.choice((5, 9)), chance.choice((1, 2))
        found.append((f"j{number}", user, queue, priority, gpus, start, end))
    return found


def cluster() -> Cluster:
    made = Cluster(RULES)
    made.apply(events.NodeJoined("box", 64, 1 << 40))
    return made


def lived(found: list[Spell]) -> Cluster:
    """A cluster that saw it all happen."""
    made = cluster()
    edges = []
    for id, user, queue, priority, gpus, start, end in found:
        ask = (RoleAsk("w", 1, 1, gpus=gpus),)
        job = events.JobSubmitted(id, int(id[1:]), start, ask, priority, True, user, queue,
                                  accepted=True)  # fmt: skip
        made.apply(job)
        placement = {"w-0": Share("box", 0.0, None, tuple(f"{id}-{n}" for n in range(gpus)))}
        edges.append((start, events.JobStarted(id, placement, start)))
        edges.append((end, events.JobEnded(id, end)))
    for _, event in sorted(edges, key=lambda edge: edge[0]):
        made.apply(event)
    return made


def figures(made: Cluster) -> list[float]:
    """Every budget and every share at noon."""
    found = []
    accounts = made.accounts
    for name in ("top", "a", "b"):
        queue = accounts.tree[name]
        found += [ledger.at(NOON) for ledger in queue.ledgers]
        found.append(queue.past.at(queue.usage, NOON).get("gpus", 0.0))
        for user in ("ann", "bob"):
            member = queue.member(user, RULES.half_life)
            found += [ledger.at(NOON) for ledger in member.ledgers]
            if name != "top":
                found.append(member.past.at(member.usage, NOON).get("gpus", 0.0))
    for user in ("ann", "bob"):
        found += [ledger.at(NOON) for ledger in accounts.user_ledgers(user, 9)]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_what_was_used_counts_in_whatever_order_it_is_told(seed):
    found = spells(seed)
    told = cluster()
    shuffled = list(found)
    random.Random(seed + 1).shuffle(shuffled)
    for _, user, queue, priority, gpus, start, end in shuffled:
        told.apply(events.Used(queue, user, priority, {"gpus": gpus}, start, end))
    assert any(figures(told))
    assert figures(told) == pytest.approx(figures(lived(found)), rel=1e-9)


def test_a_job_that_still_runs_is_counted_once():
    start = NOON - 3600
    told = cluster()
    told.apply(events.Used("a", "ann", 5, {"gpus": 1}, start - 7200, NOON - 60))
    told.apply(events.Used("a", "bob", 5, {"gpus": 2}, start, NOON))
    ask = (RoleAsk("w", 1, 1, gpus=2),)
    told.apply(events.JobSubmitted("x", 1, start, ask, 5, True, "bob", "a", accepted=True))
    placement = {"w-0": Share("box", 0.0, None, ("g0", "g1"))}
    told.apply(events.JobStarted("x", placement, start))
    (day,) = told.accounts.tree["a"].ledgers
    later = NOON + 1800
    assert day.at(later) / 1000 == pytest.approx(10740 + 2 * (3600 + 1800))
