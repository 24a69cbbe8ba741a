"""A gang's way from the queue to its verdict, rule by rule."""

import pytest

from dromon.lifecycle import states
from dromon.lifecycle.events import Finish, Launch, OpenBarrier, Release, StopMember
from dromon.lifecycle.plan import FOLLOWS, SERVES, RolePlan
from dromon.lifecycle.verdict import Verdict

PS = RolePlan("ps", 1, 1, ending=SERVES)
CHIEF = RolePlan("chief", 1, 1)
EVALUATOR = RolePlan("evaluator", 1, 1, ending=FOLLOWS)
THREE = RolePlan("worker", 3, 3)
ELASTIC = RolePlan("worker", 4, 2)


def workers(n, **settings):
    return RolePlan("worker", n, n, **settings)


def finish(commands):
    """The one Finish among these, which must be the last."""
    assert isinstance(commands[-1], Finish)
    return commands[-1]


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


# ---- success ------------------------------------------------------------------------------------


def test_job_succeeds_when_all_members_have(play):
    p = play().running()
    assert p.exits("worker-0") == []
    end = finish(p.exits("worker-1"))
    assert end == Finish(states.SUCCEEDED, Verdict("success", "all 2 members succeeded", attempt=1))


def test_exit_without_word_of_a_start_is_a_success_too(play):
    p = play(workers(1))
    p.placed()
    p.ready()
    assert finish(p.exits("worker-0")).verdict.message == "succeeded"


def test_end_of_the_required_stops_those_that_serve(play):
    p = play(workers(2), PS).running()
    p.exits("worker-0")
    assert p.exits("worker-1") == [StopMember("ps-0", 1, 30.0, "complete")]
    assert p.gang.state == states.STOPPING
    end = finish(p.exits("ps-0", code=143))
    assert end.verdict.message == "all 2 required members succeeded"


def test_follower_may_end_by_itself(play):
    p = play(CHIEF, EVALUATOR, linger=10).running()
    assert p.exits("chief-0") == []
    assert p.wakes_in() == 10
    assert finish(p.exits("evaluator-0")).state == states.SUCCEEDED


def test_follower_is_stopped_after_lingering(play):
    p = play(CHIEF, EVALUATOR, linger=10).running()
    p.exits("chief-0")
    assert p.after(10) == [StopMember("evaluator-0", 1, 30.0, "complete")]
    assert finish(p.exits("evaluator-0", code=1)).state == states.SUCCEEDED


def test_follower_that_fails_first_is_a_failure(play):
    p = play(CHIEF, EVALUATOR).running()
    p.exits("evaluator-0", code=1)
    end = finish(p.exits("chief-0", code=143))
    assert (end.state, end.verdict.member) == (states.FAILED, "evaluator-0")


def test_follower_that_fails_while_lingering_is_not(play):
    p = play(CHIEF, EVALUATOR).running()
    p.exits("chief-0")
    assert finish(p.exits("evaluator-0", code=1)).state == states.SUCCEEDED


def test_job_of_servers_alone_waits_for_all(play):
    p = play(RolePlan("api", 2, 2, ending=SERVES)).running()
    assert p.exits("api-0") == []
    assert finish(p.exits("api-1")).state == states.SUCCEEDED


# ---- failure ------------------------------------------------------------------------------------


def test_first_failure_fails_the_job_and_stops_the_others(play):
    p = play(THREE).running()
    assert p.exits("worker-1", code=3, message="ValueError: bad shape", last_lines=("boom",)) == [
        StopMember("worker-0", 1, 30.0, "failure"),
        StopMember("worker-2", 1, 30.0, "failure"),
    ]
    p.exits("worker-0", code=1)
    end = finish(p.exits("worker-2", code=None, signal=9))
    assert end.state == states.FAILED
    assert end.verdict == Verdict(
        cause="user_error",
        message="worker-1 (rank 1) failed with exit code 3: ValueError: bad shape",
        member="worker-1",
        rank=1,
        attempt=1,
        code=3,
        last_lines=("boom",),
    )


