"""A site's data, changed live and by its file."""

import pytest

from dromon.errors import UsageError
from dromon.site.change import differences, merged, with_queue, without_queue

DATA = {"queues": {"a": {"limit": {"gpus": 4, "cpus": 8}, "weight": 2}}}


def test_one_of_several_amounts_is_set_and_the_others_stay():
    changed = with_queue(DATA, "a", ["limit.gpus=2", "submit={groups: [ml]}", "max_duration=12h"])
    assert changed["queues"]["a"] == {
        "limit": {"gpus": 2, "cpus": 8},
        "weight": 2,
        "submit": {"groups": ["ml"]},
        "max_duration": "12h",
    }
    assert DATA["queues"]["a"]["limit"]["gpus"] == 4


def test_nothing_behind_the_sign_takes_the_key_out():
    assert with_queue(DATA, "a", ["limit.gpus="])["queues"]["a"]["limit"] == {"cpus": 8}
    assert with_queue(DATA, "a", ["limit.gpus=", "limit.cpus="])["queues"]["a"] == {"weight": 2}
    assert with_queue(DATA, "a", ["limit="])["queues"]["a"] == {"weight": 2}


def test_a_queue_comes_and_goes():
    assert with_queue({}, "b", ["weight=3"]) == {"queues": {"b": {"weight": 3}}}
    assert without_queue(DATA, "a") == {"queues": {}}


@pytest.mark.parametrize(
    ("setting", "words", "hint"),
    [
        ("weight", "'weight' sets nothing", "limit.gpus=4"),
        ("=3", "'=3' sets nothing", "limit.gpus=4"),
        ("wieght=3", "queues have no key 'wieght'", "Did you mean weight?"),
        ("weight={", "", ""),
    ],
)
def test_what_makes_no_sense_is_refused(setting, words, hint):
    with pytest.raises(UsageError) as caught:
        with_queue(DATA, "a", [setting])
    assert words in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("before", "live", "after", "found"),
    [
        # Only one side has changed something.
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 3}, {"a": 2, "b": 3}),
        # Both have: the file was edited later.
        ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 3}),
        # One level deeper.
        ({"q": {"a": 1}}, {"q": {"a": 2}}, {"q": {"a": 1, "b": 1}}, {"q": {"a": 2, "b": 1}}),
        # Made live; made in both.
        ({}, {"q": {"a": 1}}, {"r": 1}, {"r": 1, "q": {"a": 1}}),
        ({}, {"q": {"a": 1}}, {"q": {"b": 1}}, {"q": {"b": 1, "a": 1}}),
        # Taken out live, and still out; taken out of the file.
        ({"q": 1, "r": 1}, {"r": 1}, {"q": 1, "r": 2}, {"r": 2}),
        ({"q": {"a": 1}, "r": 1}, {"q": {"a": 2}, "r": 1}, {"r": 1}, {"r": 1}),
    ],
)
def test_of_two_changes_the_later_counts_key_by_key(before, live, after, found):
    assert merged(before, live, after) == found


def test_what_changed_is_told_key_by_key():
    after = with_queue(DATA, "a", ["limit.gpus=2", "weight=", "open=false"])
    assert differences(DATA, after) == [
        "queues.a.limit.gpus: 4 -> 2",
        "queues.a.weight: 2 -> -",
        "queues.a.open: - -> false",
    ]
