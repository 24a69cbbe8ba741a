"""The launcher: what it passes on, what it keeps, what survives it."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from dromon.agent import exitrecord
from dromon.agent.launcher import launch, send_launch
from dromon.agent.line import MOST_FDS, Line, send
from dromon.agent.plan import AgentPlan
from dromon.frameworks.world import Member, World


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


class Daemon:
    """The other end of an agent's line."""

    def __init__(
        self,
        sock: socket.socket,
        first: AgentPlan,
        fds: Sequence[int] = (),
        at_once: bool = False,
    ) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(30)
        send_launch(sock, first, fds, theirs, at_once)
        theirs.close()
        self.line = Line(ours)

    def hear(self, op: str) -> dict[str, Any]:
        while True:
            message = self.line.wait()
            assert message is not None
            if message["op"] == op:
                return message
            assert message["op"] == "started"  # which short members do not say

    def open_barrier(self) -> None:
        ready = self.hear("ready")
        member = Member("worker", 0, 0, ready["host"], tuple(ready["ports"]))
        self.say({"op": "world", "world": World("job", 1, "none", (member,)).to_json()})

    def play(self) -> dict[str, Any]:
        """From the barrier to the exit, which it returns."""
        self.open_barrier()
        return self.hear("exited")

    def say(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        send(self.line.socket, message, fds)

    def die(self) -> None:
        self.line.socket.close()


@pytest.fixture
def daemon(launcher: socket.socket) -> Iterator[Callable[..., Daemon]]:
    made: list[Daemon] = []

    def make(*arguments: Any) -> Daemon:
        made.append(Daemon(launcher, *arguments))
        return made[-1]

    yield make
    for each in made:
        each.die()


def agent_pids(stage) -> set[int]:
    return {stage.claim(run).pid for run in (1, 2)}


@pytest.mark.parametrize("dismissed", [True, False])
def test_an_agent_that_left_nothing_behind_serves_the_next_launch(stage, daemon, dismissed):
    one = daemon(stage.plan("exit 1"))
    assert one.play()["stays"]
    if dismissed:
        one.say({"op": "bye"})
    one.say(launch(stage.plan("exit $DROMON_RUN", run=2)))
    assert one.play()["exit"]["code"] == 2
    assert stage.exit(2)["code"] == 2
    assert len(agent_pids(stage)) == 1


def test_an_agent_launched_at_once_starts_without_a_word(stage, daemon):
    """Also in its later lives, in which it is told only what is new to it."""
    world = {
        "op": "world",
        "world": World("job", 1, "none", (Member("worker", 0, 0, "h"),)).to_json(),
    }
    plan = stage.plan("exit $DROMON_RUN")
    one = daemon(plan, (), True)
    one.say(world)
    assert one.hear("exited")["exit"]["code"] == 1
    for run, word in ((2, {"op": "world"}), (3, world)):
        following = plan.like(run=run)
        one.say(launch(following, True, plan))
        one.say(word)
        assert one.hear("exited")["exit"]["code"] == run
        plan = following
    assert len(agent_pids(stage)) == 1


def test_an_agent_launched_at_once_that_loses_its_line_says_that_it_is_ready(stage, daemon):
    coordinator = stage.coordinator()
    one = daemon(stage.plan("exit 3"), (), True)
    stage.claim()
    one.die()
    coordinator.wait_for("exited")
    assert stage.exit()["code"] == 3
    assert "ready" in [message["op"] for message in coordinator.heard]


def test_exit_records_that_go_together_are_one_file(stage, daemon):
    plan = stage.plan("exit 3", together=True)
    one = daemon(plan)
    assert one.play()["exit"]["code"] == 3
    found = exitrecord.find(stage.record.exits, "worker-0", 1)
    assert found is not None
    assert (found["code"], found["job"], found["rank"]) == (3, plan.job, 0)
    assert not (stage.directory() / "exit.json").exists()


def test_an_agent_with_a_line_does_not_come_to_the_door(stage, daemon):
    coordinator = stage.coordinator()
    daemon(stage.plan(["true"])).play()
    assert coordinator.heard == []


def test_descriptors_are_held_until_the_run_of_their_launch_is_over(stage, daemon):
    one = None
    for run in (1, 2):
        read, write = os.pipe()
        plan = stage.plan("true", run=run)
        if one is None:
            one = daemon(plan, [write])
        else:
            one.say(launch(plan), [write])
        os.close(write)
        assert select.select([read], [], [], 0)[0] == []
        one.open_barrier()
        one.hear("exited")
        assert os.read(read, 1) == b""
        os.close(read)


def test_an_agent_whose_line_is_cut_finds_its_coordinator_by_the_record(stage, daemon):
    coordinator = stage.coordinator()
    one = daemon(stage.plan("sleep 60"))
    one.open_barrier()
    pid = one.hear("started")["pid"]
    one.die()
    assert coordinator.wait_for("started")["pid"] == pid
    coordinator.send({"op": "stop", "grace": 5.0, "reason": "stop"})
    assert "stays" not in coordinator.wait_for("exited")
    stage.wait_until_gone()


def test_an_exit_nobody_has_acknowledged_is_said_again_by_the_record(stage, daemon):
    coordinator = stage.coordinator()
    one = daemon(stage.plan("exit 3"))
    one.play()
    one.die()
    assert coordinator.wait_for("exited")["exit"]["code"] == 3
    stage.wait_until_gone()


def test_an_idle_agent_leaves_when_its_line_is_closed(stage, daemon):
    one = daemon(stage.plan(["true"]))
    one.play()
    one.say({"op": "bye"})
    one.die()
    stage.wait_until_gone()


@pytest.mark.parametrize("dismissed", [True, False])
def test_an_idle_agent_can_be_ended(stage, daemon, dismissed):
    one = daemon(stage.plan(["true"]))
    one.play()
    if dismissed:
        one.say({"op": "bye"})
    os.kill(stage.claim().pid, signal.SIGTERM)
    assert one.line.wait() is None
    stage.wait_until_gone()


def test_an_agent_that_is_told_to_leave_before_its_end_does_not_stay(stage, daemon):
    one = daemon(stage.plan("sleep 60"))
    one.open_barrier()
    one.hear("started")
    one.say({"op": "bye"})
    one.say({"op": "stop", "grace": 5.0, "reason": "stop"})
    assert "stays" not in one.hear("exited")
    assert one.line.wait() is None
    stage.wait_until_gone()


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
