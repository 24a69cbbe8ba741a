"""Real agents and their coordinator, where agents stay between runs."""

import signal
from pathlib import Path

from dromon.lifecycle import events as ev
from dromon.lifecycle import states

SUCCEEDS_SECOND = "exit $((2 - DROMON_RUN))"


def test_agents_without_a_run_are_given_one_and_leave_when_the_job_is_over(place):
    p = place(2)
    for index in range(2):
        p.start(index, "echo $DROMON_ATTEMPT")
    p.happen(ev.Placed(("worker-0", "worker-1")))
    assert p.wait_end() == states.SUCCEEDED
    assert sorted(p.exits()) == [("worker-0", 1), ("worker-1", 1)]
    assert {m["run"] for m in p.heard if m["op"] == "hello"} == {0}


def test_the_next_run_is_in_the_same_agent_and_an_older_exit_said_again_is_not_taken_for_it(place):
    p = place(max_retries=1, backoff=0.0)
    agent = p.start(0, f"sleep 0.3; {SUCCEEDS_SECOND}")
    p.happen(ev.Placed(("worker-0",)))
    p.wait_state("worker-0", states.UP)
    p.is_away = True
    p.cut()
    exit = p.exit("worker-0", 1)  # while nobody hears of it
    p.happen(ev.MemberExited("worker-0", 1, exit.to_json()))
    assert p.gang.members["worker-0"].run == 2
    p.is_away = False
    assert p.wait_end() == states.SUCCEEDED
    assert p.exits() == [("worker-0", 1), ("worker-0", 2)]
    assert [m["run"] for m in p.heard if m["op"] == "exited"] == [1, 2]
    assert p.agents == [agent]


def test_an_agent_that_still_runs_what_is_given_up_ends_it_and_begins_the_next(place):
    p = place(policies={"member_lost": "restart_member"})
    p.start(0, "test $DROMON_RUN = 2 || sleep 60")
    p.happen(ev.Placed(("worker-0",)))
    p.wait_state("worker-0", states.UP)
    p.happen(ev.MemberLost("worker-0", 1, "the node did not answer"))
    assert p.wait_end() == states.SUCCEEDED
    assert p.exit("worker-0", 1).stopped
    assert p.exits() == [("worker-0", 2)]


def test_an_agent_whose_place_is_taken_away_does_not_begin_again_and_the_next_one_does(place):
    p = place(policies={"member_evicted": "restart_member"}, backoff=0.0)
    saves = "trap 'exit 0' TERM; touch up; for i in $(seq 600); do sleep 0.1; done"
    script = f"test $DROMON_RUN = 2 || {{ {saves}; }}"
    first = p.start(0, script)
    p.happen(ev.Placed(("worker-0",)))
    p.until(Path(p.record.path("up")).exists, "the member")
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0
    assert p.exit("worker-0", 1).code == 0
    p.wait_state("worker-0", states.LAUNCHED)
    assert not Path(p.record.run("worker-0", 2)).exists()
    p.start(0, script)
    assert p.wait_end() == states.SUCCEEDED
    assert p.exits() == [("worker-0", 1), ("worker-0", 2)]


def test_an_agent_cut_off_between_two_runs_stays_for_the_next(place):
    p = place(max_retries=1, backoff=1.0)
    p.start(0, SUCCEEDS_SECOND)
    p.happen(ev.Placed(("worker-0",)))
    p.wait_state("worker-0", states.BROKEN)
    p.cut()
    assert p.wait_end() == states.SUCCEEDED
    assert p.exits() == [("worker-0", 1), ("worker-0", 2)]


def test_a_stop_owed_to_a_run_that_never_began_ends_it(place):
    p = place()
    p.happen(ev.Placed(("worker-0",)))
    p.happen(ev.StopRequested("ann"))
    p.start(0, "sleep 60")
    assert p.wait_end() == states.STOPPED
    assert p.exit("worker-0", 1).message == "ended before it started"


# ---- leases -------------------------------------------------------------------------------------


def said_alive(heard):
    return sum(message["op"] == "alive" for message in heard)


def test_a_coordinator_that_answers_keeps_a_lease_at_the_barrier_and_at_work(place):
    p = place(2)
    p.start(0, "sleep 2", lease=1.5)
    p.happen(ev.Placed(("worker-0", "worker-1")))
    p.wait_state("worker-0", states.READY)
    before = len(p.heard)
    p.until(lambda: said_alive(p.heard[before:]) > 3, "more time than its lease")
    assert p.gang.members["worker-0"].state == states.READY
    p.start(1, "sleep 2", lease=1.5)
    assert p.wait_end() == states.SUCCEEDED
    assert [p.exit(f"worker-{i}", 1).cause for i in range(2)] == ["success", "success"]


def test_a_silent_coordinator_ends_the_member_when_its_lease_is_over(place):
    p = place(policies={"member_lost": "abort_job"})
    p.start(0, "sleep 60", lease=1.0)
    p.happen(ev.Placed(("worker-0",)))
    p.wait_state("worker-0", states.UP)
    p.renews = False
    exit = p.exit("worker-0", 1)
    assert (exit.cause, exit.stopped) == ("lost", True)
    p.renews = True
    assert p.wait_end() == states.FAILED
    assert p.gang.verdict.cause == "lost"


def test_a_lease_counts_for_every_run(place):
    p = place(max_retries=0)
    p.start(0, "sleep 60", lease=1.0)
    p.happen(ev.Placed(("worker-0",)))
    p.wait_state("worker-0", states.UP)
    p.renews = False
    p.exit("worker-0", 1)
    p.renews = True
    p.wait_state("worker-0", states.BROKEN)
    p.happen(ev.Placed(("worker-0",)))
    p.wait_state("worker-0", states.UP)
    p.renews = False
    assert p.exit("worker-0", 2).cause == "lost"
    p.renews = True
    p.happen(ev.StopRequested("ann"))
    assert p.wait_end() == states.STOPPED
