from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dromon.engines.yarn.am.asks import ANY, Asks, Size, Want
from dromon.engines.yarn.am.scheduler import (
    AskRefused,
    Beat,
    Completed,
    NodeChange,
    Registration,
    Scheduler,
    Superseded,
)
from dromon.hadoop import ids
from dromon.hadoop.failover import Policy
from dromon.hadoop.messages.enums import FinalStatus
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.server import Call
from dromon.hadoop.token import Token
from dromon.hadoop.transport import RpcClient, RpcFailed, Unreachable

OLD, NEW = (Token(key, b"password", "YARN_AM_RM_TOKEN") for key in (b"old key", b"new key"))
NODE_TOKEN = Token(b"for node", b"password", "NMToken", "h:8041")
EXCEPTIONS = "org.apache.hadoop.yarn.exceptions."


def name(number: int) -> str:
    return f"container_1700000000000_0001_01_{number:06d}"


def container(number: int, request: int = 1) -> dict[str, Any]:
    return {
        "id": ids.parse_container(name(number)),
        "node_id": {"host": "h", "port": 8041},
        "resource": {"memory": 512, "virtual_cores": 1},
        "priority": {"priority": request},
        "container_token": Token(b"c", b"p", "ContainerToken").to_message(),
        "allocation_request_id": request,
    }


class FakeManager:
    """Keeps to the rules of ApplicationMasterService: numbers, resync, the cached answer."""

    def __init__(self, java: Any, hang_up: object) -> None:
        self.java, self.hang_up = java, hang_up
        self.registered = False
        self.number = 0
        self.last: dict[str, Any] = {}
        self.news: list[dict[str, Any]] = []  # for the next answers
        self.losing = 0  # so many answers get lost on the way
        self.failing: list[Any] = []
        self.unregistered_after = 2
        self.pending: dict[tuple[int, str], int] = {}

    def __call__(self, call: Call) -> Any:
        if self.failing:
            return self.failing.pop(0)
        answer = getattr(self, call.method)(call.message)
        if self.losing:
            self.losing -= 1
            return self.hang_up
        return answer

    def not_registered(self) -> Any:
        return self.java(EXCEPTIONS + "ApplicationMasterNotRegisteredException", "who are you?")

    def registerApplicationMaster(self, message: Any) -> Any:  # noqa: N802 - Hadoop's name
        if self.registered:
            return self.java(
                EXCEPTIONS + "InvalidApplicationMasterRequestException",
                "Application Master is already registered : application_1700000000000_0001",
            )
        self.registered = True
        self.number, self.pending = 0, {}
        return {
            "maximum_capability": {"memory": 8192, "virtual_cores": 8},
            "queue": "default",
            "resource_types": [{"name": "memory-mb"}, {"name": "yarn.io/gpu"}],
            "containers_from_previous_attempts": [container(1)],
            "nm_tokens_from_previous_attempts": [
                {"node_id": {"host": "h", "port": 8041}, "token": NODE_TOKEN.to_message()}
            ],
        }

    def allocate(self, message: Any) -> Any:
        if not self.registered:
            return self.not_registered()
        if message["response_id"] + 1 == self.number:
            return self.last
        if message["response_id"] != self.number:
            return self.java(EXCEPTIONS + "InvalidApplicationMasterRequestException", "bad number")
        for ask in message["ask"]:
            key = (ask["allocation_request_id"], ask["resource_name"])
            self.pending[key] = ask["num_containers"]
        self.number += 1
        news = self.news.pop(0) if self.news else {}
        self.last = {"response_id": self.number, **news}
        return self.last

    def finishApplicationMaster(self, message: Any) -> Any:  # noqa: N802 - Hadoop's name
        if not self.registered:
            return self.not_registered()
        self.unregistered_after -= 1
        return {"is_unregistered": self.unregistered_after < 0}


class Stage:
    def __init__(self, serve: Any, java: Any, hang_up: object) -> None:
        self.manager = FakeManager(java, hang_up)
        self.server = serve(APPLICATION_MASTER, self.manager, OLD)
        self.asks = Asks([Want("worker", 1, Size(512, 1), 2)])
        policy = Policy(base=0.01, cap=0.01, patience=0.05)
        self.client = RpcClient(
            APPLICATION_MASTER, [self.server.address], OLD, what="ResourceManager", policy=policy
        )
        self.waits: list[float] = []
        self.scheduler = Scheduler(self.client, self.asks, wait=self.waits.append)

    def numbers(self) -> list[int]:
        return [message["response_id"] for message in self.server.said("allocate")]


@pytest.fixture
def stage(serve: Callable[..., Any], java: Any, hang_up: object) -> Iterator[Stage]:
    made = Stage(serve, java, hang_up)
    yield made
    made.client.close()


@pytest.fixture
def registered(stage: Stage) -> Stage:
    stage.scheduler.register("am.example", 4242, "http://am.example:4242/")
    return stage


