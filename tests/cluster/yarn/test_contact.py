"""The hadoop room speaks with a real ResourceManager: no Java, no Hadoop, only its bytes."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from testbeds.yarn.bed import Bed
from testbeds.yarn.plan import GPUS, QUEUES

from dromon.hadoop import addresses, site
from dromon.hadoop.connection import RpcConnection
from dromon.hadoop.events import Reply, RpcError
from dromon.hadoop.messages.client import APPLICATION_CLIENT
from dromon.hadoop.sasl import Simple

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def load(bed: Bed) -> site.Site:
    """The client's configuration directory, as HADOOP_CONF_DIR would name it."""
    files = {path.name: path.read_text() for path in Path(bed.plan.conf()).glob("*.xml")}
    return site.load(files, dict(os.environ), {})


def ask(bed: Bed, method: str, step: int = 65536, **message: Any) -> Any:
    """One question over a connection of its own; the bytes of the answer come `step` at a time."""
    (manager,) = addresses.resource_managers(load(bed))
    conn = RpcConnection(APPLICATION_CLIENT, Simple("root"), os.urandom(16))
    conn.call(method, message)
    with socket.create_connection((manager.client.host, manager.client.port), 30) as sock:
        while True:
            sock.sendall(conn.data_to_send())
            conn.receive_data(sock.recv(step))
            for event in conn.events_received():
                return event


def test_the_resource_manager_tells_its_nodes_and_their_gpus(bed: Bed):
    answer = ask(bed, "getClusterNodes")
    assert isinstance(answer, Reply)
    nodes = answer.message["node_reports"]
    assert len(nodes) == len(bed.plan.nodes)
    gpus = {
        value["key"]: value["value"]
        for node in nodes
        for value in node["capability"]["resource_value_map"]
        if value["key"] == "yarn.io/gpu" and value["value"]
    }
    assert gpus == {"yarn.io/gpu": GPUS}


def test_an_answer_that_trickles_in_is_the_same_answer(bed: Bed):
    whole = ask(bed, "getClusterMetrics")
    assert ask(bed, "getClusterMetrics", step=1).message == whole.message


def test_every_queue_is_there(bed: Bed):
    found = {
        name: ask(bed, "getQueueInfo", queue_name=name, include_applications=False)
        for name in QUEUES
    }
    assert all(isinstance(answer, Reply) for answer in found.values()), found
    assert {n: a.message["queue_info"]["queue_name"] for n, a in found.items()} == {
        name: name for name in QUEUES
    }


def test_a_new_application_has_a_number_of_its_own(bed: Bed):
    first, second = (ask(bed, "getNewApplication").message["application_id"] for _ in range(2))
    assert second["id"] == first["id"] + 1


def test_what_the_resource_manager_refuses_comes_with_its_own_words(bed: Bed):
    unknown = {"cluster_timestamp": 1, "id": 1}
    answer = ask(bed, "getApplicationReport", application_id=unknown)
    assert isinstance(answer, RpcError)
    assert answer.exception.endswith("ApplicationNotFoundException")
    assert "application_1_0001" in answer.text
