"""From spells to who used what."""

import pytest

from dromon.engines.local.journal import Spell
from dromon.engines.local.report import quantile, report

HOUR = 3600.0


def spell(job: str, start: float, hours: float, gpus: float = 1, *, wait: float = 0, **keys):
    given = {"user": "ann", "queue": "a", "priority": 50, **keys}
    amounts = {"gpus": gpus, "cpus": 2.0}
    return Spell(job, start, start + hours * HOUR, start - wait, amounts=amounts, **given)


def made(*spells: Spell, queues=(), start: float = 0.0, end: float = 48 * HOUR):
    return report(spells, {"gpus": 4, "cpus": 8}, queues, start, end)


def test_hours_are_counted_by_user_and_queue_inside_the_window_only():
    found = made(
        spell("x", -HOUR, 2, 2),  # one of its two hours
        spell("y", HOUR, 1, 2, user="bob"),
        spell("z", 3 * HOUR, 2, 1, queue="b"),
        spell("late", 50 * HOUR, 1),
    )
    users = {each["name"]: each for each in found["users"]}
    assert users["ann"]["gpu_hours"] == pytest.approx(4)
    assert users["ann"]["jobs"] == 2
    assert users["ann"]["part"] == pytest.approx(4 / 6)
    assert users["bob"]["gpu_hours"] == pytest.approx(2)
    assert {each["name"]: each["gpu_hours"] for each in found["queues"]} == {"a": 4, "b": 2}


def test_how_busy_it_was_is_a_part_of_what_there_is():
    found = made(spell("x", 0, 24, 4))["utilisation"]
    assert found["average"] == pytest.approx(0.5)
    assert found["line"][0] == pytest.approx(1)
    assert found["line"][-1] == 0


def test_waits_are_those_of_starts_in_that_time():
    found = made(*(spell(f"j{n}", HOUR, 1, wait=n * 100.0) for n in range(10)))["waits"]
    assert (found["starts"], found["median"], found["longest"]) == (10, 500.0, 900.0)
    assert [each["starts"] for each in found["classes"]] == [1, 5, 4, 0, 0, 0]


def test_only_who_waits_is_owed_what_it_lacks():
    queue = {"name": "a", "deserved": {"gpus": 3.0}, "usage": {"gpus": 1.0}, "queued": 1}
    lent = {"name": "b", "deserved": {"gpus": 1.0}, "usage": {"gpus": 3.0}, "queued": 0}
    idle = {"name": "c", "deserved": {"gpus": 1.0}, "usage": {}, "queued": 0}
    found = {each["name"]: each for each in made(queues=[queue, lent, idle])["owed"]}
    assert (found["a"]["owed"], found["a"]["borrowed"]) == (2, 0)
    assert (found["b"]["owed"], found["b"]["borrowed"]) == (0, 2)
    assert found["c"]["owed"] == 0


def test_a_machine_without_gpus_is_reported_in_cores():
    found = report([spell("x", 0, 1, 0)], {"cpus": 8, "gpus": 0}, [], 0.0, HOUR)
    assert found["resource"] == "cpus"
    assert found["users"][0]["part"] == 1
    assert found["utilisation"]["average"] == pytest.approx(0.25)


def test_a_quantile_is_a_value_that_was_there():
    assert quantile([], 0.5) is None
    assert quantile([1.0, 2.0, 30.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 30.0], 0.99) == 30.0
