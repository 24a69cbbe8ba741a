import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dromon.engines.yarn.am.asks import Container, Size
from dromon.engines.yarn.am.nodes import Launch, LocalResource, Nodes, Outcome, launch_context
from dromon.engines.yarn.am.scheduler import Completed
from dromon.hadoop import ids
from dromon.hadoop.addresses import Address
from dromon.hadoop.failover import Policy
from dromon.hadoop.faults import LocalProtocolError
from dromon.hadoop.messages.launch import CONTAINER_LAUNCH_CONTEXT
from dromon.hadoop.messages.nodes import CONTAINER_MANAGEMENT
from dromon.hadoop.protobuf import decode, encode
from dromon.hadoop.server import Call
from dromon.hadoop.token import Token
from dromon.hadoop.transport import RpcClient

FIRST, SECOND = (Token(key, b"password", "NMToken") for key in (b"first", b"second"))


def name(number: int) -> str:
    return f"container_1700000000000_0001_01_{number:06d}"


def container(number: int, node: str) -> Container:
    token = Token(b"launch %d" % number, b"p", "ContainerToken")
    return Container(name(number), node, Size(512, 1), 1, 1, token)


class FakeNode:
    """A NodeManager with a list of containers; `failing`: id -> exception words."""

    def __init__(self, serve: Callable[..., Any], *tokens: Token) -> None:
        self.failing: dict[str, str] = {}
        self.first: list[Any] = []  # answers that come before the right ones
        self.running: list[str] = []
        self.meet: threading.Barrier | None = None
        self.server = serve(CONTAINER_MANAGEMENT, self, *tokens)
        self.node = str(self.server.address)

    def __call__(self, call: Call) -> Any:
        if self.meet is not None:
            self.meet.wait(30)
        if self.first:
            return self.first.pop(0)
        return getattr(self, call.method)(call.message)

    def split(self, found: list[str]) -> dict[str, Any]:
        exception = "org.apache.hadoop.yarn.exceptions.InvalidContainerException"
        failed = [
            {
                "container_id": ids.parse_container(one),
                "exception": {"message": self.failing[one], "class_name": exception},
            }
            for one in found
            if one in self.failing
        ]
        done = [ids.parse_container(one) for one in found if one not in self.failing]
        return {"succeeded_requests": done, "failed_requests": failed}

    def startContainers(self, message: Any) -> Any:  # noqa: N802 - Hadoop's name
        found = [
            name(int(one["container_token"]["identifier"].split()[1]))
            for one in message["start_container_request"]
        ]
        self.running += [one for one in found if one not in self.failing]
        return self.split(found)

    def stopContainers(self, message: Any) -> Any:  # noqa: N802 - Hadoop's name
        return self.split([ids.container(one) for one in message["container_id"]])

    def getContainerStatuses(self, message: Any) -> Any:  # noqa: N802 - Hadoop's name
        found = [ids.container(one) for one in message["container_id"]]
        states = [
            {"container_id": ids.parse_container(one), "state": 3, "exit_status": 7}
            for one in found
            if one not in self.failing
        ]
        return {"status": states, "failed_requests": self.split(found)["failed_requests"]}


def connect(node: str, token: Token) -> RpcClient:
    host, _, port = node.rpartition(":")
    policy = Policy(base=0.01, cap=0.01, patience=0.1)
    address = Address(host, int(port))
    return RpcClient(CONTAINER_MANAGEMENT, [address], token, what="NodeManager", policy=policy)


@pytest.fixture
def node(serve: Callable[..., Any]) -> FakeNode:
    return FakeNode(serve, FIRST)


@pytest.fixture
def nodes(node: FakeNode) -> Iterator[Nodes]:
    made = Nodes({node.node: FIRST}, connect=connect)
    yield made
    made.close()


def launches(*containers: Container) -> list[Launch]:
    return [Launch(one, launch_context({}, {"WHO": one.id}, ["true"])) for one in containers]


def test_containers_of_a_node_start_in_one_call(node, nodes):
    ours = [container(i, node.node) for i in range(1, 5)]
    outcomes = list(nodes.start(launches(*ours)))
    assert outcomes == [Outcome(one) for one in ours]
    assert node.running == [name(i) for i in range(1, 5)]
    (said,) = node.server.said("startContainers")
    first = said["start_container_request"][0]
    assert first["container_launch_context"]["command"] == ["true"]
    assert first["container_launch_context"]["environment"] == [{"key": "WHO", "value": name(1)}]


def test_nodes_are_talked_to_at_the_same_time(serve):
    several = [FakeNode(serve, FIRST) for _ in range(4)]
    meet = threading.Barrier(len(several))
    for one in several:
        one.meet = meet  # nobody answers before everybody was asked
    nodes = Nodes({one.node: FIRST for one in several}, connect=connect)
    ours = [container(i, one.node) for i, one in enumerate(several)]
    assert all(outcome.ok for outcome in nodes.start(launches(*ours)))
    nodes.close()


def test_one_container_that_fails_does_not_hinder_the_others(node, nodes):
    node.failing = {name(2): "Unauthorized request to start container.\nThis token is expired."}
    ours = [container(i, node.node) for i in (1, 2)]
    good, bad = nodes.start(launches(*ours))
    assert good.ok
    assert bad.failure == "Unauthorized request to start container. This token is expired."


