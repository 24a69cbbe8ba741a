"""Lines to agents: proofs, frames, and never a word for one that reaches another."""

import socket
import threading

import pytest
from stage import KEY, FakeAgent, until

from dromon.coordinator.peers import Peers

JOB = "train-aaaaaa"


class Table:
    """Peers in a thread, and what they heard."""

    def __init__(self):
        self.hellos, self.messages, self.gone = [], [], []
        self.peers = Peers(
            lambda job: KEY if job == JOB else None, 7,
            lambda number, admitted: self.hellos.append((number, admitted)),
            lambda number, message: self.messages.append((number, message)),
            self.gone.append,
        )  # fmt: skip
        self.over = False
        self.todo = []
        self.agents = []
        self.thread = threading.Thread(target=self._turn)
        self.thread.start()

    def _turn(self):
        while not self.over:
            self.peers.turn(5)
            while self.todo:
                self.todo.pop(0)()

    def do(self, call):
        done = threading.Event()
        self.todo.append(lambda: (call(), done.set()))
        self.peers.wake()
        assert done.wait(20)

    def agent(self, member="worker-0", key=KEY, job=JOB):
        made = FakeAgent(self.peers.port, job, member, "c1", key=key)
        self.agents.append(made)
        return made

    def number_of(self, member):
        return until(
            lambda: [n for n, a in self.hellos if a.member == member][-1:], f"{member}'s hello"
        )[0]


def is_cut(line):
    try:
        return line.recv(4096) == b""
    except ConnectionError:
        return True


@pytest.fixture
def table():
    made = Table()
    yield made
    for agent in made.agents:
        agent.leave()
    made.over = True
    made.peers.wake()
    made.thread.join()
    made.peers.close()


def test_an_agent_is_admitted_by_its_proof_and_proven_to(table):
    agent = table.agent()
    assert agent.welcome["epoch"] == 7
    number, admitted = table.hellos[0]
    assert (admitted.member, admitted.place) == ("worker-0", "c1")
    agent.say({"op": "ready"})
    until(lambda: table.messages == [(number, {"op": "ready"})], "its word")


@pytest.mark.parametrize(("key", "job"), [(b"guess", JOB), (KEY, "other-bbbbbb")])
def test_whoever_cannot_prove_itself_is_hung_up_on_and_never_heard_of(table, key, job):
    with pytest.raises(ConnectionError):
        table.agent(key=key, job=job)
    table.do(lambda: None)
    assert table.hellos == table.gone == []
    assert len(table.peers) == 0


def test_noise_is_hung_up_on(table):
    with socket.create_connection(("127.0.0.1", table.peers.port)) as line:
        line.settimeout(20)
        line.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"\xff" * 64)
        until(lambda: is_cut(line), "the line to be cut")
    until(lambda: len(table.peers) == 0, "the line to be forgotten")


def test_an_agent_that_leaves_is_told_of_once(table):
    agent = table.agent()
    number = table.number_of("worker-0")
    agent.leave()
    until(lambda: table.gone == [number], "its end")


def test_words_for_one_that_has_left_never_reach_the_next(table):
    first = table.agent("worker-0")
    number = table.number_of("worker-0")
    first.leave()
    until(lambda: table.gone == [number], "its end")
    second = table.agent("worker-1")  # whose socket has the very same descriptor
    table.do(lambda: table.peers.send(number, {"op": "again", "run": 9}))
    table.do(lambda: table.peers.send(table.number_of("worker-1"), {"op": "bye"}))
    second.wait("bye")
    assert [m["op"] for m in second.heard] == ["bye"]


def test_a_long_word_reaches_an_agent_that_reads_slowly(table):
    agent = table.agent()
    number = table.number_of("worker-0")
    long = {"op": "world", "text": "x" * 3_000_000}
    table.do(lambda: table.peers.send(number, long))
    table.do(lambda: table.peers.send(number, {"op": "bye"}))
    agent.wait("bye")
    assert agent.heard[0] == long


def test_one_that_was_hung_up_on_is_not_heard_any_more(table):
    agent = table.agent()
    number = table.number_of("worker-0")
    table.do(lambda: table.peers.hang_up(number))
    agent.wait_until_gone()
    assert table.gone == [number]


def test_many_agents_come_at_once(table):
    for index in range(50):
        table.agent(f"worker-{index}")
    until(lambda: len(table.hellos) == 50, "all of them")
    assert {a.member for _, a in table.hellos} == {f"worker-{i}" for i in range(50)}