def test_registering_tells_where_we_are_and_hears_what_there_is(stage):
    found = stage.scheduler.register("am.example", 4242, "http://am.example:4242/")
    assert stage.server.said("registerApplicationMaster") == [
        {"host": "am.example", "rpc_port": 4242, "tracking_url": "http://am.example:4242/"}
    ]
    assert found.maximum == Size(8192, 8)
    assert found.types == ("memory-mb", "yarn.io/gpu")
    assert [c.id for c in found.containers] == [name(1)]
    assert found.tokens == {"h:8041": NODE_TOKEN}
    assert (found.queue, found.answered) == ("default", True)


def test_a_lost_answer_to_the_registration_is_no_failure(stage):
    stage.manager.losing = 1
    found = stage.scheduler.register("am", 1, "")
    assert found == Registration(Size(0, 0), answered=False)
    stage.scheduler.allocate()
    assert stage.numbers() == [0]


def test_beats_are_numbered_and_say_only_what_is_new(registered):
    registered.scheduler.allocate(0.25)
    registered.scheduler.allocate(0.5)
    first, second = registered.server.said("allocate")
    assert (first["response_id"], second["response_id"]) == (0, 1)
    assert (first["progress"], second["progress"]) == (0.25, 0.5)
    assert [ask["num_containers"] for ask in first["ask"]] == [2]
    assert second["ask"] == []


def test_everything_an_answer_tells_is_heard(registered):
    id_of = ids.parse_container
    registered.manager.news = [
        {
            "allocated_containers": [container(2)],
            "completed_container_statuses": [
                {"container_id": id_of(name(1)), "state": 3, "exit_status": -104,
                 "diagnostics": "too much"},
                {"container_id": id_of(name(9)), "state": 3},
            ],
            "updated_nodes": [
                {"node_id": {"host": "h", "port": 8041}, "node_state": 5, "node_update_type": 1,
                 "health_report": "silent"},
                {"node_id": {"host": "i", "port": 8041}, "node_state": 2},
                {"node_id": {"host": "j", "port": 8041}, "node_state": 77},
            ],
            "preempt": {
                "strict_contract": {"container": [{"id": id_of(name(3))}]},
                "contract": {"container": [{"id": id_of(name(3))}, {"id": id_of(name(4))}]},
            },
            "nm_tokens": [
                {"node_id": {"host": "h", "port": 8041}, "token": NODE_TOKEN.to_message()}
            ],
            "containers_from_previous_attempts": [container(8)],
        }
    ]  # fmt: skip
    heard = registered.scheduler.allocate()
    assert [(c.id, c.node, c.size) for c in heard.allocated] == [(name(2), "h:8041", Size(512, 1))]
    assert heard.completed == (
        Completed(name(1), -104, "too much", True),
        Completed(name(9), -1000, "N/A", True),
    )
    assert heard.nodes == (
        NodeChange("h:8041", "LOST", False, "silent"),
        NodeChange("i:8041", "RUNNING", True),
        NodeChange("j:8041", "77", False),
    )
    assert (heard.strict, heard.contract) == ((name(3),), (name(3), name(4)))
    assert heard.preempted == (name(3), name(4))
    assert heard.tokens == {"h:8041": NODE_TOKEN}
    assert [c.id for c in heard.previous] == [name(8)]
    assert heard.registration is None


def test_a_lost_answer_is_asked_for_again_with_the_same_words(registered):
    registered.manager.news = [{"allocated_containers": [container(2)]}]
    registered.manager.losing = 1
    heard = registered.scheduler.allocate()
    assert [c.id for c in heard.allocated] == [name(2)]
    first, again = registered.server.said("allocate")
    assert first == again
    registered.scheduler.allocate()
    assert registered.numbers() == [0, 0, 1]


def test_a_beat_that_nobody_answered_is_repeated_before_anything_new_is_said(registered):
    registered.manager.news = [{"allocated_containers": [container(2)]}]
    registered.manager.losing = 1000
    with pytest.raises(Unreachable):
        registered.scheduler.allocate()
    registered.manager.losing = 0
    registered.asks.expect("worker", 5)
    heard = registered.scheduler.allocate()
    assert [c.id for c in heard.allocated] == [name(2)]
    registered.scheduler.allocate()
    assert registered.manager.pending == {(1, ANY): 5}
    assert registered.numbers()[-2:] == [0, 1]


@pytest.mark.parametrize("form", ["exception", "command"])
def test_a_restarted_manager_hears_everything_again(registered, form):
    asks = registered.asks
    registered.scheduler.allocate()
    registered.manager.news = [{"allocated_containers": [container(2)]}]
    (got,) = registered.scheduler.allocate().allocated
    assert asks.allocated(got) == "worker"
    asks.release(name(4))
    asks.avoid("bad:1")
    registered.scheduler.allocate()
    registered.manager.registered = False
    if form == "command":
        registered.manager.failing = [{"a_m_command": 1, "response_id": 0}]
    heard = registered.scheduler.allocate()
    assert heard.registration is not None
    assert heard.registration.tokens == {"h:8041": NODE_TOKEN}
    assert len(registered.server.said("registerApplicationMaster")) == 2
    last = registered.server.said("allocate")[-1]
    assert last["response_id"] == 0
    assert [ask["num_containers"] for ask in last["ask"]] == [1]
    assert [ids.container(one) for one in last["release"]] == [name(4)]
    assert last["blacklist_request"]["blacklist_additions"] == ["bad", "bad:1"]
    assert registered.scheduler.allocate().registration is None
    assert registered.numbers()[-2:] == [0, 1]


