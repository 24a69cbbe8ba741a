"""Logs of ended containers, from a node that answers as NodeManagers do."""

import base64
import http.server
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from stage import name, until

from dromon.engines.yarn.am.leftlogs import LeftLogs

LOG = b"first\nLogContents:\nlast" + bytes(range(256)) * 4096


class Node(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.status = 200

    @property
    def page(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Node

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()
        head = f"Container: {name(2)} on n1\nLogAggregationType: LOCAL\n=====\nLogType:x.log\n"
        head += f"LogLastModifiedTime:now\nLogLength:{len(LOG)}\nLogContents:\n"
        self.wfile.write(head.encode() + LOG + b"\nEnd of LogType:x.log\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def piece(left: LeftLogs, page: str, offset: int = 0, log: str = "worker-1.1.log") -> bytes | None:
    answers: queue.Queue = queue.Queue()
    left.read(log, name(2), page, offset, answers.put)
    answer = answers.get(timeout=30)
    return None if answer is None else base64.b64decode(answer["data"])


def test_a_log_comes_whole_in_pieces_and_is_fetched_once(node, tmp_path: Path):
    left, found = LeftLogs("al", str(tmp_path / "left")), b""
    while data := piece(left, node.page, len(found)):
        found += data
    assert found == LOG
    assert node.asked == [f"/ws/v1/node/containerlogs/{name(2)}/worker-1.1.log?user.name=al"]


def test_a_node_that_refuses_is_not_asked_again_at_once(node, tmp_path: Path):
    node.status = 403
    left = LeftLogs("al", str(tmp_path / "left"))
    assert piece(left, node.page) is None
    assert piece(left, node.page) is None
    assert len(node.asked) == 1


@pytest.mark.parametrize("log", ["../key", "key", "worker-1.1.log/../../key"])
def test_nothing_but_logs_is_asked_for(node, tmp_path: Path, log: str):
    assert piece(LeftLogs("al", str(tmp_path)), node.page, log=log) is None
    assert node.asked == []


def test_the_log_of_a_member_that_went_on_elsewhere_is_read_where_it_was(
    stage, node, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    job = stage(replicas=2, policies={"member_lost": "restart_member"})
    job.run(2)
    job.ask(lambda master: master.containers.pages.update({name(2): node.page}))
    job.over(2, 137)
    job.grant(3)
    job.agent("worker-1", 3).wait("again")
    answers: queue.Queue = queue.Queue()
    job.ask(lambda master: master.read_log("worker-1", "worker-1.1.log", 0, answers.put))
    assert base64.b64decode(answers.get(timeout=30)["data"]) == LOG[: 256 * 1024]
    # The one that runs is asked itself.
    job.ask(lambda master: master.read_log("worker-0", "worker-0.1.log", 0, answers.put))
    until(lambda: job.agents[0].of("read"), "its agent to be asked")
    assert len(node.asked) == 1
