"""What happens to the gang when a member ends: policies, retries, completion."""

QUICK = {"max": 2, "backoff": "0s"}

# A member that outlives its peer's first failure: it waits until the peer was started again.
PATIENT = "say('start', attempt); note('starts-%d' % rank)\n"


def test_without_retries_a_failure_is_the_end(bench):
    ref = bench.run("say('once'); sys.exit(3)")
    status = bench.ended(ref)
    assert (status.state, status.verdict["code"]) == ("failed", 3)
    assert bench.texts(ref) == ["once"]


def test_retries_are_used_up_and_then_the_job_fails(bench):
    ref = bench.run("say('attempt', attempt); sys.exit(1)", retries=QUICK)
    assert bench.ended(ref).state == "failed"
    assert bench.texts(ref) == ["attempt 1", "attempt 2", "attempt 3"]
    assert bench.engine.status(ref).attempt == 3


def test_restart_job_starts_every_member_anew(bench):
    ref = bench.run(
        PATIENT
        + "if rank == 1 and attempt == 1: wait_for(lambda: notes('starts-0')); sys.exit(5)\n"
        "wait_for(lambda: attempt == 2)",
        replicas=2,
        retries=QUICK,
        stop_grace="500ms",
        policies={"member_failed": "restart_job"},
    )
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.by_member(ref) == {
        "worker-0": ["start 1", "start 2"],
        "worker-1": ["start 1", "start 2"],
    }


def test_restart_member_leaves_the_others_running(bench):
    ref = bench.run(
        PATIENT + "if rank == 1 and len(notes('starts-1')) == 1: sys.exit(5)\n"
        "wait_for(lambda: len(notes('starts-1')) == 2); say('done')",
        replicas=2,
        retries=QUICK,
        policies={"member_failed": "restart_member"},
    )
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    said = bench.by_member(ref)
    assert len([t for t in said["worker-0"] if t.startswith("start")]) == 1
    assert len([t for t in said["worker-1"] if t.startswith("start")]) == 2
    assert said["worker-0"][-1] == said["worker-1"][-1] == "done"


def test_restart_role_starts_only_that_role_anew(bench):
    reader = bench.command(
        "say('start'); note('reader-%s' % me)\n"
        "mine = notes('reader-reader-0')\n"
        "if me == 'reader-0' and len(mine) == 1:\n"
        "    wait_for(lambda: notes('reader-reader-1')); sys.exit(5)\n"
        "wait_for(lambda: len(notes('reader-reader-0')) == 2)\n"
        "wait_for(lambda: len(notes('reader-reader-1')) == 2)"
    )
    trainer = bench.command("say('start'); wait_for(lambda: len(notes('reader-reader-1')) == 2)")
    ref = bench.run(
        roles={
            "trainer": {"replicas": 1, "command": trainer},
            "reader": {
                "replicas": 2,
                "command": reader,
                "policies": {"member_failed": "restart_role"},
            },
        },
        retries=QUICK,
        stop_grace="500ms",
    )
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert {m: len(said) for m, said in bench.by_member(ref).items()} == {
        "trainer-0": 1,
        "reader-0": 2,
        "reader-1": 2,
    }


def test_abort_job_fails_at_once_however_many_retries_are_left(bench):
    ref = bench.run(
        "say('once'); sys.exit(9)", retries=QUICK, policies={"member_failed": "abort_job"}
    )
    status = bench.ended(ref)
    assert (status.state, status.verdict["code"]) == ("failed", 9)
    assert bench.texts(ref) == ["once"]


def test_complete_job_calls_it_a_success(bench):
    ref = bench.run(
        "if rank == 1: sys.exit(4)\ntime.sleep(600)",
        replicas=2,
        stop_grace="500ms",
        policies={"member_failed": "complete_job"},
    )
    assert bench.ended(ref).state == "succeeded"


def test_ignore_goes_on_without_the_failed_member(bench):
    ref = bench.run(
        "if rank == 1: note('failed'); sys.exit(4)\n"
        "wait_for(lambda: notes('failed')); time.sleep(0.3); say('still here')",
        replicas=2,
        policies={"member_failed": "ignore"},
    )
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref) == ["still here"]


def test_an_exit_code_has_its_own_policy(bench):
    ref = bench.run(
        "say('attempt', attempt); sys.exit(17 if attempt == 2 else 1)",
        retries={"max": 5, "backoff": "0s"},
        policies={"member_failed": "restart_job", "exit_code:17": "abort_job"},
    )
    status = bench.ended(ref)
    assert (status.state, status.verdict["code"]) == ("failed", 17)
    assert bench.texts(ref) == ["attempt 1", "attempt 2"]


def test_a_roles_own_policy_beats_the_jobs(bench):
    ref = bench.run(
        roles={
            "main": {"replicas": 1, "command": bench.command("wait_for(lambda: notes('gone'))")},
            "helper": {
                "replicas": 1,
                "command": bench.command("note('gone'); sys.exit(2)"),
                "policies": {"member_failed": "ignore"},
            },
        },
        policies={"member_failed": "abort_job"},
    )
    assert bench.ended(ref).state == "succeeded", bench.told(ref)


def test_the_end_of_the_chief_ends_a_parameter_server_that_never_ends(bench):
    ref = bench.run(
        framework="tensorflow",
        stop_grace="500ms",
        roles={
            "chief": {"replicas": 1, "command": bench.command("say('trained')")},
            "ps": {"replicas": 1, "command": bench.command("time.sleep(600)")},
        },
    )
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref) == ["trained"]


def test_a_completed_role_may_complete_the_job(bench):
    ref = bench.run(
        stop_grace="500ms",
        policies={"role_completed": "complete_job"},
        roles={
            "trainer": {"replicas": 1, "command": bench.command("say('trained')")},
            "watcher": {"replicas": 1, "command": bench.command("time.sleep(600)")},
        },
    )
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref) == ["trained"]


def test_a_job_that_waits_too_long_leaves_the_queue(bench):
    bench.fill()
    ref = bench.run("say('never')", policies={"pending:300ms": "abort_job"})
    status = bench.ended(ref)
    assert (status.state, status.verdict["cause"]) == ("failed", "timeout")
    assert bench.texts(ref) == []


def test_the_verdict_after_all_retries_is_of_the_last_attempts_first_failure(bench):
    ref = bench.run(
        "if rank == 1: sys.exit(10 + attempt)\ntime.sleep(600)",
        replicas=2,
        retries=QUICK,
        stop_grace="500ms",
    )
    status = bench.ended(ref)
    assert status.state == "failed"
    verdict = status.verdict
    assert (verdict["member"], verdict["code"], verdict["attempt"]) == ("worker-1", 13, 3)