def test_blame_goes_to_who_ended_first_not_to_who_was_heard_first(play):
    p = play().running()
    p.exits("worker-1", code=1, message="connection reset", ended=20.5)
    end = finish(p.exits("worker-0", code=None, signal=9, cause="out_of_memory", ended=20.1))
    assert end.verdict.member == "worker-0"
    assert end.verdict.cause == "out_of_memory"


def test_killed_on_request_is_not_blamed_whatever_its_clock_says(play):
    p = play().running()
    p.exits("worker-1", code=1, ended=20.5)
    end = finish(p.exits("worker-0", code=None, signal=15, ended=20.1, stopped=True))
    assert end.verdict.member == "worker-1"


def test_out_of_memory_is_said_in_words(play):
    p = play(workers(1)).running()
    facts = {"signal": 9, "cause": "out_of_memory", "message": "out of memory (limit 2.0 GiB)"}
    verdict = finish(p.exits("worker-0", code=None, **facts)).verdict
    assert verdict.message == "worker-0 was killed by SIGKILL: out of memory (limit 2.0 GiB)"
    assert verdict.exit_code == 137
    assert "resources.memory" in verdict.hint


def test_exit_with_zero_before_the_barrier_is_a_failure(play):
    p = play()
    p.placed()
    p.ready("worker-0")
    p.exits("worker-0", code=0)
    end = finish(p.exits("worker-1"))
    assert end.verdict.message == "worker-0 ended before the gang was complete"


def test_member_that_could_not_start_fails_the_job(play):
    p = play(workers(1))
    p.placed()
    exit = {"cause": "user_error", "message": "train.py: no such file"}
    verdict = finish(p.exits("worker-0", code=None, **exit)).verdict
    assert verdict.message == "worker-0 could not start: train.py: no such file"


# ---- retries ------------------------------------------------------------------------------------


def test_failure_restarts_the_whole_gang_in_place_after_the_backoff(play):
    p = play(max_retries=2, backoff=10).running()
    assert p.exits("worker-1", code=1) == [StopMember("worker-0", 1, 30.0, "failure")]
    assert p.gang.state == states.RESTARTING
    assert p.exits("worker-0", code=143) == []
    assert p.wakes_in() == 10
    assert p.gang.retry_at == p.now + 10
    assert p.after(10) == [Launch("worker-0", 2, 2), Launch("worker-1", 2, 2)]
    assert (p.gang.state, p.gang.attempt, p.gang.retries_used) == (states.STARTING, 2, 1)
    (opened,) = p.ready()
    assert opened.attempt == 2
    assert opened.world[0][3] == (7002,)


def test_backoff_doubles_and_retries_run_out(play):
    p = play(workers(1), max_retries=3, backoff=10)
    waits = []
    p.running()
    while not p.gang.is_terminal:
        p.exits("worker-0", code=1)
        if p.gang.state == states.RESTARTING:
            waits.append(p.wakes_in())
            p.after(waits[-1])
            p.ready()
            p.started()
    assert waits == [10, 20, 40]
    assert p.gang.verdict.message == "worker-0 failed with exit code 1, after 3 retries"
    assert p.gang.attempt == 4


def test_backoff_is_at_most_an_hour(play):
    p = play(workers(1), max_retries=5, backoff=2000).running()
    p.exits("worker-0", code=1)
    p.after(2000)
    p.ready()
    p.exits("worker-0", code=1)
    assert p.wakes_in() == 3600


def test_success_after_a_retry_says_so(play):
    p = play(workers(1), max_retries=1, backoff=0).running()
    p.exits("worker-0", code=1)
    p.ready()
    assert finish(p.exits("worker-0")).verdict.message == "succeeded, after 1 retry"


def test_member_that_is_slow_to_end_delays_the_restart_beyond_the_backoff(play):
    p = play(max_retries=1, backoff=1).running()
    p.exits("worker-0", code=1)
    assert p.after(25) == []
    assert p.wakes_in() is None
    assert p.exits("worker-1") == [Launch("worker-0", 2, 2), Launch("worker-1", 2, 2)]


