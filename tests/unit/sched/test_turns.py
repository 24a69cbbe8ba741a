"""Turns keep their order whatever happens to those who take them."""

import random

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
