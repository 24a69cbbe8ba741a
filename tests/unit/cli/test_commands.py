"""What each command prints, and what it asks the api for."""

import json
import os
import pty
import subprocess
import sys
import time

import pytest
from fake_api import FakeApi, FakeJob, line, make_status

from dromon.cli.commands.logs import moment
from dromon.cli.main import main
from dromon.engines.base import Node, Waiting
from dromon.errors import Problem, UsageError

NOW = time.time()
QUEUED = make_status(
    42, "net2", state="queued", started=None, members=0, resources={"gpus": 2.0},
    queue="research", priority=5, submitted=NOW - 75,
)  # fmt: skip
WAITING = Waiting(
    "needs 2 GPUs, 1 is free", "resources", 1, ("job 41",), {"gpus": 1.0}, ("stop job 41",)
)
RUNNING = make_status(submitted=NOW - 7205, started=NOW - 7200, members=3)
FAILED = make_status(
    40, "old", state="failed", ended=1013.0, members=1,
    verdict={"cause": "user_error", "message": "worker-0 exited with 3", "member": "worker-0",
             "code": 3, "last_lines": ["boom"], "hint": "Read it."},
)  # fmt: skip


@pytest.fixture
def api():
    lines = [line("a"), line("b", 1, "err")]
    # Ages are told from now on, however long ago this file was collected.
    now = time.time()
    running = RUNNING._replace(submitted=now - 7205, started=now - 7200)
    queued = QUEUED._replace(submitted=now - 75)
    return FakeApi(FakeJob(running, lines), FakeJob(queued, waiting=WAITING), FakeJob(FAILED))


@pytest.fixture
def dromon(api, capfd):
    def call(*words, code=0):
        assert main(list(words), api=api) == code
        return capfd.readouterr()

    return call


def test_ps_shows_state_members_times_and_reasons(dromon):
    lines = dromon("ps", "-a").out.splitlines()
    assert lines[0].split() == [
        "#",
        "JOB",
        "STATE",
        "READY",
        "GPUS",
        "AGE",
        "RAN",
        "QUEUE",
        "PRIO",
        "NOTE",
    ]
    assert lines[1].split() == [
        "41",
        "unet3d-k3x9p2",
        "running",
        "3/3",
        "0",
        "2h00m",
        "2h00m",
        "default",
        "0",
    ]
    assert lines[2].startswith("42  net2-k3x9p2    queued")
    assert lines[2].endswith("research     5  needs 2 GPUs, 1 is free")
    assert lines[3].endswith("user error: worker-0 exited with 3")


def test_ps_leaves_out_columns_that_say_nothing(api, dromon):
    api.known = [FakeJob(RUNNING)]
    assert dromon("ps").out.splitlines()[0].split() == [
        "#",
        "JOB",
        "STATE",
        "READY",
        "AGE",
        "RAN",
        "NOTE",
    ]


def test_ps_without_jobs_says_so_and_prints_no_data(api, dromon):
    api.known = []
    out, err = dromon("ps")
    assert out == ""
    assert "dromon ps -a" in err


def test_ps_hands_on_what_was_asked(api, dromon):
    dromon("ps", "-a", "-n", "5", "--on", "yarn")
    assert api.calls[0] == ("jobs", {"all": True, "limit": 5, "on": "yarn"})


def test_ps_as_json_is_the_whole_status(dromon):
    data = json.loads(dromon("ps", "-o", "json").out)
    assert [job["number"] for job in data] == [41, 42, 40]
    assert data[0]["members"][2] == {
        "member": "worker-2", "run": 1, "rank": 2, "state": "up", "host": "", "pid": 0,
        "gpus": [], "memory": 0, "exit": None,
    }  # fmt: skip


def test_ps_prints_bare_names_for_completion(dromon):
    assert dromon("ps", "--names").out == "41\nunet3d-k3x9p2\n42\nnet2-k3x9p2\n40\nold-k3x9p2\n"


def test_ps_live_redraws_until_ctrl_c_and_gives_the_cursor_back():
    code = (
        "import sys; from fake_api import *; from dromon.cli.main import main\n"
        "sys.exit(main(['ps', '-w'], api=FakeApi(FakeJob(make_status()))))"
    )
    pid, fd = pty.fork()
    if pid == 0:
        env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
        os.execve(sys.executable, [sys.executable, "-c", code], env)
    seen = b""
    while seen.count(b"\x1b[H") < 2:
        seen += os.read(fd, 4096)
    os.write(fd, b"\x03")
    try:
        while data := os.read(fd, 4096):
            seen += data
    except OSError:
        pass
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"unet3d-k3x9p2" in seen
    assert seen.endswith(b"\x1b[?25h")


def test_logs_put_both_streams_on_stdout(dromon):
    assert dromon("logs", "41").out == "worker-0 | a\nworker-1 | b\n"