def test_restart_member_keeps_world_ranks_and_attempt(play):
    p = play(THREE, policies={"member_failed": "restart_member"}, max_retries=1, backoff=5)
    p.running()
    assert p.exits("worker-1", code=1) == []
    assert p.state_of("worker-0") == states.UP
    assert p.after(5) == [Launch("worker-1", 2, 1)]
    (opened,) = p.ready("worker-1")
    assert opened.deliver_to == ("worker-1",)
    assert [seat[1:] for seat in opened.world] == [
        (0, "host-of-worker-0", (7001,)),
        (1, "host-of-worker-1", (7002,)),
        (2, "host-of-worker-2", (7001,)),
    ]
    assert p.gang.state == states.RUNNING
    assert p.gang.members["worker-1"].rank == 1
    assert finish(p.exits("worker-0", "worker-1", "worker-2")).state == states.SUCCEEDED


def test_restart_role_restarts_only_that_role(play):
    policies = {"member_failed": "restart_role"}
    p = play(CHIEF, workers(2), policies=policies, max_retries=1, backoff=0).running()
    assert p.exits("worker-0", code=1) == [StopMember("worker-1", 1, 30.0, "failure")]
    assert p.exits("worker-1", code=143) == [Launch("worker-0", 2, 1), Launch("worker-1", 2, 1)]
    assert p.ready("worker-0") == []
    assert p.ready("worker-1")[0].deliver_to == ("worker-0", "worker-1")


def test_role_restart_repeats_members_that_had_succeeded(play):
    policies = {"member_failed": "restart_role"}
    p = play(policies=policies, max_retries=1, backoff=0).running()
    p.exits("worker-0")
    assert p.exits("worker-1", code=1) == [Launch("worker-0", 2, 1), Launch("worker-1", 2, 1)]


def test_two_members_restart_at_once(play):
    policies = {"member_failed": "restart_member"}
    p = play(THREE, policies=policies, max_retries=2, backoff=10).running()
    p.exits("worker-0", code=1)
    p.now += 4
    p.exits("worker-2", code=1)
    assert p.wakes_in() == 20
    assert p.after(20) == [Launch("worker-0", 2, 1), Launch("worker-2", 2, 1)]


def test_failure_while_another_joins_waits_for_both(play):
    policies = {"member_failed": "restart_member"}
    p = play(THREE, policies=policies, max_retries=2, backoff=0).running()
    p.exits("worker-0", code=1)
    p.exits("worker-2", code=1)
    assert p.gang.state == states.STARTING
    assert p.ready("worker-0") == []
    assert p.ready("worker-2")[0].deliver_to == ("worker-0", "worker-2")


def test_member_restart_before_the_barrier_keeps_the_others_waiting(play):
    p = play(policies={"member_failed": "restart_member"}, max_retries=1, backoff=0)
    p.placed()
    p.ready("worker-0")
    assert p.exits("worker-1", code=1) == [Launch("worker-1", 2, 1)]
    assert p.ready("worker-1")[0].deliver_to == ("worker-0", "worker-1")


def test_end_of_the_required_ends_a_server_that_was_restarting(play):
    p = play(workers(1), PS, policies={"member_failed": "restart_member"}, max_retries=1).running()
    p.exits("ps-0", code=1)
    assert p.gang.state == states.RESTARTING
    assert finish(p.exits("worker-0")).state == states.SUCCEEDED


# ---- policies -----------------------------------------------------------------------------------


def test_exit_code_beats_member_failed(play):
    policies = {"exit_code:3": "abort_job", "member_failed": "restart_job"}
    p = play(workers(1), policies=policies, max_retries=9).running()
    assert finish(p.exits("worker-0", code=3)).state == states.FAILED


def test_exit_code_counts_signals_as_a_shell_does(play):
    p = play(workers(1), policies={"exit_code:137": "complete_job"}).running()
    assert finish(p.exits("worker-0", code=None, signal=9)).state == states.SUCCEEDED


