"""A gang that starts over: retries, policies, losses, preemption."""

import pytest
from cast import CHIEF, ELASTIC, PS, THREE, finish, workers

from dromon.lifecycle import states
from dromon.lifecycle.events import Launch, Release, StopMember
from dromon.lifecycle.plan import SERVES, RolePlan

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


# ---- another size -------------------------------------------------------------------------------


def test_a_gang_that_grows_ends_in_order_and_begins_anew_with_all_of_them(play):
    p = play(ELASTIC, max_retries=0)
    p.placed("worker-0", "worker-1")
    p.ready()
    p.after(60)
    p.started()
    assert p.resize("worker-0", "worker-1", "worker-2") == [
        StopMember("worker-0", 1, 30.0, "resize"), StopMember("worker-1", 1, 30.0, "resize"),
    ]  # fmt: skip
    assert (p.gang.state, p.gang.going, p.gang.leaves) == (states.RESTARTING, set(), False)
    p.exits("worker-0", code=143)
    assert p.exits("worker-1", code=143) == [
        Launch("worker-0", 2, 2), Launch("worker-1", 2, 2), Launch("worker-2", 1, 2),
    ]  # fmt: skip
    # Nobody else is to come, so nobody is waited for.
    (opened,) = p.ready()
    assert [seat[0] for seat in opened.world] == ["worker-0", "worker-1", "worker-2"]
    assert (p.gang.attempt, p.gang.retries_used) == (2, 0)


def test_a_gang_that_gives_members_back_says_who_goes_until_they_have(play):
    p = play(ELASTIC).running()
    p.resize("worker-0", "worker-2")
    assert p.gang.going == {"worker-1", "worker-3"}
    p.exits(*p.all, code=143)
    assert p.gang.going == set()
    assert list(p.gang.members) == ["worker-0", "worker-2"]
    (opened,) = p.ready()
    assert [seat[:2] for seat in opened.world] == [("worker-0", 0), ("worker-2", 1)]


def test_who_comes_while_the_gang_gathers_needs_no_restart(play):
    p = play(ELASTIC)
    p.placed("worker-0", "worker-1")
    p.ready()
    assert p.resize(*p.all) == [Launch("worker-2", 1, 1), Launch("worker-3", 1, 1)]
    (opened,) = p.ready("worker-2", "worker-3")
    assert len(opened.world) == 4


def test_a_size_below_min_or_of_a_gang_that_leaves_is_not_taken_up(play):
    p = play(ELASTIC).running()
    assert p.resize("worker-0") == []
    assert p.gang.state == states.RUNNING
    p.preempt()
    p.resize("worker-0", "worker-1")
    assert p.gang.leaves
    assert isinstance(p.exits(*p.all, code=143)[-1], Release)
