"""A job that ended says how, and keeps what it made."""

import pytest


def test_a_failure_names_member_code_cause_and_last_lines(bench):
    ref = bench.run("say('epoch 1'); print('boom', file=sys.stderr); sys.exit(7)")
    verdict = bench.ended(ref).verdict
    assert verdict["cause"] == "user_error"
    assert (verdict["member"], verdict["rank"], verdict["code"]) == ("worker-0", 0, 7)
    assert verdict["signal"] is None
    assert {"epoch 1", "boom"} <= set(verdict["last_lines"])
    assert "worker-0" in verdict["message"]
    assert "7" in verdict["message"]


def test_a_signal_is_named(bench):
    ref = bench.run("os.kill(os.getpid(), signal.SIGSEGV)")
    verdict = bench.ended(ref).verdict
    assert (verdict["cause"], verdict["signal"]) == ("user_error", 11)


def test_the_verdict_is_of_the_first_that_failed_not_of_those_stopped_for_it(bench):
    ref = bench.run("if rank == 2: sys.exit(42)\ntime.sleep(600)", replicas=3, stop_grace="500ms")
    status = bench.ended(ref)
    assert status.state == "failed"
    verdict = status.verdict
    assert (verdict["member"], verdict["rank"], verdict["code"]) == ("worker-2", 2, 42)


def test_a_command_that_does_not_exist_is_a_failure_with_words(bench):
    ref = bench.run(command=["/no/such/program"])
    status = bench.ended(ref)
    assert status.state == "failed"
    assert "/no/such/program" in status.verdict["message"] + "".join(status.verdict["last_lines"])


def test_success_has_a_verdict_too(bench):
    status = bench.ended(bench.run("say('fine')"))
    assert status.verdict["cause"] == "success"
    assert status.submitted <= status.started <= status.ended


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ("say('done')", "succeeded"),
        ("say('done'); sys.exit(1)", "failed"),
        ("say('done'); time.sleep(600)", "stopped"),
    ],
)
def test_outputs_are_kept_however_the_job_ends(bench, ending, state):
    ref = bench.run(
        "os.makedirs('model/deep')\n"
        "open('model/deep/weights', 'wb').write(bytes(range(256)))\n"
        "open('scratch', 'w').write('not asked for')\n" + ending,
        outputs=["model"],
        stop_grace="500ms",
    )
    bench.has_said(ref, "done")
    if state == "stopped":
        bench.engine.stop(ref)
    assert bench.ended(ref).state == state
    assert bench.outputs(ref) == {"model/deep/weights": bytes(range(256))}


def test_an_output_nobody_made_is_no_failure(bench):
    ref = bench.run("say('done')", outputs=["model"])
    assert bench.ended(ref).state == "succeeded"
    assert bench.outputs(ref) == {}