def test_logs_hand_on_every_filter(api, dromon):
    dromon(
        "logs", "41", "--rank", "0", "--rank", "2", "--member", "w-1", "--tail", "5", "--all-runs"
    )
    assert api.calls[-1] == (
        "logs",
        {"ref": "41", "follow": False, "ranks": [0, 2], "members": ["w-1"], "since": None,
         "tail": 5, "all_runs": True},
    )  # fmt: skip


def test_logs_with_times_and_as_json_lines(dromon):
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.500", time.localtime(1000.5))
    assert dromon("logs", "41", "-t").out.splitlines()[0] == f"{stamp} worker-0 | a"
    lines = dromon("logs", "41", "-o", "json").out.splitlines()
    assert json.loads(lines[1])["stream"] == "err"


def test_logs_of_a_job_that_printed_nothing_say_so_beside_the_data(dromon):
    out, err = dromon("logs", "42")
    assert out == ""
    assert err == "dromon: nothing to show; job 42 net2-k3x9p2 is queued\n"


def test_logs_of_who_takes_no_part_say_who_does(dromon, api):
    api._find("41").lines = []
    err = dromon("logs", "41", "--member", "wroker-0", "--rank", "7").err
    assert err.endswith("has no wroker-0 and no rank 7; it has worker-0, worker-1, worker-2\n")


def test_following_logs_ends_with_the_verdict(dromon):
    out, err = dromon("logs", "41", "-f")
    assert out == "worker-0 | a\nworker-1 | b\n"
    assert "dromon: job 41 unet3d-k3x9p2 succeeded" in err


def test_since_is_a_duration_or_a_date():
    assert moment("10m", 1000.0) == 400.0
    assert moment("2026-03-01T12:00+00:00", 0) == 1772366400.0
    with pytest.raises(UsageError, match="neither a duration nor a date"):
        moment("yesterday", 0)


def test_why_of_a_waiting_job_says_what_would_help(dromon):
    assert dromon("why", "42").out.splitlines() == [
        "needs 2 GPUs, 1 is free",
        "  position  1 in the queue",
        "  missing   1 gpu",
        "  held by   job 41",
        "  to do     stop job 41",
    ]
    assert json.loads(dromon("why", "42", "-o", "json").out)["reason"] == "resources"


def test_why_of_an_ended_job_is_its_verdict(dromon):
    out = dromon("why", "40").out
    assert "failed after 12s: user error: worker-0 exited with 3" in out
    assert "  | boom\n" in out
    assert "Read it." in out


def test_why_of_a_running_job_says_that_it_runs(dromon):
    assert "does not wait: it has been running for 2h00m" in dromon("why", "41").out


def test_stop_takes_several_jobs_and_a_grace(api, dromon):
    err = dromon("stop", "41", "42", "--grace", "1m").err
    assert api.calls[0] == ("stop", {"refs": ["41", "42"], "grace": 60.0})
    assert err == "dromon: stopping unet3d-k3x9p2\ndromon: stopping net2-k3x9p2\n"


def test_a_job_nobody_knows_is_an_error_with_a_hint(dromon):
    err = dromon("stop", "nobody", code=64).err
    assert err == "dromon: no job nobody\nhint: List jobs with `dromon ps -a`.\n"


def test_show_has_a_section_for_all_that_is_known(api, dromon):
    api.page = {
        "timeline": [{"time": 1000.0, "event": "Submitted"}],
        "members": [{"member": "worker-0", "run": 2, "rank": 0, "state": "broken",
                     "exit": {"signal": 9, "peak_memory": 2**30}}],
        "metrics": {"loss": {"last": 0.125, "min": 0.1, "max": 2.0, "count": 7}},
        "outputs": [{"path": "model/w.bin", "size": 2048, "digest": "ab" * 32, "kept": True}],
        "facts": {"git": {"commit": "0123456789abcdef", "dirty": True}, "cwd": "/src"},
        "code": {"digest": "cd" * 32, "size": 4096},
        "environment": {"kind": "uv", "python": "3.11"},
        "job": {"name": "old", "roles": {"worker": {"command": ["python", "a b.py"]}}},
        "record": "/state/jobs/old-k3x9p2",
    }  # fmt: skip
    out = dromon("show", "40").out
    for part in (
        "job 40 old-k3x9p2  failed", "verdict     user error: worker-0 exited with 3", "  | boom",
        "submitted", "signal 9", "1.0 GiB", "loss  0.125  0.1    2  7", "model/w.bin  2.0 KiB",
        "git         0123456789ab with uncommitted changes", "snapshot    cdcdcdcdcdcdcdcd",
        "python      3.11", "command: python 'a b.py'", "record      /state/jobs/old-k3x9p2",
    ):  # fmt: skip
        assert part in out
    assert json.loads(dromon("show", "40", "-o", "json").out)["status"]["number"] == 40


