"""A gang from the queue through the barrier."""

import pytest
from cast import CHIEF, ELASTIC, PS, finish, workers

from dromon.lifecycle import states
from dromon.lifecycle.events import Launch, OpenBarrier, Placed, Release, StopMember

# ---- preparing and queueing ---------------------------------------------------------------------


def test_prepared_job_is_queued(play):
    from dromon.lifecycle.events import Prepared

    p = play(prepared=False)
    assert p.gang.state == states.PREPARING
    assert p.hear(Prepared()) == []
    assert p.gang.state == states.QUEUED
    assert p.gang.attempt == 0


def test_failed_preparation_is_the_verdict(play):
    from dromon.lifecycle.events import PrepareFailed

    p = play(prepared=False)
    end = finish(p.hear(PrepareFailed("environment", "no version of torch==99")))
    assert end.state == states.FAILED
    assert end.verdict.cause == "environment"
    assert end.verdict.message == "no version of torch==99"
    assert p.gang.verdict == end.verdict


@pytest.mark.parametrize("prepared", [True, False])
def test_stop_before_a_placement_ends_the_job_at_once(play, prepared):
    p = play(prepared=prepared)
    end = finish(p.stop(by="alice"))
    assert (end.state, end.verdict.message) == (
        states.STOPPED,
        "stopped by alice before it started",
    )
    assert p.gang.ended == p.now


def test_job_pending_too_long_is_aborted(play):
    p = play(policies={"pending:10m": "abort_job"})
    p.after(0)
    assert p.wakes_in() == 600
    assert p.after(599) == []
    end = finish(p.after(1))
    assert (end.state, end.verdict.message) == (states.FAILED, "still queued after 10m")


def test_pending_counts_anew_after_a_preemption(play):
    p = play(policies={"pending:10m": "abort_job"})
    p.after(500)
    p.running()
    p.preempt()
    p.exits("worker-0", "worker-1")
    assert p.gang.state == states.QUEUED
    assert p.after(599) == []
    assert finish(p.after(2)).state == states.FAILED


def test_pending_may_complete_the_job(play):
    p = play(policies={"pending:1m": "complete_job"})
    p.after(0)
    assert finish(p.after(60)).state == states.SUCCEEDED


# ---- the barrier --------------------------------------------------------------------------------


def test_placement_launches_every_member(play):
    p = play()
    assert p.placed() == [Launch("worker-0", 1, 1), Launch("worker-1", 1, 1)]
    assert p.gang.state == states.STARTING
    assert p.gang.attempt == 1


def test_barrier_opens_when_all_are_there_with_ranks_in_role_order(play):
    p = play(CHIEF, workers(2), PS)
    p.placed()
    assert p.ready("ps-0", "worker-1", "chief-0") == []
    (opened,) = p.ready("worker-0")
    assert opened == OpenBarrier(
        attempt=1,
        world=(
            ("chief-0", 0, "host-of-chief-0", (7001,)),
            ("worker-0", 1, "host-of-worker-0", (7001,)),
            ("worker-1", 2, "host-of-worker-1", (7001,)),
            ("ps-0", 3, "host-of-ps-0", (7001,)),
        ),
        deliver_to=("chief-0", "worker-0", "worker-1", "ps-0"),
    )
    assert p.gang.state == states.RUNNING
    assert p.gang.started == p.now


def test_tenth_worker_ranks_after_the_ninth(play):
    p = play(workers(11))
    p.placed()
    (opened,) = p.ready()
    assert [seat[0] for seat in opened.world] == [f"worker-{i}" for i in range(11)]


def test_barrier_opens_with_min_after_gang_wait(play):
    p = play(ELASTIC, gang_wait=60)
    p.placed()
    p.ready("worker-3", "worker-1")
    assert p.wakes_in() == 60
    assert p.after(59) == []
    (opened,) = p.after(1)
    assert [seat[:2] for seat in opened.world] == [("worker-1", 0), ("worker-3", 1)]


def test_barrier_stays_shut_below_min_however_long(play):
    p = play(ELASTIC, gang_wait=60)
    p.placed()
    p.ready("worker-0")
    assert p.after(300) == []
    (opened,) = p.ready("worker-1")  # the wait is long over: open at once
    assert opened.deliver_to == ("worker-0", "worker-1")


def test_min_holds_for_each_role(play):
    p = play(ELASTIC, PS, gang_wait=10)
    p.placed()
    p.ready("worker-0", "worker-1", "worker-2")
    assert p.after(20) == []
    assert [seat[0] for seat in p.ready("ps-0")[0].world][-1] == "ps-0"


def test_fewer_placed_than_asked_wait_for_more_and_get_them(play):
    p = play(ELASTIC, gang_wait=60)
    p.placed("worker-0", "worker-1")
    assert p.ready() == []
    assert p.placed("worker-2", "worker-3") == [Launch("worker-2", 1, 1), Launch("worker-3", 1, 1)]
    (opened,) = p.ready("worker-2", "worker-3")
    assert len(opened.world) == 4


def test_placement_below_min_is_no_placement(play):
    p = play(ELASTIC)
    assert p.placed("worker-0") == []
    assert p.gang.state == states.QUEUED