def test_role_policy_beats_the_jobs(play):
    roles = (workers(1), RolePlan("ps", 1, 1, SERVES, policies={"member_failed": "ignore"}))
    p = play(*roles, policies={"exit_code:1": "abort_job"}).running()
    assert p.exits("ps-0", code=1) == []
    assert finish(p.exits("worker-0")).state == states.SUCCEEDED


def test_complete_job_stops_the_rest_and_succeeds(play):
    p = play(policies={"exit_code:0": "complete_job"}).running()
    assert p.exits("worker-1") == [StopMember("worker-0", 1, 30.0, "complete")]
    end = finish(p.exits("worker-0", code=1))
    assert end.state == states.SUCCEEDED
    assert end.verdict.message == "complete by policy: worker-1 (rank 1) succeeded"


def test_role_completed_may_complete_the_job(play):
    p = play(workers(2), CHIEF, policies={"role_completed": "complete_job"}).running()
    assert p.exits("worker-0") == []
    assert p.exits("worker-1") == [StopMember("chief-0", 1, 30.0, "complete")]
    assert p.exits("chief-0")[-1].verdict.message == "complete by policy: role worker completed"


def test_role_completed_may_abort_the_job(play):
    p = play(RolePlan("proxy", 1, 1, policies={"role_completed": "abort_job"}), CHIEF).running()
    p.exits("proxy-0")
    end = finish(p.exits("chief-0"))
    assert end.state == states.FAILED
    assert (
        end.verdict.message == "role proxy completed, which role_completed answers with abort_job"
    )


def test_ignored_failure_leaves_the_job_to_the_others(play):
    p = play(THREE, policies={"member_failed": "ignore"}).running()
    assert p.exits("worker-1", code=1) == []
    end = finish(p.exits("worker-0", "worker-2"))
    assert end.state == states.SUCCEEDED
    assert end.verdict.message == "2 of 3 members succeeded, the policy ignores the others"


def test_job_whose_every_member_failed_has_failed_even_if_ignored(play):
    p = play(policies={"member_failed": "ignore"}).running()
    end = finish(p.exits("worker-0", "worker-1", code=1))
    assert (end.state, end.verdict.member) == (states.FAILED, "worker-0")


def test_failure_before_the_barrier_cannot_be_ignored_below_min(play):
    p = play(policies={"member_failed": "ignore"})
    p.placed()
    p.exits("worker-0", code=1)
    assert finish(p.lost("worker-1")).state == states.FAILED


def test_failure_before_the_barrier_may_be_ignored_above_min(play):
    p = play(ELASTIC, policies={"member_failed": "ignore"}, gang_wait=60)
    p.placed()
    p.exits("worker-0", code=1)
    p.ready("worker-1", "worker-2", "worker-3")
    (opened,) = p.after(60)
    assert [seat[0] for seat in opened.world] == ["worker-1", "worker-2", "worker-3"]


def test_success_may_start_a_member_over_while_retries_last(play):
    p = play(workers(1), policies={"exit_code:0": "restart_member"}, max_retries=1, backoff=0)
    p.running()
    assert p.exits("worker-0") == [Launch("worker-0", 2, 1)]
    p.ready()
    assert finish(p.exits("worker-0")).state == states.SUCCEEDED


# ---- lost, evicted, preempted -------------------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "evicted"])
def test_lost_member_restarts_the_whole_gang_elsewhere_without_a_retry(play, how):
    p = play(max_retries=0).running()
    assert getattr(p, how)("worker-1") == [StopMember("worker-0", 1, 30.0, "failure")]
    assert p.exits("worker-0", code=143) == [Release()]
    assert (p.gang.state, p.gang.retries_used) == (states.QUEUED, 0)
    assert p.placed() == [Launch("worker-0", 2, 2), Launch("worker-1", 2, 2)]


def test_loss_before_ready_is_a_loss(play):
    p = play()
    p.placed()
    p.lost("worker-1")
    assert p.exits("worker-0") == [Release()]


def test_exit_whose_cause_is_a_loss_uses_no_retry(play):
    p = play(workers(1)).running()
    assert p.exits("worker-0", code=143, cause="evicted") == [Release()]


