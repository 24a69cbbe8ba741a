"""The scheduler in this process: events in, decisions and answers out."""

import pytest

from dromon.agent.devices import discover
from dromon.engines.local.deciding import OwnScheduler
from dromon.engines.local.machine import Machine
from dromon.errors import Refused
from dromon.sched import events
from dromon.sched.asks import RoleAsk
from dromon.sched.decisions import Preempt, Start
from dromon.sched.rules import QueueRule, Reservation, Rules

MACHINE = Machine("box", 4.0, 16 << 30, tuple(discover(4)), None)


def job(id: str, seq: int, gpus: int = 1, queue: str = "a", **keys) -> events.JobSubmitted:
    ask = (RoleAsk("worker", 1, 1, gpus=gpus),)
    return events.JobSubmitted(id, seq, 0.0, ask, user="ann", queue=queue, **keys)


def run(scheduler: OwnScheduler, now: float) -> list[str]:
    """Carry out what is decided; who was started."""
    started = []
    while scheduler.is_due:
        for decision in scheduler.decide(now):
            assert isinstance(decision, Start)
            scheduler.apply(events.JobStarted(decision.job, decision.placement, now))
            started.append(decision.job)
    return started


def test_what_follows_from_a_decision_asks_for_no_other():
    scheduler = OwnScheduler(MACHINE)
    scheduler.apply(job("x", 1))
    assert run(scheduler, 1.0) == ["x"]
    assert not scheduler.is_due
    scheduler.apply(events.JobCheckpointed("x", 2.0))
    assert not scheduler.is_due
    scheduler.apply(events.JobEnded("x", 3.0))
    assert scheduler.is_due


def test_time_alone_wakes_it():
    reserved = Reservation("r", 10.0, 20.0, 4, user="bob")
    scheduler = OwnScheduler(MACHINE, Rules(reservations=(reserved,)))
    scheduler.apply(job("x", 1))
    assert run(scheduler, 5.0) == []
    assert scheduler.wakes(5.0) == 10.0
    assert scheduler.wakes(10.0) == 20.0
    scheduler.tick()
    assert run(scheduler, 20.0) == ["x"]


def test_what_can_never_start_is_refused_with_the_queue_that_would_take_it():
    rules = Rules(queues=(QueueRule("a", limit={"gpus": 2.0}), QueueRule("b")))
    scheduler = OwnScheduler(MACHINE, rules)
    scheduler.admit(job("x", 1, 2), 0.0)
    with pytest.raises(Refused, match="2 GPUs") as caught:
        scheduler.admit(job("y", 2, 3), 0.0)
    assert caught.value.hint == "Queue b would take it."
    with pytest.raises(Refused) as caught:
        scheduler.admit(job("z", 3, 5, "b"), 0.0)
    assert "dromon" in caught.value.hint
    assert not scheduler.knows("x")


def test_asking_who_would_go_sends_nobody_away():
    scheduler = OwnScheduler(MACHINE, Rules(min_run_time=60.0))
    scheduler.apply(job("low", 1, 4, preemptible=True))
    assert run(scheduler, 0.0) == ["low"]
    scheduler.apply(events.JobCheckpointed("low", 70.0))
    scheduler.apply(job("high", 2, 2, priority=9))
    (victim,) = scheduler.would_preempt("high", 100.0)
    assert (victim["job"], victim["user"], victim["whole"]) == ("low", "ann", True)
    assert victim["lost"] == 4 * 30.0
    assert scheduler.decide(100.0) == (Preempt("low", "high"),)


def test_queues_are_told_with_what_they_have_and_who_has_it():
    rules = Rules(queues=(QueueRule("a", weight=3.0), QueueRule("b", limit={"gpus": 1.0})))
    scheduler = OwnScheduler(MACHINE, rules)
    scheduler.apply(job("x", 1, 2))
    run(scheduler, 0.0)
    scheduler.apply(job("y", 2, 4))
    root, a, b = scheduler.queues(1.0)
    assert (root["name"], root["total"]["gpus"], root["usage"]["gpus"]) == ("root", 4, 2)
    assert (a["deserved"]["gpus"], a["usage"]["gpus"], a["running"], a["queued"]) == (3, 2, 1, 1)
    assert [(user["name"], user["usage"]["gpus"]) for user in a["users"]] == [("ann", 2)]
    assert (b["parent"], b["limit"], b["users"]) == ("root", {"gpus": 1.0}, [])


def test_without_rules_there_is_the_one_queue():
    assert [view["name"] for view in OwnScheduler(MACHINE).queues(0.0)] == ["root", "default"]