def test_show_of_next_to_nothing_still_works(dromon):
    assert dromon("show", "41").out.startswith("job 41 unet3d-k3x9p2  running\n")


def test_diff_is_of_the_last_two_unless_named(api, dromon):
    api.differences = [{"path": "config.lr", "a": 0.001, "b": None}]
    assert dromon("diff").out.splitlines() == ["WHAT       @last~1  @last", "config.lr  0.001    -"]
    assert api.calls[-1] == ("diff", {"a": "@last~1", "b": "@last"})
    api.differences = []
    assert dromon("diff", "40", "41").err == "dromon: they do not differ\n"


def test_nodes_show_what_is_free_and_who_holds_a_gpu(api, dromon):
    api.machines = [
        Node("box", {"cpus": 8, "memory": 2**34, "gpus": 2},
             {"cpus": 3, "memory": 2**33, "gpus": 1},
             ({"index": 0, "name": "H200", "holder": "job 41"}, {"index": 1, "name": "H200"}),
             (), ("memory limits are not enforced",)),
    ]  # fmt: skip
    out = dromon("nodes").out
    assert "3 of 8  8.0 GiB of 16.0 GiB     1 of 2" in out
    assert "  0  H200        -  job 41" in out
    assert "  1  H200        -  free" in out
    assert "note: memory limits are not enforced" in out


def test_check_prints_problems_as_data(api, dromon):
    assert dromon("check", "job.yaml").err == "dromon: job.yaml is fine\n"
    api.problems = [Problem("job.yaml", 2, 1, "nmae", "unknown key", "did you mean name?")]
    out, _ = dromon("check", "job.yaml", "a=1", code=64)
    assert out == "job.yaml:2:1: nmae: unknown key; did you mean name?\n"
    data = json.loads(dromon("check", "job.yaml", "-o", "json", code=64).out)
    assert data[0]["line"] == 2


def test_plan_prints_one_document_for_each_engine_in_its_own_order(api, dromon):
    out = dromon("plan", "job.yaml", "a=1", "--on", "local,yarn").out
    assert out.count("---\n") == 2
    assert out.index("b: 1") < out.index("a:\n")
    assert api.calls[0][1]["on"] == ["local", "yarn"]
    assert api.calls[0][1]["overrides"] == ["a=1"]
    assert json.loads(dromon("plan", "job.yaml", "-o", "json").out)[0]["engine"] == "local"


def test_gc_and_rm_say_what_went(api, dromon):
    assert dromon("gc", "--older-than", "30d", "--dry-run").out == ("would remove 1 job: a-1\n")
    assert api.calls[-1] == ("gc", {"older_than": 30 * 86400.0, "dry_run": True})
    assert dromon("gc").out == "removed 1 job: a-1\ngave back 3.0 MiB\n"
    assert dromon("rm", "40").err == "dromon: removed old-k3x9p2\n"


def test_daemon_commands_reach_the_daemon(api, dromon):
    assert dromon("daemon", "status").out.splitlines()[:2] == ["pid      7", "version  0.1.0"]
    assert dromon("daemon", "start", "--stay").err == "dromon: the daemon runs (process 7)\n"
    assert api.calls[-1] == ("daemon", {"action": "start", "stay": True})
    assert "--stay is for start" in dromon("daemon", "stop", "--stay", code=64).err
    api.is_up = False
    assert dromon("daemon", "status").out == "not running\n"
    assert dromon("daemon", "stop").err == "dromon: no daemon was running\n"


def test_daemon_logs_are_its_own_log_file(api, dromon, tmp_path):
    api.log = str(tmp_path / "daemon.log")
    assert "has not written" in dromon("daemon", "logs").err
    (tmp_path / "daemon.log").write_text("one\ntwo\n")
    assert dromon("daemon", "logs").out == "one\ntwo\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(shell, dromon):
    from dromon.cli.main import COMMANDS

    out = dromon("completion", shell).out
    for name in COMMANDS:
        assert name in out
    assert "dromon ps -a -n 200 --names" in out


def test_bash_completes_commands_options_and_jobs(tmp_path, dromon):
    script = tmp_path / "dromon.bash"
    script.write_text(dromon("completion", "bash").out)
    fake = tmp_path / "dromon"
    fake.write_text("#!/bin/sh\necho unet3d-k3x9p2\n")
    fake.chmod(0o755)

    def complete(*words):
        code = (
            f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
            "$(complete -p dromon | sed 's/.*-F \\([^ ]*\\).*/\\1/') dromon; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", code], env=env, capture_output=True, text=True)
        return done.stdout.split()

    assert "rerun" in complete("dromon", "re")
    assert "--detach" in complete("dromon", "run", "--de")
    assert "unet3d-k3x9p2" in complete("dromon", "stop", "un")
