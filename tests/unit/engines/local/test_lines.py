"""The lines to agents we had forked: real sockets, a real loop, an agent that is only a voice."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from dromon.agent.line import Line as Voice
from dromon.agent.line import send
from dromon.agent.plan import AgentPlan
from dromon.coordinator.coordinator import BYE
from dromon.coordinator.door import Admitted
from dromon.engines.local import lines
from dromon.engines.local.server import Peer


def plan(run: int, **how: Any) -> AgentPlan:
    given = {"record": "/r", "work": "/w", "command": "true", "framework": "none", **how}
    return AgentPlan("job", "worker", 0, run=run, attempt=1, **given)


class Gate:
    """Remembers what came, and dismisses whoever has ended."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def key_of(self, job: str) -> bytes | None:
        return None

    def on_hello(self, wire: Peer, admitted: Admitted) -> None:
        self.heard.append(("hello", admitted.member, admitted.run))

    def on_message(self, wire: Peer, message: dict[str, Any]) -> None:
        self.heard.append((message["op"], message["run"]))
        if message["op"] == "exited":
            wire.send(BYE)

    def on_gone(self, wire: Peer) -> None:
        assert wire.admitted is not None
        self.heard.append(("gone", wire.admitted.run, wire.dismissed))


class Bench:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.gate = Gate()
        self.lines = lines.Lines(loop, self.gate)
        self.voices: list[Voice] = []  # of the agents that were forked

    def fork(self, plan: AgentPlan, fds: Sequence[int], line: socket.socket, at_once: bool) -> None:
        theirs = line.dup()
        theirs.settimeout(20)
        self.voices.append(Voice(theirs))

    def launch(self, run: int, fds: Sequence[int] = (), **how: Any) -> None:
        self.lines.launch(plan(run, **how), fds, self.fork)

    def say(self, number: int, *messages: dict[str, Any]) -> None:
        for message in messages:
            send(self.voices[number].socket, message)
        self.turn()

    def live(self, number: int, run: int, **how: Any) -> None:
        self.say(number, {"op": "ready", "run": run}, {"op": "exited", "run": run, **how})

    def turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0.02))


@pytest.fixture
def bench() -> Iterator[Bench]:
    loop = asyncio.new_event_loop()
    made = Bench(loop)
    yield made
    for voice in made.voices:
        voice.socket.close()
    made.turn()
    loop.close()


def test_an_agent_that_stays_is_given_the_next_launch(bench: Bench):
    bench.launch(1)
    bench.live(0, 1, stays=True)
    bench.launch(2)
    assert len(bench.voices) == 1
    message = bench.voices[0].wait()
    assert message is not None
    assert (message["op"], message["plan"]["run"]) == ("launch", 2)
    bench.live(0, 2, stays=True)
    assert bench.gate.heard == [
        ("hello", "worker-0", 1), ("ready", 1), ("exited", 1), ("gone", 1, True),
        ("hello", "worker-0", 2), ("ready", 2), ("exited", 2), ("gone", 2, True),
    ]  # fmt: skip


def test_each_launch_has_a_number_of_its_own(bench: Bench):
    seen: list[int] = []
    bench.gate.on_hello = lambda wire, admitted: seen.append(wire.number)  # type: ignore[method-assign]
    for run in (1, 2):
        bench.launch(run)
        bench.live(0, run, stays=True)
    assert len(set(seen)) == 2


def test_an_agent_that_does_not_stay_is_told_so_and_not_used_again(bench: Bench):
    bench.launch(1)
    bench.live(0, 1)
    assert bench.voices[0].wait() == BYE
    bench.launch(2)
    assert len(bench.voices) == 2


def test_an_idle_agent_is_told_bye_once_when_nothing_comes(bench: Bench, monkeypatch):
    bench.launch(1)
    bench.live(0, 1, stays=True)
    monkeypatch.setattr(lines, "FAREWELL", -1.0)
    bench.lines.look_around()
    bench.lines.look_around()
    bench.launch(2)
    assert bench.voices[0].wait() == BYE
    message = bench.voices[0].wait()
    assert message is not None
    assert message["op"] == "launch"


def test_an_idle_agent_that_is_gone_is_not_used(bench: Bench):
    bench.launch(1)
    bench.live(0, 1, stays=True)
    bench.voices[0].socket.close()
    bench.turn()
    bench.launch(2)
    assert len(bench.voices) == 2


def test_an_agent_gone_at_work_is_told_of_once(bench: Bench):
    bench.launch(1)
    bench.say(0, {"op": "ready", "run": 1})
    bench.voices[0].socket.close()
    bench.turn()
    assert bench.gate.heard == [("hello", "worker-0", 1), ("ready", 1), ("gone", 1, False)]


