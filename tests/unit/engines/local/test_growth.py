"""When an elastic gang grows: there is room, it has run for a while, and it has just saved."""

from dromon.agent.devices import discover
from dromon.engines.local.deciding import OwnScheduler
from dromon.engines.local.growth import FRESH, PAUSE
from dromon.engines.local.machine import Machine
from dromon.sched import events
from dromon.sched.asks import RoleAsk
from dromon.sched.decisions import Decision, Grow, Shrink, Start
from dromon.sched.rules import Rules

MACHINE = Machine("box", 8.0, 16 << 30, tuple(discover(4)), None)


def gang(id: str, seq: int, least: int, most: int) -> events.JobSubmitted:
    return events.JobSubmitted(id, seq, 0.0, (RoleAsk("worker", most, least, cpus=0, gpus=1),))


def starts(scheduler: OwnScheduler, now: float) -> None:
    for decision in scheduler.decide(now):
        assert isinstance(decision, Start)
        scheduler.apply(events.JobStarted(decision.job, decision.placement, now))


def grown(decisions) -> list[Decision]:
    return [decision for decision in decisions if isinstance(decision, Grow)]


def with_room(**options) -> OwnScheduler:
    """A gang of two has run since 0; since 100 there is room for two more."""
    scheduler = OwnScheduler(MACHINE, **options)
    scheduler.apply(gang("other", 1, 2, 2))
    scheduler.apply(gang("elastic", 2, 1, 4))
    starts(scheduler, 0.0)
    scheduler.apply(events.JobEnded("other", 100.0))
    return scheduler


def test_it_grows_when_it_has_run_for_a_while_and_has_just_saved():
    scheduler = with_room()
    assert not grown(scheduler.decide(100.0))
    assert scheduler.wakes(100.0) == PAUSE
    scheduler.tick()
    assert not grown(scheduler.decide(PAUSE))  # it has saved nothing
    scheduler.apply(events.JobCheckpointed("elastic", PAUSE + 1))
    assert scheduler.is_due
    (decision,) = scheduler.decide(PAUSE + 5)
    assert set(decision.placement) == {"worker-2", "worker-3"}
    scheduler.apply(events.JobGrown("elastic", decision.placement, PAUSE + 5))
    assert not scheduler.decide(PAUSE + 6)


def test_a_checkpoint_of_long_ago_is_not_worth_what_was_done_since():
    scheduler = with_room()
    scheduler.apply(events.JobCheckpointed("elastic", PAUSE))
    assert not grown(scheduler.decide(PAUSE + FRESH + 1))
    scheduler.apply(events.JobCheckpointed("elastic", 2 * PAUSE))
    assert grown(scheduler.decide(2 * PAUSE + 1))


def test_the_sites_min_run_time_is_how_long_it_keeps_its_size():
    scheduler = with_room(rules=Rules(min_run_time=200.0))
    scheduler.apply(events.JobCheckpointed("elastic", 150.0))
    assert not grown(scheduler.decide(151.0))
    assert scheduler.wakes(151.0) == 200.0
    scheduler.tick()
    assert grown(scheduler.decide(200.0))


def test_while_its_members_still_gather_more_of_them_cost_nothing():
    scheduler = with_room(gathers=lambda id: id == "elastic")
    assert grown(scheduler.decide(100.0))


def test_who_gave_members_back_does_not_take_them_again_at_once():
    scheduler = OwnScheduler(MACHINE, Rules(min_run_time=50.0))
    scheduler.apply(gang("elastic", 1, 1, 4))
    starts(scheduler, 0.0)
    scheduler.apply(gang("other", 2, 2, 2))
    (decision,) = scheduler.decide(100.0)
    assert isinstance(decision, Shrink)
    scheduler.apply(events.JobShrinking("elastic", decision.members, 100.0, "other"))
    scheduler.apply(events.JobShrunk("elastic", decision.members, 101.0))
    starts(scheduler, 101.0)
    scheduler.apply(events.JobEnded("other", 102.0))
    scheduler.apply(events.JobCheckpointed("elastic", 103.0))
    assert not grown(scheduler.decide(103.0))
    assert scheduler.wakes(103.0) == 151.0
