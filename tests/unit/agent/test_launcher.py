"""The launcher: what it passes on, what it keeps, what survives it."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from dromon.agent.launcher import MOST_FDS, send_launch


def test_members_survive_launcher_and_daemon(stage, start_launcher):
    child, sock = start_launcher()
    coordinator = stage.coordinator()
    send_launch(sock, stage.python("print('up'); import time; time.sleep(60)"))
    coordinator.wait_for("started")
    sock.close()
    assert child.wait(30) == 0
    assert stage.claim().is_alive
    coordinator.send({"op": "stop", "grace": 5.0, "reason": "stop"})
    assert stage.exit()["cause"] == "stopped"
    stage.wait_until_gone()


def test_dismissed_agent_serves_the_next_launch(stage, start_launcher):
    child, sock = start_launcher()
    coordinator = stage.coordinator()
    for run in (1, 2):
        send_launch(sock, stage.plan("exit $DROMON_RUN", run=run))
        assert stage.exit(run)["code"] == run
        stage.wait_until_gone(run)  # the claim is released: nobody takes it for that run's agent
        stage.wait_until_gone_or_idle()
        time.sleep(0.1)  # it tells the launcher last of all
    agents = {m["run"] for m in coordinator.said("hello")}
    assert agents == {1, 2}
    assert len(agent_pids(stage)) == 1
    sock.close()
    assert child.wait(30) == 0


def agent_pids(stage) -> set[int]:
    return {stage.claim(run).pid for run in (1, 2)}


def test_killed_idle_agent_is_replaced(stage, start_launcher):
    child, sock = start_launcher()
    stage.coordinator()
    send_launch(sock, stage.plan(["true"]))
    stage.exit(1)
    stage.wait_until_gone(1)
    os.kill(stage.claim(1).pid, signal.SIGKILL)
    time.sleep(0.1)
    send_launch(sock, stage.plan(["true"], run=2))
    assert stage.exit(2)["code"] == 0
    assert len(agent_pids(stage)) == 2
    sock.close()
    assert child.wait(30) == 0


def test_agents_leave_no_zombies(stage, start_launcher):
    child, sock = start_launcher()
    stage.coordinator(dismisses=False)
    send_launch(sock, stage.plan(["true"]))
    stage.exit()
    os.kill(stage.claim().pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{stage.claim().pid}") and time.monotonic() < end:
        time.sleep(0.005)
    assert not os.path.exists(f"/proc/{stage.claim().pid}")
    sock.close()
    assert child.wait(30) == 0


def test_launcher_that_hears_nonsense_leaves(start_launcher):
    child, sock = start_launcher()
    sock.sendall(b"\xff" * 8)
    assert child.wait(30) == 1
    sock.close()


def test_too_many_descriptors_are_refused(stage):
    ours, theirs = socket.socketpair()
    with pytest.raises(ValueError, match="more than one message can carry"):
        send_launch(ours, stage.plan(["true"]), [0] * (MOST_FDS + 1))
    ours.close()
    theirs.close()


def test_agent_runs_by_itself_from_a_plan_file(stage, tmp_path):
    import json

    stage.coordinator()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(stage.plan("exit 9").to_json()))
    words = [sys.executable, "-m", "dromon.agent.main", "agent", str(path)]
    assert subprocess.run(words).returncode == 0
    assert stage.exit()["code"] == 9


@pytest.mark.parametrize("text", ["", "[]", '{"job": 1}'])
def test_broken_plan_file_is_told_in_one_line(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_text(text)
    words = [sys.executable, "-m", "dromon.agent.main", "agent", str(path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 65
    assert "Traceback" not in done.stderr
