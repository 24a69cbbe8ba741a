"""Following a job: its lines, why it waits, its verdict, the code the client exits with."""

import pytest
from fake_api import FakeApi, FakeJob, line, make_status

from dromon.cli.main import main
from dromon.engines.base import Waiting


def follow(job, capfd, *words):
    api = FakeApi(job)
    code = main(list(words or ("run", "job.yaml")), api=api)
    out, err = capfd.readouterr()
    return code, out, err


def failed(**verdict):
    base = {"cause": "user_error", "message": "worker-1 exited with 3", "member": "worker-1",
            "rank": 1, "code": 3, "signal": None, "last_lines": [], "hint": ""}  # fmt: skip
    return {**base, **verdict}


def test_one_member_prints_its_lines_untouched_each_to_its_own_stream(capfd):
    job = FakeJob(make_status(), [line("out  "), line("oops", stream="err"), line("\x1b[1mx")])
    code, out, err = follow(job, capfd)
    assert code == 0
    assert out == "out  \n\x1b[1mx\n"
    assert "oops\n" in err


def test_bytes_that_are_no_utf8_come_out_as_they_went_in(capfd):
    job = FakeJob(make_status(), [line(b"caf\xe9".decode("utf-8", "surrogateescape"))])
    assert main(["run", "job.yaml"], api=FakeApi(job)) == 0
    # capfd decodes; the byte itself is checked by its replacement
    assert capfd.readouterr().out.startswith("caf")


def test_a_gang_prints_the_members_name_before_each_line(capfd):
    status = make_status(members=11)
    job = FakeJob(status, [line("a"), line("b", 10), line("c", 1, "err")])
    _, out, err = follow(job, capfd)
    assert out == "worker-0  | a\nworker-10 | b\n"
    assert "worker-1  | c\n" in err


def test_the_job_is_named_before_its_lines_and_three_commands_after(capfd):
    code, _, err = follow(FakeJob(make_status(), [line("x")]), capfd)
    assert err.splitlines() == [
        "dromon: job 41 unet3d-k3x9p2 queued",
        "dromon: job 41 unet3d-k3x9p2 succeeded in 12s",
        "next: dromon show 41 · dromon logs 41 · dromon rerun 41",
    ]
    assert code == 0


def test_the_exit_code_is_the_jobs_own(capfd):
    job = FakeJob(make_status(), [], failed(), "failed")
    code, _, err = follow(job, capfd)
    assert code == 3
    assert "failed after 12s: user error: worker-1 exited with 3" in err


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ({"signal": 9, "code": None}, 137),
        ({"code": None}, 1),
        ({"code": 0}, 1),
        ({"code": 9}, 9),
    ],
)
def test_a_signal_or_a_missing_code_still_gives_one(verdict, code, capfd):
    assert follow(FakeJob(make_status(), [], failed(**verdict), "failed"), capfd)[0] == code


def test_last_lines_are_shown_when_they_were_not_seen(capfd):
    verdict = failed(cause="environment", message="cannot resolve", member="",
                     last_lines=["no such package: tourch"], hint="Check the names.")  # fmt: skip
    _, _, err = follow(FakeJob(make_status(), [], verdict, "failed"), capfd)
    assert "  | no such package: tourch\n" in err
    assert "hint: Check the names.\n" in err


def test_last_lines_just_seen_are_not_said_again(capfd):
    job = FakeJob(make_status(), [line("a"), line("b")], failed(last_lines=["a", "b"]), "failed")
    _, out, err = follow(job, capfd)
    assert out == "a\nb\n"
    assert "  | " not in err


def test_the_member_is_named_where_the_message_does_not(capfd):
    verdict = failed(message="killed for memory", cause="out_of_memory")
    _, _, err = follow(FakeJob(make_status(), [], verdict, "failed"), capfd)
    assert "out of memory: killed for memory (worker-1, rank 1)" in err


def test_a_restart_is_said_once(capfd):
    job = FakeJob(make_status(members=2), [line("a"), line("a", run=2), line("b", 1, run=2)])
    _, _, err = follow(job, capfd)
    assert err.count("dromon: job 41 was restarted: run 2") == 1


def test_a_job_that_waits_says_why_once_where_there_is_no_terminal(capfd):
    waiting = Waiting("needs 2 GPUs, 1 is free", "resources")
    job = FakeJob(make_status(state="queued"), [line("x")], waiting=waiting, wait=1.3)
    _, out, err = follow(job, capfd)
    assert err.count("dromon: job 41 waits: needs 2 GPUs, 1 is free\n") == 1
    assert out == "x\n"


def test_a_job_that_starts_at_once_says_nothing_of_waiting(capfd):
    waiting = Waiting("needs 2 GPUs, 1 is free", "resources")
    _, _, err = follow(FakeJob(make_status(), [line("x")], waiting=waiting), capfd)
    assert "waits" not in err


def test_detaching_prints_the_id_as_the_only_data(capfd):
    code, out, err = follow(FakeJob(make_status(), [line("x")]), capfd, "run", "-d", "job.yaml")
    assert (code, out) == (0, "unet3d-k3x9p2\n")
    assert "next: dromon attach 41 · dromon why 41 · dromon stop 41" in err


def test_attaching_shows_the_last_lines_and_takes_the_jobs_code(capfd):
    api = FakeApi(FakeJob(make_status(), [line("x")], failed(), "failed"))
    assert main(["attach", "41"], api=api) == 3
    assert (
        "logs",
        {"ref": "unet3d-k3x9p2", "follow": True, "tail": 20, "on": "local"},
    ) in api.calls
    assert capfd.readouterr().err.startswith("dromon: job 41 unet3d-k3x9p2 running\n")


def test_rerun_hands_on_its_overrides_and_follows(capfd):
    api = FakeApi(FakeJob(make_status(), [line("x")]))
    assert main(["rerun", "41", "config.lr=2"], api=api) == 0
    assert ("rerun", {"ref": "41", "overrides": ["config.lr=2"]}) in api.calls
    assert capfd.readouterr().out == "x\n"
