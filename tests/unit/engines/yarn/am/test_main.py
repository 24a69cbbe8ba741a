"""The whole ApplicationMaster as a process, against servers that speak the real bytes."""

import json
import os
import subprocess
import sys

import pytest
from stage import KEY, until

from dromon.engines.yarn.am import main as module
from dromon.engines.yarn.am import secrets
from dromon.hadoop import credentials
from dromon.hadoop.credentials import Credentials
from dromon.hadoop.messages.enums import FinalStatus
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.token import AM_RM, Token
from dromon.lifecycle import events as ev

START = "import sys; from dromon.engines.yarn.am.main import main; sys.exit(main())"
OWN = Token(b"own", b"password", AM_RM)
RECORD = "/user/al/.dromon/jobs/train-aaaaaa"
YARN = "org.apache.hadoop.yarn.exceptions."


class Cluster:
    """A ResourceManager that gives nothing. `answer`: what a beat is answered with."""

    def __init__(self, serve, root, name_node):
        self.root, self.name_node = root, name_node
        self.beat = {}
        self.patient = 0  # beats that are answered before `beat` is
        self.types = []
        self.number = 0
        self.server = serve(APPLICATION_MASTER, self._answer, OWN)

    def _answer(self, call):
        if call.method == "registerApplicationMaster":
            most = {"memory": 8192, "virtual_cores": 8}
            return {"maximum_capability": most, "resource_types": self.types}
        if call.method == "finishApplicationMaster":
            return {"is_unregistered": True}
        self.number += 1
        answer = {"response_id": self.number}
        return self.beat if self.beat and self.number > self.patient else answer

    def start(self, request, attempt=1):
        request = json.loads(json.dumps(request))
        request["cluster"]["webhdfs"] = [self.name_node.url]
        request["cluster"]["scheduler"] = [str(self.server.address)]
        (self.root / "request.json").write_text(json.dumps(request))
        given = credentials.load(secrets.pack(KEY, {}, Credentials()))
        (self.root / "tokens").write_bytes(credentials.dump(given.plus(Credentials({"": OWN}))))
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HADOOP_TOKEN_FILE_LOCATION": str(self.root / "tokens"),
            "CONTAINER_ID": f"container_1700000000000_0001_{attempt:02d}_000001",
            "NM_HOST": "127.0.0.1",
            "APP_SUBMIT_TIME_ENV": "1700000000000",
        }
        return subprocess.Popen(
            [sys.executable, "-c", START], cwd=self.root, env=environment, stderr=subprocess.PIPE
        )


@pytest.fixture
def cluster(serve, tmp_path, name_node):
    return Cluster(serve, tmp_path, name_node)


def end(process):
    _, said = process.communicate(timeout=30)
    return process.returncode, said.decode()


def test_a_job_that_yarn_refuses_ends_with_its_words_everywhere(cluster, make_request, java, hdfs):
    cluster.beat = java(f"{YARN}InvalidResourceRequestException", "Invalid resource request!")
    assert end(cluster.start(make_request())) == (0, "")
    (register,) = cluster.server.said("registerApplicationMaster")
    assert register["tracking_url"].startswith("http://127.0.0.1:")
    (last,) = cluster.server.said("finishApplicationMaster")
    assert last["final_application_status"] == FinalStatus.FAILED
    assert "Invalid resource request!" in last["diagnostics"]
    status = json.loads(hdfs.read(f"{RECORD}/status.json"))
    assert (status["state"], status["verdict"]["cause"]) == ("failed", "impossible")
    assert json.loads(hdfs.read(f"{RECORD}/coordinator.json"))["epoch"] == 1


def test_a_resource_that_the_cluster_does_not_know_is_named(cluster, make_request, hdfs):
    assert end(cluster.start(make_request(resources={"gpus": 1}))) == (0, "")
    (last,) = cluster.server.said("finishApplicationMaster")
    assert "worker asks for yarn.io/gpu" in last["diagnostics"]


