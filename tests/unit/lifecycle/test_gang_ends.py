"""How a gang ends: success, failure, stop, out of time."""

from cast import CHIEF, EVALUATOR, PS, THREE, finish, workers

from dromon.lifecycle import states
from dromon.lifecycle.events import Finish, StopMember
from dromon.lifecycle.plan import SERVES, RolePlan
from dromon.lifecycle.verdict import Verdict

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
    assert p.gang.time.at(p.now) == 60
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
    assert p.gang.time.at(p.now) == 0
    assert finish(p.exits("worker-0")).state == states.SUCCEEDED
