import os
import time
from pathlib import Path

import pytest

from dromon.engines.kubernetes.pod.handover import GONE, NAME, Office, leave


@pytest.fixture
def first(tmp_path: Path) -> Office:
    made = Office(str(tmp_path), "first")
    assert made.enter() == 0.0  # there was nobody to wait for
    return made


def test_the_next_one_counts_on_and_the_last_one_sees_it(tmp_path: Path, first: Office):
    assert first.is_ours()
    second = Office(str(tmp_path), "second")
    assert first.is_ours()  # it has not come yet
    second.enter()
    assert (first.epoch, second.epoch) == (1, 2)
    assert (first.is_ours(), second.is_ours()) == (False, True)


def test_two_of_the_same_number_know_which_of_them_is_meant(tmp_path: Path, first: Office):
    one, other = Office(str(tmp_path), "one"), Office(str(tmp_path), "other")
    one.enter()
    other.enter()
    assert one.epoch == other.epoch
    assert (one.is_ours(), other.is_ours()) == (False, True)


def test_one_that_said_nothing_when_it_went_is_waited_for(tmp_path: Path, first: Office):
    assert first.is_ours()
    assert 0 < Office(str(tmp_path), "second").enter() <= GONE


def test_one_that_has_left_is_not_waited_for(tmp_path: Path, first: Office):
    leave(str(tmp_path), "first")
    assert Office(str(tmp_path), "second").enter() == 0.0


def test_only_the_last_one_can_leave(tmp_path: Path, first: Office):
    Office(str(tmp_path), "second").enter()
    leave(str(tmp_path), "first")
    assert Office(str(tmp_path), "third").enter() > 0


def test_one_that_was_silent_for_long_is_not_waited_for(tmp_path: Path, first: Office):
    long_ago = time.time() - 2 * GONE
    os.utime(tmp_path / NAME, (long_ago, long_ago))
    assert Office(str(tmp_path), "second").enter() == 0.0


def test_without_the_store_nobody_can_be_sure(tmp_path: Path, first: Office):
    (tmp_path / NAME).rename(tmp_path / "away")
    with pytest.raises(OSError, match=NAME):
        first.is_ours()
