"""How a run ends: by itself, by us, by accident."""

import os
import signal
import sys

import pytest

from dromon.agent import process
from dromon.agent.launcher import send_launch

IGNORES_SIGTERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""
DAEMONISES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("daemon.pid", "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not os.path.exists("daemon.pid") or not open("daemon.pid").read():
    time.sleep(0.01)
print("left it", flush=True)
"""


# ---- ends ---------------------------------------------------------------------------------------


def test_output_and_exit_of_a_member_are_kept(stage):
    exit = stage.play(stage.plan("echo hello; echo oops >&2; exit 3", attempt=2))
    assert (exit["code"], exit["signal"], exit["cause"]) == (3, None, "user_error")
    assert exit["message"] == "exited with code 3"
    assert sorted(exit["last_lines"]) == ["hello", "oops"]
    assert (exit["member"], exit["run"], exit["attempt"], exit["rank"]) == ("worker-0", 1, 2, 0)
    assert 0 < exit["started"] <= exit["ended"]
    assert exit["peak_memory"] > 100_000
    assert sorted(stage.log()) == [("err", b"oops"), ("out", b"hello")]


def test_of_a_silent_member_that_goes_on_the_start_is_told(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.plan(["sleep", "60"]))
    assert coordinator.wait_for("started")["pid"] > 0
    coordinator.send({"op": "stop", "grace": 5.0, "reason": "stop"})
    stage.exit()


def test_coordinator_hears_the_whole_story(stage):
    coordinator = stage.coordinator()
    # Of one that ends at once, nobody hears that it had started.
    stage.play(stage.plan("echo up; sleep 0.3", ports=2, host="127.0.0.9"))
    stage.wait_until_gone_or_idle()
    assert [m["op"] for m in coordinator.heard] == ["hello", "ready", "started", "exited"]
    ready, started, exited = coordinator.heard[1:]
    assert ready["host"] == "127.0.0.9"
    assert len(set(ready["ports"])) == 2
    assert started["pid"] > 0
    assert exited["exit"]["code"] == 0
    assert exited["exit"]["cause"] == "success"


@pytest.mark.parametrize(
    ("command", "code", "number", "message"),
    [
        ("true", 0, None, ""),
        ("exit 77", 77, None, "exited with code 77"),
        ("kill -SEGV $$", None, 11, "killed by SIGSEGV"),
        ("kill -KILL $$", None, 9, "killed by SIGKILL"),
    ],
)
def test_exit_says_code_or_signal(stage, command, code, number, message):
    exit = stage.play(stage.plan(command))
    assert (exit["code"], exit["signal"], exit["message"]) == (code, number, message)


def test_python_traceback_is_told_by_its_last_line(stage):
    exit = stage.play(stage.python("def f():\n    raise ValueError('bad')\nf()\n"))
    assert exit["cause"] == "user_error"
    assert exit["message"] == "ValueError: bad"
    assert exit["last_lines"][0] == "Traceback (most recent call last):"


def test_memory_error_is_out_of_memory(stage):
    exit = stage.play(stage.python("raise MemoryError"))
    assert (exit["cause"], exit["message"]) == ("out_of_memory", "MemoryError")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["no-such-program"], 127, "no-such-program: command not found"),
        ("no-such-program --lr 3", 127, "no-such-program: command not found"),
        (["./missing.sh"], 127, "./missing.sh: no such file"),
        (["./plain.txt"], 126, "./plain.txt: not executable"),
        (["./odd"], 126, "./odd: not a program"),
        (["true", "\0"], None, "null"),
    ],
)
def test_command_that_cannot_start_says_why(stage, command, code, words):
    (stage.work / "plain.txt").write_text("text")
    (stage.work / "odd").write_bytes(b"\x01\x02\x03")
    (stage.work / "odd").chmod(0o755)
    exit = stage.play(stage.plan(command))
    assert exit["code"] == code
    assert exit["cause"] == "user_error"
    assert words in exit["message"]


def test_missing_working_directory_is_the_environments_fault(stage):
    exit = stage.play(stage.plan(["true"], work=str(stage.work / "gone")))
    assert exit["cause"] == "environment"
    assert "working directory" in exit["message"]


# ---- stop ---------------------------------------------------------------------------------------


def test_stop_asks_first_and_leaves_a_file_that_says_so(stage):
    coordinator = stage.coordinator()
    source = (
        "import os, signal, sys, time\n"
        "def stop(*_):\n"
        "    print(os.path.exists(os.environ['DROMON_MEMBER_DIR'] + '/stop')); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\nprint('up'); time.sleep(60)\n"
    )
    stage.launch(stage.python(source))
    stage.wait_for_line(b"up")
    coordinator.send({"op": "stop", "grace": 30.0, "reason": "preempt"})
    exit = stage.exit()
    assert (exit["code"], exit["stopped"], exit["cause"]) == (0, True, "success")
    assert stage.log()[-1] == ("out", b"True")


def test_member_that_ignores_sigterm_is_killed_after_its_grace(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.python(IGNORES_SIGTERM))
    stage.wait_for_line(b"up")
    coordinator.send({"op": "stop", "grace": 0.2, "reason": "stop"})
    exit = stage.exit()
    assert (exit["signal"], exit["cause"], exit["stopped"]) == (9, "stopped", True)
    assert exit["message"] == "did not end within its grace and was killed"


def test_second_stop_shortens_the_grace(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.python(IGNORES_SIGTERM))
    stage.wait_for_line(b"up")
    coordinator.send({"op": "stop", "grace": 3000.0, "reason": "stop"})
    coordinator.send({"op": "stop", "grace": 0.0, "reason": "stop"})
    assert stage.exit()["signal"] == 9


def test_stop_at_the_barrier_ends_before_it_began(stage):
    coordinator = stage.coordinator(opens=False)
    stage.launch(stage.plan(["true"]))
    coordinator.wait_for("ready")
    coordinator.send({"op": "stop", "grace": 9.0, "reason": "stop"})
    exit = stage.exit()
    assert (exit["code"], exit["cause"], exit["stopped"]) == (None, "stopped", True)
    assert not coordinator.said("started")


def test_shell_that_dies_first_leaves_its_script_the_grace(stage):
    (stage.work / "slow.py").write_text(
        "import signal, sys, time\n"
        "def stop(*_):\n    time.sleep(1.5); print('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\nprint('up'); time.sleep(60)\n"
    )
    coordinator = stage.coordinator()
    stage.launch(stage.plan(f"{sys.executable} -S -u slow.py; echo never"))
    stage.wait_for_line(b"up")
    coordinator.send({"op": "stop", "grace": 30.0, "reason": "stop"})
    assert stage.exit()["cause"] == "stopped"
    assert [text for _, text in stage.log()] == [b"up", b"saved"]


def test_daemonised_process_does_not_outlive_its_member(stage):
    exit = stage.play(stage.python(DAEMONISES))
    assert exit["code"] == 0
    assert process.start_ticks(int((stage.work / "daemon.pid").read_text())) == 0


def test_stop_reaches_daemonised_processes_too(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.python(DAEMONISES + "time.sleep(60)\n"))
    stage.wait_for_line(b"left it")
    coordinator.send({"op": "stop", "grace": 5.0, "reason": "stop"})
    assert stage.exit()["cause"] == "stopped"
    assert process.start_ticks(int((stage.work / "daemon.pid").read_text())) == 0


def test_tree_over_its_memory_limit_is_killed_and_told_so(stage):
    source = "import time\nx = bytearray(200 << 20)\ntime.sleep(60)"
    exit = stage.play(stage.python(source, memory=100 << 20))
    assert exit["cause"] == "out_of_memory"
    assert "more than its limit of 100 MiB" in exit["message"]
    assert exit["peak_memory"] > 100 << 20


def test_pages_shared_by_forked_workers_count_once(stage):
    source = (
        "import os, time\nx = bytearray(60 << 20)\n"
        "pids = [os.fork() or (time.sleep(1.5), os._exit(0)) for _ in range(3)]\n"
        "for p in pids: os.waitpid(p, 0)\n"
    )
    assert stage.play(stage.python(source, memory=150 << 20))["code"] == 0


# ---- several processes --------------------------------------------------------------------------


def test_first_failing_process_ends_the_others(stage):
    command = "if mkdir first 2>/dev/null; then sleep 0.3; exit 4; else sleep 60; fi"
    exit = stage.play(stage.plan(command, processes=3))
    assert exit["code"] == 4


def test_all_processes_are_waited_for(stage):
    command = "if mkdir first 2>/dev/null; then exit 0; else sleep 0.3; echo late; fi"
    assert stage.play(stage.plan(command, processes=2))["code"] == 0
    assert stage.log() == [("out", b"late")]


# ---- the agent itself ---------------------------------------------------------------------------


def test_of_two_agents_with_one_claim_one_runs(stage):
    coordinator = stage.coordinator()
    plan = stage.plan("echo once >> runs; sleep 0.3")
    for _ in range(4):
        stage.launch(plan)
    assert stage.exit()["code"] == 0
    assert (stage.work / "runs").read_text() == "once\n"
    assert len(coordinator.said("hello")) == 1


def test_survivors_of_a_killed_agent_are_found_and_killed(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.python(DAEMONISES + "time.sleep(60)\n"))
    stage.wait_for_line(b"left it")
    main = coordinator.wait_for("started")["pid"]
    daemon = int((stage.work / "daemon.pid").read_text())
    owner = stage.claim()
    assert owner.is_alive
    os.kill(owner.pid, signal.SIGKILL)
    marker = f"job-{os.getpid()}/worker-0/1"
    assert set(process.survivors(marker)) == {main, daemon}
    assert process.kill_survivors(marker) == []
    assert process.survivors(marker) == []
    assert not owner.is_alive


def test_sigterm_to_the_agent_stops_the_member_and_leaves_a_record(stage):
    stage.coordinator(dismisses=False)
    stage.launch(stage.python("print('up'); import time; time.sleep(60)"))
    stage.wait_for_line(b"up")
    owner = stage.claim()
    os.kill(owner.pid, signal.SIGTERM)
    exit = stage.exit()
    assert (exit["signal"], exit["stopped"], exit["cause"]) == (15, True, "evicted")
    stage.wait_until_gone()


def test_failing_agent_leaves_a_record_and_says_why(stage):
    coordinator = stage.coordinator(opens=False)
    stage.launch(stage.plan(["true"]))
    coordinator.wait_for("ready")
    coordinator.send({"op": "world", "world": {**WORLD, "members": []}})
    exit = stage.exit()
    assert exit["cause"] == "internal"
    assert (stage.directory() / "agent.err").read_text()


WORLD = {"job": f"job-{os.getpid()}", "attempt": 1, "framework": "none"}


def test_large_plan_goes_through_the_launcher(stage, launcher):
    stage.coordinator()
    plan = stage.plan("echo ${#BIG}", env={"BIG": "x" * 100_000, "MORE": "y" * 100_000})
    send_launch(launcher, plan)
    assert stage.exit()["code"] == 0
    assert stage.log() == [("out", b"100000")]