def test_late_member_waits_for_the_next_attempt(play):
    p = play(ELASTIC, gang_wait=1, max_retries=1, backoff=5)
    p.placed()
    p.ready("worker-0", "worker-1")
    p.after(1)
    assert p.ready("worker-3") == []
    assert p.state_of("worker-3") == states.READY
    assert p.gang.members["worker-3"].rank is None
    p.exits("worker-0", code=1)
    p.exits("worker-1", "worker-2", "worker-3")
    assert len(p.after(5)) == 4
    (opened,) = p.ready()
    assert len(opened.world) == 4


def test_late_member_that_dies_hurts_nobody(play):
    p = play(ELASTIC, gang_wait=1)
    p.placed()
    p.ready("worker-0", "worker-1")
    p.after(1)
    assert p.lost("worker-2") == []
    assert p.exits("worker-3", code=1) == []
    assert p.gang.state == states.RUNNING


def test_late_member_is_stopped_at_the_end(play):
    p = play(ELASTIC, gang_wait=1)
    p.placed("worker-0", "worker-1", "worker-2")
    p.ready("worker-0", "worker-1")
    p.after(1)
    assert p.exits("worker-0", "worker-1") == [StopMember("worker-2", 1, 30.0, "complete")]
    assert finish(p.lost("worker-2")).state == states.SUCCEEDED


def test_member_that_never_comes_is_given_up_after_ten_waits(play):
    p = play(gang_wait=60)
    p.placed()
    p.ready("worker-0")
    assert p.wakes_in() == 600
    assert p.after(599) == []
    assert p.after(1) == [
        StopMember("worker-1", 1, 30.0, "failure"),
        StopMember("worker-0", 1, 30.0, "failure"),
    ]
    assert p.lost("worker-1") == []
    assert p.exits("worker-0") == [Release()]
    assert p.gang.retries_used == 0


def test_gang_wait_of_zero_still_lets_members_arrive(play):
    p = play(gang_wait=0)
    p.placed()
    assert p.after(1) == []
    assert p.gang.state == states.STARTING


def test_reconnected_member_gets_the_world_again(play):
    p = play()
    p.placed()
    (opened,) = p.ready()
    assert p.ready("worker-1") == [OpenBarrier(1, opened.world, ("worker-1",))]
    p.started("worker-1")
    assert p.ready("worker-1") == []


# ---- stale and senseless events -----------------------------------------------------------------


def test_events_of_strangers_and_old_runs_are_harmless(play):
    p = play(max_retries=1, backoff=0).running()
    p.exits("worker-0", code=1)
    p.exits("worker-1", code=1)
    assert p.gang.attempt == 2
    from dromon.lifecycle.events import MemberExited, MemberReady

    assert p.hear(MemberReady("worker-0", 1, "old", ())) == []
    assert p.exits("worker-0", run=1) == []
    assert p.hear(MemberReady("stranger-7", 1, "x", ())) == []
    assert p.hear(MemberExited("worker-9", 1, {"code": 0})) == []
    assert p.state_of("worker-0") == states.LAUNCHED


def test_second_exit_of_a_run_is_harmless(play):
    p = play().running()
    p.exits("worker-0")
    assert p.exits("worker-0", code=1) == []
    assert finish(p.exits("worker-1")).state == states.SUCCEEDED


def test_nothing_happens_after_the_end(play):
    p = play(workers(1)).running()
    p.exits("worker-0")
    assert p.stop() == []
    assert p.preempt() == []
    assert p.placed() == []
    assert p.after(1e6) == []
    assert p.gang.wake_at is None


def test_ready_after_a_stop_is_told_again_with_the_grace_left(play):
    p = play(stop_grace=30)
    p.placed()
    p.stop()
    p.now += 10
    assert p.ready("worker-0") == [StopMember("worker-0", 1, 20.0, "stop")]


def test_where_nobody_comes_unasked_all_who_were_placed_are_waited_for(play):
    p = play(ELASTIC, gang_wait=5.0)
    p.hear(Placed(("worker-0", "worker-1", "worker-2"), is_all=True))
    p.ready("worker-0", "worker-1")
    assert p.after(5) == []  # enough are there, but one is on its way
    (opened,) = p.ready("worker-2")
    assert len(opened.world) == 3


def test_gang_wait_is_for_those_who_may_still_be_placed(play):
    p = play(ELASTIC, gang_wait=5.0)
    p.hear(Placed(("worker-0", "worker-1"), is_all=True))
    assert p.ready() == []
    assert p.wakes_in() == 5
    (opened,) = p.after(5)
    assert len(opened.world) == 2


def test_members_that_need_nothing_pass_the_barrier_in_one_event(play):
    from dromon.lifecycle.events import MembersReady, from_json

    p = play()
    p.placed()
    [opened] = p.hear(MembersReady(("worker-0", "worker-1"), (1, 1), "here"))
    assert isinstance(opened, OpenBarrier)
    assert opened.world == (("worker-0", 0, "here", ()), ("worker-1", 1, "here", ()))
    assert opened.deliver_to == ("worker-0", "worker-1")
    [again] = p.hear(MembersReady(("worker-1",), (1,), "here"))
    assert again.deliver_to == ("worker-1",)
    event = MembersReady(("worker-0",), (1,), "here")
    assert from_json(event.to_json()) == event


def test_members_that_need_nothing_wait_for_those_that_do(play):
    from dromon.lifecycle.events import MembersReady

    p = play()
    p.placed()
    assert p.hear(MembersReady(("worker-1",), (1,), "here")) == []
    [opened] = p.ready("worker-0")
    assert [seat[2] for seat in opened.world] == ["host-of-worker-0", "here"]