def test_an_attempt_that_was_given_up_leaves_without_a_last_word(cluster, make_request, java):
    cluster.beat = java(f"{YARN}ApplicationAttemptNotFoundException", "no such attempt")
    code, said = end(cluster.start(make_request()))
    assert code == 0
    assert "knows this attempt no more" in said
    assert cluster.server.said("finishApplicationMaster") == []


def test_a_killed_master_is_followed_by_one_that_goes_on(cluster, make_request, java, hdfs):
    first = cluster.start(make_request())
    until(lambda: cluster.server.said("allocate"), "a beat")
    first.kill()
    first.communicate()
    cluster.server.calls.clear()
    cluster.number, cluster.patient = 0, 1
    cluster.beat = java(f"{YARN}InvalidResourceRequestException", "Invalid resource request!")
    assert end(cluster.start(make_request(), attempt=2)) == (0, "")
    assert len(cluster.server.said("finishApplicationMaster")) == 1
    names = {name for name, _ in hdfs.list(RECORD)}
    assert {"journal-1.closed", "journal-2"} <= names
    assert json.loads(hdfs.read(f"{RECORD}/coordinator.json"))["epoch"] == 2


# ---- parts --------------------------------------------------------------------------------------


def test_every_role_has_a_priority_of_its_own(make_request):
    roles = {
        "ps": {"command": "true", "replicas": 1},
        "worker": {"command": "true", "replicas": 2, "node_label": "fast", "spread": "node"},
    }
    wants = module._wants(make_request(command=None, framework="tensorflow", roles=roles))
    assert len({want.priority for want in wants}) == 2
    worker = next(want for want in wants if want.role == "worker")
    assert (worker.label, worker.spread, worker.count) == ("fast", True, 0)


def test_hosts_and_racks_that_a_role_names_are_asked_for(make_request):
    places = {"hosts": ["n1", "n2"], "racks": ["/r"], "strict": True}
    (worker,) = module._wants(make_request(yarn={"roles": {"worker": places}}))
    assert (worker.hosts, worker.racks, worker.strict) == (("n1", "n2"), ("/r",), True)
    (anywhere,) = module._wants(make_request())
    assert (anywhere.hosts, anywhere.racks, anywhere.strict) == ((), (), False)


def test_under_federation_the_node_stands_in_for_the_ResourceManager(  # noqa: N802
    tmp_path, monkeypatch
):
    def write(*pairs):
        text = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in pairs)
        (tmp_path / "yarn-site.xml").write_text(f"<configuration>{text}</configuration>")

    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("NM_HOST", "node7")
    assert module._proxy() == []  # no such file
    write(("x", "y"))
    assert module._proxy() == []
    write(("yarn.nodemanager.amrmproxy.enabled", "true"))
    assert [str(a) for a in module._proxy()] == ["node7:8049"]
    write(
        ("yarn.nodemanager.amrmproxy.enabled", "true"),
        ("yarn.nodemanager.amrmproxy.address", "0.0.0.0:9000"),
    )
    assert [str(a) for a in module._proxy()] == ["node7:9000"]
    (tmp_path / "yarn-site.xml").write_text("not xml")
    assert module._proxy() == []


def test_the_last_word_names_who_failed_and_its_last_lines(stage):
    job = stage(replicas=2)
    first, second = job.run(2)
    first.exited(3, last_lines=[f"line {n}" for n in range(9)])
    second.wait("stop")
    second.exited(0, stopped=True)
    job.wait_state("failed")
    status, words = module._last_word(job.master)
    assert status == FinalStatus.FAILED
    lines = words.splitlines()
    assert lines[0] == "user_error in worker-0 (rank 0)"
    assert lines[-5:] == [f"line {n}" for n in range(4, 9)]


def test_a_stopped_job_is_killed_to_yarn_and_a_successful_one_succeeds(stage):
    job = stage(replicas=1)
    job.ask(lambda master: master.happen(ev.StopRequested("ann")))
    until(lambda: not job._thread.is_alive(), "the end")
    assert module._last_word(job.master)[0] == FinalStatus.KILLED
    other = stage(epoch=2, replicas=1)
    (agent,) = other.run(1)
    agent.exited(0)
    other.wait_state("succeeded")
    assert module._last_word(other.master)[0] == FinalStatus.SUCCEEDED
