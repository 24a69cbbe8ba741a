"""How a job stands, from two sources that may disagree or be silent."""

import pytest

from dromon.engines.yarn.am.asks import Size
from dromon.engines.yarn.reports import Report
from dromon.engines.yarn.statuses import number_of, status


def report(state="RUNNING", final="UNDEFINED", diagnostics="", ended=None, **more):
    given = dict.fromkeys(Report.__dataclass_fields__, "")
    given.update(
        id="application_1700000000000_0007", user="al", queue="root.default", type="DROMON",
        state=state, final_status=final, diagnostics=diagnostics, tags=("dromon:train-aaaaaa",),
        priority=5, attempt=1, submitted=100.0, ended=ended, used=Size(2048, 2, {"yarn.io/gpu": 1}),
        **more,
    )  # fmt: skip
    return Report(**given)


def told(state="running", verdict=None):
    member = {
        "member": "worker-0", "run": 2, "rank": 0, "state": "up", "host": "10.0.0.7", "pid": 7,
        "memory": 9, "exit": None, "node": "n7:1",
    }  # fmt: skip
    return {
        "state": state, "attempt": 2, "started": 110.0, "members": [member], "verdict": verdict,
    }  # fmt: skip


FAILED = {"cause": "user_error", "message": "it failed", "code": 3}


def test_a_job_nobody_has_said_anything_of_waits():
    found = status(report("ACCEPTED"), None)
    assert (found.id, found.name, found.number) == ("train-aaaaaa", "train", 7)
    assert (found.state, found.attempt, found.members) == ("queued", 0, ())
    assert found.queue == "default"
    assert not found.is_terminal


def test_while_it_runs_its_master_knows_best():
    found = status(report(), told())
    assert (found.state, found.attempt, found.started) == ("running", 2, 110.0)
    assert found.resources == {"cpus": 2.0, "memory": 2048.0 * 2**20, "yarn.io/gpu": 1.0}
    (member,) = found.members
    assert (member.member, member.run, member.host) == ("worker-0", 2, "n7:1")


def test_a_job_is_over_only_when_yarn_says_so_too():
    found = status(report("RUNNING"), told("failed", FAILED))
    assert found.state == "stopping"
    assert found.verdict is None
    assert not found.is_terminal


def test_the_masters_verdict_counts_when_it_gave_one():
    found = status(report("FINISHED", "FAILED", ended=200.0), told("failed", FAILED))
    assert (found.state, found.ended) == ("failed", 200.0)
    assert found.resources == {"cpus": 0.0, "memory": 0.0}
    assert found.verdict == FAILED


def test_a_job_that_was_killed_from_outside_was_stopped():
    found = status(report("KILLED", "KILLED", "Kill requested by bob\n", 200.0), told())
    assert found.state == "stopped"
    assert found.verdict["message"] == "its application was killed"
    assert found.verdict["hint"] == "Kill requested by bob"
    early = status(report("KILLED", "KILLED", ended=200.0), None)
    assert early.verdict["message"] == "its application was killed before it started"


def test_a_master_that_failed_is_told_in_yarns_words():
    words = "Application failed 4 times\n\n due to AM Container\nexited\nmore\n"
    found = status(report("FAILED", "FAILED", words, 200.0), told())
    assert (found.state, found.verdict["cause"]) == ("failed", "internal")
    assert found.verdict["message"].endswith("failed 4 times due to AM Container exited")
    silent = status(report("FAILED", "FAILED", ended=200.0), None)
    assert "YARN does not say why" in silent.verdict["message"]


def test_a_master_that_said_why_is_told_in_its_own_words():
    words = (
        "Application application_1_0007 failed 2 times in previous 3600000 milliseconds due to AM "
        "Container for appattempt_1_0007_000002 exited with  exitCode: 127\n"
        "Failing this attempt.Diagnostics: [2026-11-16 01:53:35.833]Exception from "
        "container-launch.\nExit code: 127\n\n[2026-11-16 01:53:35.873]Container exited with a "
        "non-zero exit code 127. Error file: prelaunch.err.\nLast 4096 bytes of prelaunch.err :\n"
        "Last 4096 bytes of master.stderr :\n/bin/bash: line 1: /opt/python: No such file or "
        "directory\n\n\nFor more detailed output, check the application tracking page."
    )
    found = status(report("FAILED", "FAILED", words, ended=200.0), None)
    assert found.verdict["message"] == (
        "its ApplicationMaster ended with code 127: "
        "/bin/bash: line 1: /opt/python: No such file or directory"
    )
    assert "python" in found.verdict["hint"]
    trace = words.replace("127", "1").replace("/bin/bash", "Traceback (…)\n  x\nOSError")
    found = status(report("FAILED", "FAILED", trace, ended=200.0), None)
    assert found.verdict["message"].startswith("its ApplicationMaster ended with code 1: OSError")


def test_a_success_without_its_status_is_a_success():
    assert status(report("FINISHED", "SUCCEEDED", ended=200.0), told()).state == "succeeded"


@pytest.mark.parametrize("end", ["FINISHED", "FAILED", "KILLED"])
def test_whatever_is_over_has_an_end(end):
    assert status(report(end), None).is_terminal


def test_the_number_of_a_job_is_its_applications():
    assert number_of(report()) == 7
