"""Members, clients and controllers that go away, and come back."""

import time

import pytest

from dromon.engines.base import Filter
from dromon.errors import Refused

TERM = "signal.signal(signal.SIGTERM, lambda *_: (note('saved'), sys.exit(0)))\n"

# Works for as long as it takes to be taken away once, and then ends.
INTERRUPTED = "note('starts'); say('up', attempt)\nif attempt == 1: time.sleep(600)\nsay('resumed')"


def test_an_evicted_member_brings_the_whole_gang_back_and_uses_no_retry(bench):
    ref = bench.run(
        "say('up', attempt)\nif attempt == 1: time.sleep(600)",
        replicas=2,
        stop_grace="500ms",
        retries={"max": 0},
    )
    bench.has_said(ref, "up 1", times=2)
    bench.evict(ref, "worker-1")
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.by_member(ref) == {
        "worker-0": ["up 1", "up 2"],
        "worker-1": ["up 1", "up 2"],
    }


def test_the_loss_of_the_first_member_is_survived_too(bench):
    ref = bench.run(
        "say('up', attempt)\nif attempt == 1: time.sleep(600)", replicas=2, stop_grace="500ms"
    )
    bench.has_said(ref, "up 1", times=2)
    bench.evict(ref, "worker-0")
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref).count("up 2") == 2


@pytest.mark.parametrize("member", ["worker-0", "worker-1"])
def test_a_member_that_saves_and_exits_with_zero_when_it_is_taken_away_has_not_succeeded(
    bench, member
):
    ref = bench.run(
        TERM + "say('up', attempt, 'saved', len(notes('saved')))\nif attempt == 1: time.sleep(600)",
        replicas=2,
        stop_grace="20s",
        retries={"max": 0},
    )
    bench.has_said(ref, "up 1 saved 0", times=2)
    bench.evict_politely(ref, member)
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref).count("up 2 saved 2") == 2


def test_retries_are_still_whole_after_an_eviction(bench):
    ref = bench.run(
        "say('up', attempt)\nif attempt == 1: time.sleep(600)\nsys.exit(attempt == 2)",
        retries={"max": 1, "backoff": "0s"},
    )
    bench.has_said(ref, "up 1")
    bench.evict(ref, "worker-0")
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref) == ["up 1", "up 2", "up 3"]


def test_the_checkpoint_survives_and_the_attempt_rises(bench):
    ref = bench.run(
        "done = len(notes('steps'))\n"
        "say('attempt', attempt, 'from step', done)\n"
        "for step in range(done, 4):\n"
        "    note('steps')\n"
        "    if step == 2 * attempt - 1 < 3: say('waiting'); time.sleep(600)",
    )
    bench.has_said(ref, "waiting")
    bench.evict(ref, "worker-0")
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref) == ["attempt 1 from step 0", "waiting", "attempt 2 from step 2"]
    assert bench.engine.status(ref).attempt == 2


def test_a_preempted_job_is_asked_to_save_waits_and_resumes_without_a_retry(bench):
    low = bench.run(
        TERM + "say('up', attempt, 'saved', len(notes('saved')))\nif attempt == 1: time.sleep(600)",
        replicas=2,
        stop_grace="20s",
        resources={"cpus": bench.cpus / 2},
        priority=1,
    )
    bench.has_said(low, "up 1 saved 0", times=2)
    high = bench.run("say('in')", resources={"cpus": bench.cpus}, priority=9)
    assert bench.ended(high).state == "succeeded", bench.told(high)
    assert bench.ended(low).state == "succeeded", bench.told(low)
    assert bench.texts(low).count("up 2 saved 2") == 2
    (came,) = bench.engine.logs(high, follow=False)
    returned = [line.time for line in bench.engine.logs(low, follow=False) if "up 2" in line.text]
    assert came.time < min(returned)


def test_one_that_may_not_be_preempted_is_left_alone_or_refused(bench):
    launch = bench.launch(
        "say('up'); time.sleep(600)",
        resources={"cpus": bench.cpus},
        preemptible=False,
        priority=1,
    )
    submission = bench.engine.compile(launch)
    if "preemptible" in bench.engine.probe().lacks:
        with pytest.raises(Refused, match="preemptible"):
            bench.engine.submit(submission)
        return
    low = bench.engine.submit(submission)
    bench.has_said(low, "up")
    high = bench.run("say('in')", resources={"cpus": bench.cpus}, priority=9)
    bench.waits_for(high, low)
    bench.runs(low)
    assert bench.engine.status(low).attempt == 1
    bench.engine.stop(low, 0)
    assert bench.ended(high).state == "succeeded"


def test_a_client_that_left_finds_its_job_again(bench):
    ref = bench.run("say('up'); time.sleep(0.5); say('down')")
    bench.leave()
    assert ref in [status.id for status in bench.engine.list(Filter(active_only=False))]
    assert [line.text for line in bench.engine.logs(ref, follow=True)] == ["up", "down"]
    assert bench.ended(ref).state == "succeeded"


def test_a_controller_restarted_in_the_middle_loses_nothing_and_runs_nothing_twice(bench):
    ref = bench.run(
        "note('starts'); say('up'); time.sleep(1.5); say('started', len(notes('starts')))",
        outputs=["model"],
    )
    bench.has_said(ref, "up")
    bench.restart_controller()
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref) == ["up", "started 1"]
    assert bench.engine.status(ref).attempt == 1


def test_an_end_during_the_controllers_absence_is_learnt(bench):
    ref = bench.run("say('up'); time.sleep(0.3); sys.exit(6)")
    bench.has_said(ref, "up")
    bench.restart_controller(after=1.0)
    status = bench.ended(ref)
    assert (status.state, status.verdict["code"]) == ("failed", 6)


def test_queued_jobs_and_their_order_survive_the_controller(bench):
    holder = bench.fill()
    refs = []
    for name in ("second", "first"):  # by age, not by name
        refs.append(bench.run("say(time.time())", resources={"cpus": bench.cpus}, name=name))
        time.sleep(bench.tick)
    assert all(bench.waits(ref) for ref in refs)
    bench.restart_controller()
    assert all(bench.waits(ref) for ref in refs)  # whoever comes back first is not served first
    bench.engine.stop(holder, 0)
    started = [float(bench.texts(ref)[0]) for ref in refs if bench.ended(ref)]
    assert started == sorted(started)


def test_a_stop_asked_of_a_restarted_controller_works(bench):
    ref = bench.run(TERM + "say('up'); time.sleep(600)")
    bench.has_said(ref, "up")
    bench.restart_controller()
    bench.engine.stop(ref)
    assert bench.ended(ref).state == "stopped"