def test_member_told_to_stop_from_outside_has_not_succeeded_though_it_exits_with_zero(play):
    p = play(max_retries=0).running()
    assert p.exits("worker-1", stopped=True) == [StopMember("worker-0", 1, 30.0, "failure")]
    assert p.exits("worker-0", stopped=True) == [Release()]
    assert (p.gang.state, p.gang.retries_used) == (states.QUEUED, 0)


def test_member_told_to_stop_by_the_gang_has_ended_as_it_was_meant_to(play):
    p = play(CHIEF, PS).running()
    p.exits("chief-0")
    assert finish(p.exits("ps-0", stopped=True)).state == states.SUCCEEDED


@pytest.mark.parametrize(
    ("cause", "message", "words"),
    [
        ("success", "", "was evicted: it was told to stop from outside"),
        ("lost", "nothing was heard", "was lost: nothing was heard"),
    ],
)
def test_exit_with_zero_of_a_member_taken_away_is_told_as_that(play, cause, message, words):
    abort = {"member_evicted": "abort_job", "member_lost": "abort_job"}
    p = play(workers(1), policies=abort).running()
    verdict = finish(p.exits("worker-0", cause=cause, message=message, stopped=True)).verdict
    assert verdict.message == f"worker-0 {words}"
    assert verdict.cause == ("lost" if cause == "lost" else "evicted")
    assert verdict.exit_code == 1


def test_loss_may_abort_the_job(play):
    p = play(policies={"member_lost": "abort_job"}).running()
    p.lost("worker-1", "node n7 does not answer")
    verdict = finish(p.exits("worker-0")).verdict
    assert verdict.cause == "lost"
    assert verdict.message == "worker-1 (rank 1) was lost: node n7 does not answer"


def test_lost_member_may_be_restarted_alone(play):
    p = play(policies={"member_lost": "restart_member"}).running()
    assert p.lost("worker-1") == [Launch("worker-1", 2, 1)]
    assert p.ready("worker-1")[0].deliver_to == ("worker-1",)


def test_quick_losses_in_a_row_are_paced_and_never_end_the_job(play):
    p = play(workers(1), backoff=10)
    waits = []
    for _ in range(4):
        if p.gang.state == states.QUEUED:
            p.placed()
        p.lost("worker-0")
        waits.append(p.wakes_in() or 0.0)
        p.after(waits[-1])
    assert waits == [0, 10, 20, 40]
    assert p.gang.state == states.QUEUED


def test_loss_after_a_long_run_is_not_paced(play):
    p = play(workers(1), backoff=10)
    for _ in range(3):
        p.running()
        p.now += 3600
        assert p.lost("worker-0") == [Release()]


def test_retry_moves_when_a_place_was_lost_meanwhile(play):
    p = play(policies={"member_lost": "ignore"}, max_retries=1, backoff=0).running()
    p.lost("worker-1")
    assert p.exits("worker-0", code=1) == [Release()]
    assert p.gang.retries_used == 1


def test_preemption_stops_releases_and_uses_no_retry(play):
    p = play(stop_grace=120).running()
    assert p.preempt(grace=20) == [
        StopMember("worker-0", 1, 20.0, "preempt"),
        StopMember("worker-1", 1, 20.0, "preempt"),
    ]
    assert p.exits("worker-0") == []
    assert p.exits("worker-1", code=1) == [Release()]
    assert (p.gang.state, p.gang.retries_used) == (states.QUEUED, 0)


def test_preemption_never_gives_more_grace_than_the_job_asked(play):
    p = play(workers(1), stop_grace=5).running()
    assert p.preempt(grace=100) == [StopMember("worker-0", 1, 5.0, "preempt")]


def test_preemption_during_a_backoff_releases_at_once(play):
    p = play(workers(1), max_retries=1, backoff=600).running()
    p.exits("worker-0", code=1)
    assert p.preempt() == [Release()]


def test_preemption_of_a_partial_restart_takes_everybody(play):
    p = play(policies={"member_failed": "restart_member"}, max_retries=1).running()
    p.exits("worker-0", code=1)
    assert p.preempt() == [StopMember("worker-1", 1, 30.0, "preempt")]
    assert p.exits("worker-1") == [Release()]