@pytest.mark.parametrize(
    "words",
    [
        f"Container {name(1)} already is running on this node!!",
        f"Unauthorized request to start container.\nAttempt to relaunch the same container "
        f"with id {name(1)}.",
    ],
)
def test_a_start_that_was_repeated_after_a_lost_answer_is_a_start(node, nodes, hang_up, words):
    node.first = [hang_up]
    node.failing = {name(1): words}
    (outcome,) = nodes.start(launches(container(1, node.node)))
    assert outcome.ok
    assert len(node.server.said("startContainers")) == 2


def test_a_node_that_is_not_ready_is_asked_again(node, nodes, java):
    node.first = [java("org.apache.hadoop.yarn.exceptions.NMNotYetReadyException", "wait")]
    (outcome,) = nodes.start(launches(container(1, node.node)))
    assert outcome.ok


def test_a_node_that_is_gone_is_a_failure_in_words(node, nodes):
    gone = container(1, node.node)
    node.server.close()
    node.server.close = lambda: None
    (outcome,) = nodes.start(launches(gone))
    assert outcome.failure == (
        f"the NodeManager at {node.node} refused the connection: is it running?"
    )


def test_a_node_without_a_token_is_a_failure_in_words(nodes):
    (outcome,) = nodes.start(launches(container(1, "elsewhere:1")))
    assert outcome.failure == "YARN gave no token for the node elsewhere:1"


def test_stopping_and_asking_name_the_containers(node, nodes):
    ours = [container(i, node.node) for i in (1, 2)]
    node.failing = {name(2): "no such container"}
    assert list(nodes.stop(ours)) == [Outcome(ours[0]), Outcome(ours[1], "no such container")]
    first, second = nodes.statuses(ours)
    assert first.status == Completed(name(1), 7, "N/A", True)
    assert (second.failure, second.status) == ("no such container", None)


def test_the_connection_of_a_node_ends_with_our_last_container_there(node, nodes):
    ours = [container(i, node.node) for i in (1, 2)]
    list(nodes.start(launches(*ours)))
    nodes.ended(ours[0])
    list(nodes.stop(ours))
    assert node.server.connections == 1
    nodes.ended(ours[1])
    list(nodes.stop(ours))
    assert node.server.connections == 2


def test_a_newer_token_is_used_for_the_next_connection(node, nodes):
    one = container(1, node.node)
    list(nodes.start(launches(one)))
    node.server.tokens = [SECOND]
    nodes.learn({node.node: SECOND})
    node.server.hang_up()
    (outcome,) = nodes.stop([one])
    assert outcome.ok
    assert len({call.user for call in node.server.calls}) == 2


def test_many_containers_of_a_node_go_in_several_calls(node, nodes):
    ours = [container(i, node.node) for i in range(120)]
    assert sum(outcome.ok for outcome in nodes.start(launches(*ours))) == 120
    sizes = [len(said["start_container_request"]) for said in node.server.said("startContainers")]
    assert sorted(sizes) == [20, 50, 50]


def test_closing_cuts_off_what_is_under_way_and_answers_for_the_rest(serve):
    silent = FakeNode(serve, FIRST)
    silent.meet = threading.Barrier(2)
    nodes = Nodes({silent.node: FIRST, "waiting:1": FIRST}, connect=connect, threads=1)
    outcomes = nodes.start(launches(container(1, silent.node), container(2, "waiting:1")))
    while not silent.server.calls:
        time.sleep(0.01)
    nodes.close()
    assert all(not outcome.ok for outcome in outcomes)
    silent.meet.wait(30)


def test_a_launch_context_says_what_to_fetch_and_to_run():
    blob = LocalResource(
        "hdfs://nn:9000/user/a/.dromon/blobs/a%20b.tar.gz", 12, 1700, "archive", "public"
    )
    plain = LocalResource("hdfs://cluster/x.pyz", 3, 1800)
    context = launch_context(
        {"code": blob, "x.pyz": plain},
        {"PATH": "{{PWD}}/bin:/bin"},
        ["python", "x.pyz", "1><LOG_DIR>/stdout"],
        b"HDTS",
        {"VIEW_APP": "*", "MODIFY_APP": "alice"},
    )
    read = decode(CONTAINER_LAUNCH_CONTEXT, encode(CONTAINER_LAUNCH_CONTEXT, context))
    code, file = (one["value"] for one in read["local_resources"])
    assert [one["key"] for one in read["local_resources"]] == ["code", "x.pyz"]
    assert code["resource"] == {
        "scheme": "hdfs", "host": "nn", "port": 9000, "file": "/user/a/.dromon/blobs/a b.tar.gz",
    }  # fmt: skip
    assert (code["size"], code["timestamp"], code["type"], code["visibility"]) == (12, 1700, 1, 1)
    assert (file["type"], file["visibility"], file["resource"]["port"]) == (2, 2, -1)
    assert read["command"] == ["python", "x.pyz", "1><LOG_DIR>/stdout"]
    assert read["tokens"] == b"HDTS"
    assert read["application_acls"] == [
        {"access_type": 1, "acl": "*"},
        {"access_type": 2, "acl": "alice"},
    ]


@pytest.mark.parametrize(
    ("environment", "command"),
    [({"JSON": '{"a": {"b": 1}}'}, []), ({}, ['echo "hello"']), ({}, ["echo }}"])],
)
def test_what_yarn_would_garble_is_refused(environment, command):
    with pytest.raises(LocalProtocolError):
        launch_context({}, environment, command)
