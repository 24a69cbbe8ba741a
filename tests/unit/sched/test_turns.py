"""Turns keep their order whatever happens to those who take them."""

import random

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide
from dromon.sched.rules import QueueRule, Rules
from dromon.sched.turns import NOBODY, Party, Turns


def stand(turns: Turns[Party]) -> list[Party]:
    turns.settle()
    return [who for share in turns.shares for who in turns.equals[share].whose]


def in_order(parties: list[Party]) -> list[Party]:
    return sorted((p for p in parties if p.age != NOBODY), key=lambda p: (p.share, p.age))


def test_the_smallest_share_goes_first_and_of_equals_who_has_waited_longest():
    turns, parties = Turns[Party](), [Party() for _ in range(4)]
    for party, (share, age) in zip(
        parties, [(0.5, 3), (0.25, 9), (0.5, 1), (0.0, NOBODY)], strict=True
    ):
        party.share, party.age = share, age
        turns.put_off(party)
    assert turns.first() is parties[1]
    assert stand(turns) == [parties[1], parties[2], parties[0]]


def test_nobody_goes_first_where_nobody_waits():
    turns, party = Turns[Party](), Party()
    turns.put_off(party)
    assert turns.first() is None
    assert stand(turns) == []


def test_whoever_is_put_off_and_comes_back_stands_where_it_stood():
    turns, parties = Turns[Party](), [Party() for _ in range(3)]
    for age, party in enumerate(parties):
        party.age = age
        turns.move(party)
    parties[1].share = 0.5
    turns.put_off(parties[1])
    assert turns.first() is parties[0]
    parties[1].share = 0.0
    assert stand(turns) == parties


def test_the_order_is_right_after_any_changes():
    lot = random.Random(1)
    turns, parties = Turns[Party](), [Party() for _ in range(40)]
    ages = iter(range(10**6))
    for step in range(3000):
        party = lot.choice(parties)
        party.share = lot.choice((0.0, 0.25, 0.5, 1.0, float("inf")))
        if lot.random() < 0.5:
            party.age = lot.choice((NOBODY, next(ages)))
        if lot.random() < 0.3:
            turns.move(party)
        else:
            turns.put_off(party)
        expected = in_order(parties)
        assert turns.first() is (expected[0] if expected else None)
        if step % 7 == 0:
            assert stand(turns) == expected


def a_full_queue() -> Cluster:
    """One GPU, held by job 0."""
    cluster = Cluster(Rules(queues=(QueueRule("a"),)))
    cluster.apply(events.NodeJoined("n0", 8, 2**30, (Gpu("0"),)))
    submit(cluster, 0)
    (start,) = decide(cluster, 0.0, 0)
    cluster.apply(events.JobStarted(start.job, start.placement, 0.0))  # type: ignore[union-attr]
    return cluster


def submit(cluster: Cluster, seq: int) -> None:
    ask = (RoleAsk("worker", 1, 1, gpus=1),)
    cluster.apply(events.JobSubmitted(f"j{seq}", seq, 0.0, ask, preemptible=True, queue="a"))


def test_who_has_waited_longest_is_known_after_many_have_come_and_gone():
    cluster = a_full_queue()
    for seq in (1, 2):
        submit(cluster, seq)
    for seq in range(3, 203):
        submit(cluster, seq)
        cluster.apply(events.JobEnded(f"j{seq}", 0.0))
    queue = cluster.accounts.tree["a"]
    ages = []
    for id in ("j1", "j2"):
        ages.append(queue.age)
        cluster.apply(events.JobEnded(id, 0.0))
    assert [*ages, queue.age] == [1, 2, NOBODY]


def test_who_comes_back_has_waited_longest_again():
    cluster = a_full_queue()
    submit(cluster, 1)
    queue = cluster.accounts.tree["a"]
    assert queue.age == 1
    cluster.apply(events.JobReleased("j0", 1.0))
    assert queue.age == 0
    cluster.apply(events.JobEnded("j0", 1.0))
    assert queue.age == 1