def test_preemption_of_a_queued_job_means_nothing(play):
    p = play()
    assert p.preempt() == []
    assert p.gang.state == states.QUEUED


# ---- stop ---------------------------------------------------------------------------------------


def test_stop_asks_all_and_ends_when_they_have_ended(play):
    p = play(stop_grace=7).running()
    assert p.stop(by="alice") == [
        StopMember("worker-0", 1, 7.0, "stop"),
        StopMember("worker-1", 1, 7.0, "stop"),
    ]
    assert p.gang.state == states.STOPPING
    p.exits("worker-0", code=0)
    end = finish(p.exits("worker-1", code=9))
    assert (end.state, end.verdict.cause) == (states.STOPPED, "stopped")
    assert end.verdict.message == "stopped by alice"


def test_second_stop_may_only_hurry(play):
    p = play(workers(1)).running()
    p.stop(grace=100)
    assert p.stop(grace=200) == []
    assert p.stop(grace=5) == [StopMember("worker-0", 1, 5.0, "stop")]


def test_stop_reaches_a_run_whose_forerunner_was_stopped(play):
    p = play(max_retries=1, backoff=0, stop_grace=1).running()
    p.exits("worker-0", code=1)
    p.exits("worker-1")
    p.ready()
    assert [c.member for c in p.stop()] == ["worker-0", "worker-1"]


def test_stop_during_a_backoff_ends_at_once(play):
    p = play(workers(1), max_retries=1).running()
    p.exits("worker-0", code=1)
    assert finish(p.stop()).state == states.STOPPED


def test_stop_before_the_barrier(play):
    p = play()
    p.placed()
    assert len(p.stop()) == 2
    p.lost("worker-0")
    assert finish(p.exits("worker-1")).state == states.STOPPED


def test_stop_after_the_required_succeeded_does_not_undo_it(play):
    p = play(CHIEF, EVALUATOR, linger=60).running()
    p.exits("chief-0")
    assert p.stop(grace=3) == [StopMember("evaluator-0", 1, 3.0, "stop")]
    assert finish(p.exits("evaluator-0", code=143)).state == states.SUCCEEDED


def test_stop_while_failing_members_end_keeps_the_failure(play):
    p = play().running()
    p.exits("worker-0", code=1)
    p.stop()
    assert finish(p.exits("worker-1")).state == states.FAILED


# ---- max_duration -------------------------------------------------------------------------------


def test_job_over_its_max_duration_fails(play):
    p = play(workers(1), max_duration=7200).running()
    assert p.wakes_in() == 7200
    assert p.after(7200) == [StopMember("worker-0", 1, 30.0, "timeout")]
    end = finish(p.exits("worker-0"))
    assert (end.state, end.verdict.cause) == (states.FAILED, "timeout")
    assert end.verdict.message == "over its max_duration of 2h00m"


def test_max_duration_counts_running_over_all_attempts_but_no_waiting(play):
    p = play(workers(1), max_duration=100, max_retries=1, backoff=50)
    p.now += 500  # in the queue
    p.running()
    p.now += 60
    p.exits("worker-0", code=1)
    p.after(50)  # back-off
    p.after(30)  # waiting at the barrier
    p.ready()
    assert p.gang.running_time(p.now) == 60
    assert p.wakes_in() == 40
    assert p.after(39) == []
    assert p.after(1) == [StopMember("worker-0", 2, 30.0, "timeout")]


def test_success_heard_of_after_the_deadline_stands(play):
    p = play(max_duration=100).running()
    p.now += 5000  # nobody was there to hear
    p.exits("worker-0")
    assert finish(p.exits("worker-1")).state == states.SUCCEEDED


def test_clock_that_goes_back_breaks_nothing(play):
    p = play(workers(1), max_duration=100).running()
    p.now -= 10_000
    assert p.after(0) == []
    assert p.gang.running_time(p.now) == 0
    assert finish(p.exits("worker-0")).state == states.SUCCEEDED