def test_a_rolled_token_is_used_for_the_next_connection(registered):
    registered.manager.news = [{"am_rm_token": NEW.to_message()}]
    registered.scheduler.allocate()
    registered.server.tokens = [NEW]  # the old key is forgotten
    registered.server.hang_up()
    registered.scheduler.allocate()
    assert registered.numbers() == [0, 1]
    assert len({call.user for call in registered.server.calls}) == 2
    assert registered.server.connections == 2


@pytest.mark.parametrize(
    "exception",
    [
        EXCEPTIONS + "ApplicationAttemptNotFoundException",
        "org.apache.hadoop.security.token.SecretManager$InvalidToken",
    ],
)
def test_an_attempt_that_yarn_has_given_up_is_told_to_stop(registered, exception):
    gone = "appattempt_1_0001_000001 doesn't exist"
    registered.manager.failing = [registered.manager.java(exception, gone)]
    with pytest.raises(Superseded, match="doesn't exist"):
        registered.scheduler.allocate()


def test_a_shutdown_command_means_the_same(registered):
    registered.manager.failing = [{"a_m_command": 2, "response_id": 1}]
    with pytest.raises(Superseded):
        registered.scheduler.allocate()


def test_an_ask_that_is_too_large_is_refused_in_words_and_forgotten(registered):
    text = (
        "Invalid resource request! Cannot allocate containers as requested resource is greater"
        " than maximum allowed allocation. Requested resource type=[memory-mb], Requested"
        " resource=<memory:99999, vCores:1>, maximum allowed allocation=<memory:6144, vCores:8,"
        " yarn.io/gpu: 2>, please note that …"
    )
    refusal = registered.manager.java(EXCEPTIONS + "InvalidResourceRequestException", text)
    registered.asks.release(name(4))
    registered.manager.failing = [refusal]
    with pytest.raises(AskRefused) as caught:
        registered.scheduler.allocate()
    assert str(caught.value) == (
        "no node of the cluster may give a container of memory:99999, vCores:1: too much"
        " memory-mb, the most is memory:6144, vCores:8, yarn.io/gpu: 2"
    )
    registered.asks.want(Want("worker", 1, Size(64, 1), 1))
    registered.scheduler.allocate()
    last = registered.server.said("allocate")[-1]
    assert last["response_id"] == 0
    assert [ask["num_containers"] for ask in last["ask"]] == [1]
    assert [ids.container(one) for one in last["release"]] == [name(4)]


def test_other_refusals_are_passed_on_as_they_are(registered):
    registered.manager.failing = [registered.manager.java("java.lang.NullPointerException", "")]
    with pytest.raises(RpcFailed):
        registered.scheduler.allocate()


def test_the_end_is_repeated_until_it_is_written_down(registered):
    assert registered.scheduler.finish(FinalStatus.FAILED, "it broke", "http://history/")
    said = registered.server.said("finishApplicationMaster")
    assert len(said) == 3
    assert registered.waits == [0.1, 0.1]
    assert said[0] == {
        "diagnostics": "it broke",
        "tracking_url": "http://history/",
        "final_application_status": FinalStatus.FAILED,
    }


def test_a_manager_that_restarts_at_the_end_is_told_again(registered):
    registered.manager.registered = False
    assert registered.scheduler.finish(FinalStatus.SUCCEEDED)
    assert len(registered.server.said("registerApplicationMaster")) == 2


def test_an_attempt_put_away_between_two_calls_has_finished(registered):
    gone = registered.manager.java(EXCEPTIONS + "ApplicationAttemptNotFoundException", "gone")
    registered.manager.failing = [{"is_unregistered": False}, gone]
    assert registered.scheduler.finish(FinalStatus.SUCCEEDED)
    registered.manager.failing = [gone]
    with pytest.raises(Superseded):
        registered.scheduler.finish(FinalStatus.SUCCEEDED)


def test_an_open_beat_is_given_unchanged_and_progress_stays_between_nought_and_one():
    asks = Asks([Want("worker", 1, Size(512, 1), 2)])
    beat = Beat(asks)
    first = beat.next(1.5)
    asks.expect("worker", 7)
    assert beat.next(0.1) is first
    assert first["progress"] == 1.0
    beat.answered(1)
    assert [ask["num_containers"] for ask in beat.next(-1.0)["ask"]] == [7]
    assert beat.next(0.0)["progress"] == 0.0
