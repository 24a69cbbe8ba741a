"""Asking a job to end: with grace, without, and by its own deadline."""

TERM = "signal.signal(signal.SIGTERM, lambda *_: (note('saved'), say('saved'), sys.exit(0)))\n"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def test_a_stopped_member_may_save_first_and_the_job_is_stopped(bench):
    ref = bench.run(TERM + "say('up'); time.sleep(600)", stop_grace="20s")
    bench.has_said(ref, "up")
    bench.engine.stop(ref)
    status = bench.ended(ref)
    assert (status.state, status.verdict["cause"]) == ("stopped", "stopped")
    assert bench.texts(ref) == ["up", "saved"]


def test_every_member_of_the_gang_is_stopped(bench):
    ref = bench.run(TERM + "say('up'); time.sleep(600)", replicas=3)
    bench.has_said(ref, "up", times=3)
    bench.engine.stop(ref)
    assert bench.ended(ref).state == "stopped"
    assert bench.texts(ref).count("saved") == 3


def test_one_that_ignores_the_request_is_killed_after_its_grace(bench):
    ref = bench.run(DEAF + "say('up'); time.sleep(600); say('deaf')", stop_grace="300ms")
    bench.has_said(ref, "up")
    bench.engine.stop(ref)
    status = bench.ended(ref)
    assert (status.state, status.verdict["cause"]) == ("stopped", "stopped")
    assert status.members[0].exit["signal"] == 9
    assert bench.texts(ref) == ["up"]


def test_the_grace_of_the_request_beats_the_jobs_own(bench):
    ref = bench.run(DEAF + "say('up'); time.sleep(600)", stop_grace="1h")
    bench.has_said(ref, "up")
    bench.engine.stop(ref, 0.2)
    assert bench.ended(ref).state == "stopped"


def test_children_of_a_stopped_member_end_with_it(bench):
    child = (
        "import time, signal; signal.signal(15, signal.SIG_IGN)\n"
        "while True: time.sleep(.05); print('child', flush=True)"
    )
    ref = bench.run(
        f"import subprocess; subprocess.Popen([sys.executable, '-S', '-c', {child!r}])\n"
        "say('up'); time.sleep(600)",
        stop_grace="300ms",
    )
    bench.has_said(ref, "child")
    bench.engine.stop(ref)
    assert bench.ended(ref).state == "stopped"
    printed = len(bench.texts(ref))
    again = bench.run("time.sleep(0.3)")  # long enough for a living child to print
    bench.ended(again)
    assert len(bench.texts(ref)) == printed


def test_stopping_twice_or_after_the_end_changes_nothing(bench):
    ref = bench.run(TERM + "say('up'); time.sleep(600)")
    bench.has_said(ref, "up")
    bench.engine.stop(ref)
    bench.engine.stop(ref)
    ended = bench.ended(ref)
    assert ended.state == "stopped"
    bench.engine.stop(ref)
    assert bench.engine.status(ref).ended == ended.ended


def test_a_waiting_job_is_stopped_without_ever_running(bench):
    bench.fill()
    ref = bench.run("say('never')")
    assert bench.waits(ref)
    bench.engine.stop(ref)
    status = bench.ended(ref)
    assert (status.state, status.verdict["cause"]) == ("stopped", "stopped")
    assert bench.texts(ref) == []


def test_a_stop_does_not_wait_for_a_retry(bench):
    ref = bench.run("sys.exit(1)", retries={"max": 3, "backoff": "1h"})
    assert bench.until(lambda: bench.engine.status(ref).state == "restarting")
    bench.engine.stop(ref)
    assert bench.ended(ref).state == "stopped"


def test_time_over_ends_the_job_with_the_verdict_timeout(bench):
    limit = f"{2 * bench.patience}s"  # that a member has begun by then
    ref = bench.run(TERM + "say('up'); time.sleep(600)", max_duration=limit, stop_grace="20s")
    status = bench.ended(ref)
    assert (status.state, status.verdict["cause"]) == ("failed", "timeout")
    assert bench.texts(ref) == ["up", "saved"]


def test_time_over_is_not_retried(bench):
    ref = bench.run("time.sleep(600)", max_duration="500ms", retries={"max": 3, "backoff": "0s"})
    status = bench.ended(ref)
    assert (status.state, status.verdict["cause"], status.attempt) == ("failed", "timeout", 1)
