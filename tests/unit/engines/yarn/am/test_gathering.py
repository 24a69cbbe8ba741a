"""Containers for a gang: who gets which, and why two half-gangs do not wait for each other."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dromon.engines.yarn.am.gathering import Gathering, Patience

FOREVER = Patience(hold=float("inf"))
USUAL = Patience()


def gathering(*members: str, patience: Patience = USUAL, born: float = 0.0) -> Gathering:
    made = Gathering(patience, born)
    made.needed = list(members)
    return made


def test_a_container_goes_to_the_first_member_of_its_role_without_one():
    found = gathering("chief-0", "worker-0", "worker-1")
    assert found.take("c1", "worker", "n1", 1.0) == "worker-0"
    assert found.take("c2", "worker", "n2", 1.0) == "worker-1"
    assert found.take("c3", "chief", "n1", 1.0) == "chief-0"
    held = found.container_of("worker-1")
    assert held is not None
    assert (held.id, held.node) == ("c2", "n2")


def test_one_too_many_is_nobodys():
    found = gathering("worker-0")
    found.take("c1", "worker", "n1", 1.0)
    assert found.take("c2", "worker", "n1", 1.0) is None
    assert list(found.held) == ["c1"]


def test_a_lost_container_is_missing_again():
    found = gathering("worker-0", "worker-1")
    found.take("c1", "worker", "n1", 1.0)
    found.take("c2", "worker", "n1", 1.0)
    assert found.missing(1.0) == {"worker": 0}
    assert found.lose("c1") == "worker-0"
    assert found.missing(1.0) == {"worker": 1}
    assert found.take("c3", "worker", "n2", 2.0) == "worker-0"


def test_losing_what_is_not_held_is_nobodys_loss():
    assert gathering("worker-0").lose("c9") is None


def test_a_barred_member_is_not_asked_for():
    found = gathering("worker-0", "worker-1")
    assert found.missing(1.0, {"worker-1"}) == {"worker": 1}


def test_containers_of_members_nobody_needs_are_surplus():
    found = gathering("worker-0", "worker-1")
    found.take("c1", "worker", "n1", 1.0)
    found.take("c2", "worker", "n1", 1.0)
    found.needed = ["worker-0"]
    assert found.surplus() == ["c2"]


def test_nothing_held_is_nothing_to_give_back():
    assert gathering("worker-0").give_way(1e9, 0.5) == []


def test_a_part_is_held_for_a_while_after_the_last_container_came():
    found = gathering("worker-0", "worker-1", "worker-2", patience=Patience(hold=20, hold_growth=0))
    found.take("c1", "worker", "n1", 10.0)
    assert found.give_way(29.9, 0.5) == []
    found.take("c2", "worker", "n1", 29.9)
    assert found.give_way(49.8, 0.5) == []
    assert found.give_way(49.9, 0.5) == ["c1", "c2"]


def test_after_giving_way_nothing_is_asked_for_until_the_pause_is_over():
    patience = Patience(hold=20, hold_growth=0, pause=10, pause_halves=1e9)
    found = gathering("worker-0", "worker-1", patience=patience)
    found.take("c1", "worker", "n1", 0.0)
    for container in found.give_way(20.0, 0.5):
        found.lose(container)
    assert found.missing(29.0) == {"worker": 0}
    assert found.asks_again_at == pytest.approx(30.0, abs=1e-6)
    assert found.missing(30.1) == {"worker": 2}


@given(st.floats(0, 1e6), st.floats(0.001, 1e6), st.floats(0, 1))
def test_the_elder_holds_no_shorter_and_pauses_no_longer(young, more, chance):
    patience = Patience()
    assert patience.hold_for(young + more) >= patience.hold_for(young)
    assert patience.pause_for(young + more, 1, chance) <= patience.pause_for(young, 1, chance)


# ---- two gangs, one cluster ---------------------------------------------------------------------


@dataclass
class World:
    """A cluster of so many containers, granted one by one to whoever asks, in turns."""

    room: int
    gangs: list[Gathering]
    seed: int
    now: float = 0.0
    started: dict[int, float] = field(default_factory=dict)

    def run(self, until: float) -> None:
        chance = random.Random(self.seed)
        while self.now < until and len(self.started) < len(self.gangs):
            self.now += 0.5
            turn = list(range(len(self.gangs)))
            chance.shuffle(turn)
            for number in turn:
                self._settle(number, chance.random())
            for number in turn:
                self._grant(number)

    def _settle(self, number: int, chance: float) -> None:
        gang = self.gangs[number]
        if number in self.started:
            # It has run for a minute and is over: its room is free.
            if self.now - self.started[number] > 60:
                gang.needed = []
                for container in list(gang.held):
                    gang.lose(container)
        elif len(gang.held) == len(gang.needed):
            self.started[number] = self.now
        elif any(gang.missing(self.now).values()):
            for container in gang.give_way(self.now, chance):
                gang.lose(container)

    def _grant(self, number: int) -> None:
        gang = self.gangs[number]
        held = sum(len(each.held) for each in self.gangs)
        if held < self.room and gang.missing(self.now).get("worker"):
            gang.take(f"c{number}-{self.now}", "worker", "n1", self.now)


def two_halves(patience: Patience, seed: int, later: float = 3.0) -> World:
    """Each needs six of eight, and they come at about the same time."""
    names = [f"worker-{n}" for n in range(6)]
    gangs = [gathering(*names, patience=patience, born=born) for born in (0.0, later)]
    return World(8, gangs, seed)


def test_masters_that_hold_what_they_have_wait_for_each_other_for_ever():
    world = two_halves(FOREVER, seed=1)
    world.run(until=100_000)
    assert world.started == {}
    assert sum(len(gang.held) for gang in world.gangs) == world.room


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), later=st.floats(0, 60))
def test_two_half_gangs_never_hold_each_other_up(seed, later):
    world = two_halves(Patience(), seed, later)
    world.run(until=3600)
    assert set(world.started) == {0, 1}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_of_two_half_gangs_the_elder_goes_first(seed):
    world = two_halves(Patience(), seed, later=30.0)
    world.run(until=3600)
    assert world.started[0] < world.started[1]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(3, 6))
@example(seed=3610, count=6)  # old ones that paused too briefly to let one another through
def test_neither_do_many(seed, count):
    names = [f"worker-{n}" for n in range(6)]
    gangs = [gathering(*names, born=float(n)) for n in range(count)]
    world = World(8, gangs, seed)
    world.run(until=7200)
    assert len(world.started) == count
