"""Members that stand at the barrier without an agent."""

from typing import Any

from dromon.engines.local.awaited import Awaited, gather, is_wanted
from dromon.lifecycle import events as ev

WORLD: dict[str, Any] = {"op": "world", "world": {}}
STOP: dict[str, Any] = {"op": "stop", "grace": 0.0, "reason": "stop"}


class Line:
    """An agent's line that remembers what went over it."""

    def __init__(self, number: int, first: dict[str, Any]) -> None:
        self.number = number
        self.said = [first["op"]]

    def send(self, message: dict[str, Any]) -> None:
        self.said.append(message["op"])


class Agents:
    """Sends for agents."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def come(self, launch: ev.Launch, stood: Any, first: dict[str, Any]) -> Any:
        self.lines.append(Line(stood.number, first))
        return self.lines[-1]


def test_an_agent_comes_with_the_first_word_and_hears_the_next():
    agents = Agents()
    awaited = Awaited("train-aaaaaa", ev.Launch("worker-0", 1, 1), agents.come)
    assert agents.lines == []
    awaited.send(WORLD)
    awaited.send(STOP)
    assert [line.said for line in agents.lines] == [["world", "stop"]]


def test_an_agent_that_has_gone_on_to_another_run_hears_no_more():
    agents = Agents()
    awaited = Awaited("train-aaaaaa", ev.Launch("worker-0", 1, 1), agents.come)
    awaited.send(WORLD)
    agents.lines[0].number += 1
    awaited.send(STOP)
    assert agents.lines[0].said == ["world"]


def test_a_gang_without_agents_passes_the_barrier(bench):
    job = bench.submit(replicas=3)
    agents: dict[int, Any] = {}
    sent = Agents()
    launches = [ev.Launch(f"worker-{index}", 1, 1) for index in range(3)]
    there = gather(job, launches, sent.come, agents)
    assert there is not None
    bench.arbiter.happen(job, there, bench.now)
    bench.flush()
    assert job.gang.state == "running"
    told = [peer for peer, message in bench.hands.of("send") if message == "world"]
    assert sorted(told) == sorted(agents) == sorted(job.coordinator.peers.values())


def test_who_is_not_wanted_any_more_does_not_stand_there(bench):
    job = bench.submit(replicas=2)
    agents: dict[int, Any] = {}
    stale = [ev.Launch("worker-0", 7, 1), ev.Launch("worker-9", 1, 1)]
    assert gather(job, stale, Agents().come, agents) is None
    assert agents == {}
    assert job.coordinator.peers == {}


def test_a_run_is_wanted_until_it_has_ended(bench):
    job = bench.submit()
    launch = ev.Launch("worker-0", 1, 1)
    assert is_wanted(job, launch)
    bench.arbiter.happen(job, ev.StopRequested("ann"), bench.now)
    assert is_wanted(job, launch)  # it must still say that it has ended
    bench.arbiter.happen(job, ev.MemberLost("worker-0", 1), bench.now)
    assert not is_wanted(job, launch)