def test_one_that_never_spoke_is_no_news(bench: Bench):
    bench.launch(1)
    bench.voices[0].socket.close()
    bench.turn()
    assert bench.gate.heard == []


def test_nonsense_ends_the_line(bench: Bench):
    bench.launch(1)
    bench.voices[0].socket.sendall(b"\xff" * 8)
    bench.turn()
    assert bench.voices[0].wait() is None


def test_descriptors_go_along_with_a_launch(bench: Bench):
    bench.launch(1)
    bench.live(0, 1, stays=True)
    read, write = os.pipe()
    bench.launch(2, [write])
    os.close(write)
    message = bench.voices[0].wait()
    assert message is not None
    [theirs] = bench.voices[0].fds_of(message)
    os.write(theirs, b"x")
    os.close(theirs)
    assert os.read(read, 2) == b"x"
    os.close(read)


def test_a_launch_larger_than_the_sockets_buffer_arrives_whole(bench: Bench):
    bench.launch(1)
    bench.live(0, 1, stays=True)
    big = "x" * 2_000_000
    bench.launch(2, env={"BIG": big})
    voice = bench.voices[0]
    got: Callable[[], Any] = lambda: bench.loop.run_in_executor(None, voice.wait)  # noqa: E731
    message = bench.loop.run_until_complete(got())
    assert message["plan"]["env"] == {"BIG": big}


def test_no_more_are_kept_idle_than_the_most(bench: Bench, monkeypatch):
    monkeypatch.setattr(lines, "MOST_IDLE", 2)
    for run in (1, 2, 3):
        bench.launch(run)
    for number in range(3):
        bench.live(number, number + 1, stays=True)
    assert bench.voices[0].wait() == BYE
    assert bench.voices[0].wait() is None
    for run in (4, 5, 6):
        bench.launch(run)
    assert len(bench.voices) == 4


def test_those_nobody_needed_for_long_are_let_go(bench: Bench, monkeypatch):
    bench.launch(1)
    bench.live(0, 1, stays=True)
    bench.lines.look_around()
    monkeypatch.setattr(lines, "IDLE", -1.0)
    bench.lines.look_around()
    assert bench.voices[0].wait() is None
    bench.launch(2)
    assert len(bench.voices) == 2


WORLD = {"op": "world", "world": {"job": "job"}}
STOP = {"op": "stop", "grace": 0.0, "reason": "stop"}


class Stood:
    """Who stands there for an agent that has not come yet."""

    number = 77
    admitted = Admitted("job", "worker-0", 1, {})
    dismissed = False

    def send(self, message: dict[str, Any]) -> None: ...


def come(bench: Bench, run: int, first: dict[str, Any] = WORLD, **how: Any) -> lines.Line:
    return bench.lines.launch(plan(run, **how), (), bench.fork, Stood(), first)


def test_an_agent_takes_the_place_of_who_stood_there_and_is_told_the_first_word(bench: Bench):
    assert come(bench, 1).number == 77
    assert bench.voices[0].wait() == WORLD  # the launch went through the launcher
    bench.say(0, {"op": "exited", "run": 1, "stays": True})
    assert come(bench, 2, STOP).number == 77
    launched, told = bench.voices[0].wait(), bench.voices[0].wait()
    assert launched is not None
    assert (launched["op"], told) == ("launch", STOP)
    assert bench.gate.heard == [("exited", 1), ("gone", 1, True)]


def test_an_agent_is_idle_as_soon_as_it_has_said_its_exit(bench: Bench):
    bench.gate.on_message = lambda wire, message: None  # type: ignore[method-assign]
    bench.launch(1)
    bench.live(0, 1, stays=True)
    bench.launch(2)
    assert len(bench.voices) == 1
    assert bench.gate.heard == [("hello", "worker-0", 1), ("gone", 1, True)]


def test_an_agent_is_told_only_what_it_does_not_know(bench: Bench):
    env = {"A": "1"}
    come(bench, 1, env=env)
    assert bench.voices[0].wait() == WORLD
    bench.say(0, {"op": "exited", "run": 1, "stays": True})
    come(bench, 2, env=dict(env))
    launched = bench.voices[0].wait()
    assert launched is not None
    assert (launched["plan"], launched["like"], launched["at_once"]) == ({"run": 2}, True, True)
    assert bench.voices[0].wait() == {"op": "world"}
    bench.say(0, {"op": "exited", "run": 2, "stays": True})
    come(bench, 3, {**WORLD}, env={"A": "2"})
    launched = bench.voices[0].wait()
    assert launched is not None
    assert launched["plan"] == {"run": 3, "env": {"A": "2"}}
    assert bench.voices[0].wait() == WORLD
