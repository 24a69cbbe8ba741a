"""Beats against a ResourceManager that speaks the real bytes."""

import threading

import pytest
from stage import until

from dromon.engines.yarn.am.asks import Asks, Size, Want
from dromon.engines.yarn.am.beats import Beats
from dromon.engines.yarn.am.scheduler import AskRefused, Scheduler, Superseded
from dromon.hadoop import ids
from dromon.hadoop.failover import Policy
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.token import AM_RM, Token
from dromon.hadoop.transport import RpcClient

OWN = Token(b"own", b"password", AM_RM)
YARN = "org.apache.hadoop.yarn.exceptions."
CONTAINER = "container_1700000000000_0001_01_000002"


def granted(memory=512):
    return {
        "id": ids.parse_container(CONTAINER),
        "node_id": {"host": "n1", "port": 45454},
        "resource": {"memory": memory, "virtual_cores": 1},
        "priority": {"priority": 1},
        "allocation_request_id": 1,
        "container_token": Token(b"t", b"p", "ContainerToken").to_message(),
    }


class Hearing:
    def __init__(self, serve, java):
        self.java = java
        self.answers = []  # what the next beats are answered with
        self.number = 0
        self.server = serve(APPLICATION_MASTER, self._answer, OWN)
        self.client = RpcClient(
            APPLICATION_MASTER, [self.server.address], OWN, what="RM", policy=Policy(patience=-1)
        )
        self.asks = Asks([Want("worker", 1, Size(512, 1))])
        self.news, self.ends = [], []
        self.over = threading.Event()
        scheduler = Scheduler(self.client, self.asks)
        scheduler.register("host", 1, "http://host:1/")
        self.beats = Beats(scheduler, self.asks, self.news.append, self._end)

    def _end(self, error):
        self.ends.append(error)
        self.over.set()

    def _answer(self, call):
        if call.method == "registerApplicationMaster":
            return {"maximum_capability": {"memory": 8192, "virtual_cores": 8}}
        self.number += 1
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, self.java):
            return answer
        return {"response_id": self.number, **answer}

    def asked(self):
        """The figures that were sent."""
        return [
            one["num_containers"]
            for message in self.server.said("allocate")
            for one in message["ask"]
        ]


@pytest.fixture
def hearing(serve, java):
    made = Hearing(serve, java)
    yield made
    made.beats.stop()
    made.client.close()


def test_what_is_wanted_is_said_with_the_next_beat_and_what_comes_is_passed_on(hearing):
    hearing.beats.start()
    hearing.beats.tell(lambda asks: asks.expect("worker", 1))
    until(lambda: hearing.asked() == [1], "the ask")
    hearing.answers.append({"allocated_containers": [granted()]})
    until(lambda: any(news.granted for news in hearing.news), "the container")
    (container, role) = next(news.granted for news in hearing.news if news.granted)[0]
    assert (container.id, role) == (CONTAINER, "worker")
    until(lambda: hearing.asks.is_complete, "the asks to know")


def test_a_container_nobody_asked_for_goes_back_with_the_next_beat(hearing):
    hearing.answers.append({"allocated_containers": [granted()]})
    hearing.beats.start()
    until(lambda: any(m["release"] for m in hearing.server.said("allocate")), "the release")
    assert not any(news.granted for news in hearing.news)


def test_what_comes_too_small_is_passed_on_as_a_shortage(hearing):
    hearing.answers += [{}, {"allocated_containers": [granted(memory=256)]}]
    hearing.beats.start()
    hearing.beats.tell(lambda asks: asks.expect("worker", 1))
    until(lambda: any(news.shortages for news in hearing.news), "the shortage")
    role, lacking = next(news.shortages for news in hearing.news if news.shortages)[0]
    assert role == "worker"
    assert "256 of 512 MB" in lacking


def test_a_beat_that_failed_is_not_the_last(hearing):
    hearing.answers += [hearing.java("java.io.IOException", "try later")]
    hearing.beats.start()
    until(lambda: len(hearing.news) >= 2, "beats after the failure")
    assert hearing.ends == []


def test_an_ask_that_is_refused_ends_the_beats(hearing):
    name = f"{YARN}InvalidResourceRequestException"
    hearing.answers.append(hearing.java(name, "Invalid resource request! too much"))
    hearing.beats.start()
    assert hearing.over.wait(20)
    assert isinstance(hearing.ends[0], AskRefused)


def test_an_attempt_that_yarn_has_given_up_is_superseded(hearing):
    name = f"{YARN}ApplicationAttemptNotFoundException"
    hearing.answers.append(hearing.java(name, "Application attempt doesn't exist"))
    hearing.beats.start()
    assert hearing.over.wait(20)
    assert isinstance(hearing.ends[0], Superseded)
    said = len(hearing.server.said("allocate"))
    hearing.beats.stop()
    assert len(hearing.server.said("allocate")) == said


def test_no_beat_comes_after_the_stop(hearing):
    hearing.beats.start()
    until(lambda: hearing.news, "a beat")
    hearing.beats.stop()
    said = len(hearing.server.said("allocate"))
    hearing.beats.tell(lambda asks: asks.expect("worker", 5))
    assert len(hearing.server.said("allocate")) == said
