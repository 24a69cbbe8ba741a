"""The engine over a ResourceManager and HDFS that speak the real bytes: finding, waiting, links."""

import json

import pytest

from dromon.contexts.file import Context
from dromon.engines.yarn.engine import YarnEngine
from dromon.engines.yarn.why import of_gang
from dromon.errors import JobNotFound, Refused
from dromon.hadoop.messages.client import APPLICATION_CLIENT
from dromon.hadoop.messages.enums import ApplicationState
from dromon.lifecycle import states
from dromon.storage.hdfs import Hdfs

ID = "train-aaaaaa"
APP = "application_1700000000000_0007"


def site_xml(**settings):
    text = "".join(
        f"<property><name>{name.replace('_', '.')}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{text}</configuration>"


class Cluster:
    def __init__(self, rpc_server, name_node, root):
        self.applications = []
        self.killed = []
        self.server = rpc_server(APPLICATION_CLIENT, self._answer)
        self.root = root
        (root / "yarn-site.xml").write_text(
            site_xml(
                yarn_resourcemanager_address=self.server.address,
                yarn_resourcemanager_hostname="127.0.0.1",
            )
        )
        web = name_node.url.removeprefix("http://")
        text = site_xml(fs_defaultFS="hdfs://127.0.0.1:1")
        (root / "core-site.xml").write_text(text)
        (root / "hdfs-site.xml").write_text(site_xml(**{"dfs.namenode.http-address": web}))

    def _answer(self, call):
        if call.method == "getApplications":
            tags = set(call.message["application_tags"])
            found = [a for a in self.applications if not tags or tags & set(a["application_tags"])]
            return {"applications": found}
        if call.method == "forceKillApplication":
            self.killed.append(call.message)
            return {"is_kill_completed": True}
        raise AssertionError(call.method)

    def add(self, number, id, state=ApplicationState.RUNNING, user="al"):
        app = {"cluster_timestamp": 1700000000000, "id": number}
        self.applications.append(
            {
                "application_id": app, "user": user, "queue": "default", "name": id,
                "yarn_application_state": state, "application_type": "DROMON",
                "application_tags": [f"dromon:{id}"], "start_time": 1700000000000 + number,
                "current_application_attempt_id": {"application_id": app, "attempt_id": 1},
            }
        )  # fmt: skip


def standing(**more):
    return {
        "trouble": "", "state": states.QUEUED, "fenced": [], "missing": {"worker": 0}, **more
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "words", "reason"),
    [
        ({"trouble": "n1 did not start a container"}, "n1 did not start", "resources"),
        ({"state": states.RESTARTING}, "before it tries again", "backoff"),
        (
            {"state": states.RUNNING, "fenced": ["worker-1"]},
            "worker-1: its node was lost",
            "backoff",
        ),
        ({}, "on their way to the barrier", "barrier"),
        ({"state": states.STARTING}, "on their way to the barrier", "barrier"),
    ],
)
def test_what_the_gang_waits_for_is_said_in_words(more, words, reason):
    found = of_gang(standing(**more))
    assert found is not None
    assert words in found.sentence
    assert found.reason == reason


@pytest.mark.parametrize(
    "more", [{"missing": {"worker": 2}}, {"state": states.RUNNING}, {"state": states.STOPPING}]
)
def test_where_yarn_knows_better_or_nothing_is_waited_for_the_gang_says_nothing(more):
    assert of_gang(standing(**more)) is None


@pytest.fixture
def cluster(rpc_server, name_node, tmp_path, monkeypatch):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return Cluster(rpc_server, name_node, tmp_path)


@pytest.fixture
def engine(cluster, tmp_path):
    made = YarnEngine(Context("prod", "yarn", str(cluster.root), user="al"), str(tmp_path / "home"))
    yield made
    made.close()


def test_a_job_is_found_as_people_name_it(cluster, engine):
    cluster.add(7, ID)
    cluster.add(8, "eval-bbbbbb")
    for ref in (ID, "7", "train", "tra", "@last~1"):
        assert engine.find(ref) == ID
    with pytest.raises(JobNotFound, match="no job nothing on prod"):
        engine.find("nothing")
    with pytest.raises(JobNotFound):
        engine.find("@last~x")


def test_a_job_that_yarn_has_forgotten_is_found_by_its_record(cluster, engine, hdfs):
    hdfs.write(f"/user/al/.dromon/jobs/{ID}/application", APP.encode())
    assert engine.find(ID) == ID


def test_a_jobs_status_is_what_its_master_wrote_last_where_nobody_answers(cluster, engine, hdfs):
    cluster.add(7, ID)
    told = {
        "state": "running", "attempt": 3, "started": 5.0, "verdict": None, "members": [],
    }  # fmt: skip
    hdfs.write(f"/user/al/.dromon/jobs/{ID}/status.json", json.dumps(told).encode())
    found = engine.status(ID)
    assert (found.state, found.attempt) == ("running", 3)


def test_a_job_whose_master_is_silent_is_ended_by_yarn_when_nobody_wants_to_wait(cluster, engine):
    cluster.add(7, ID)
    engine.stop(ID, 0)
    assert cluster.killed[0]["application_id"]["id"] == 7


def test_a_job_that_never_ran_is_ended_by_yarn(cluster, engine):
    cluster.add(7, ID, ApplicationState.ACCEPTED)
    engine.stop(ID)
    assert cluster.killed[0]["application_id"]["id"] == 7


def test_while_hdfs_is_away_a_job_stands_as_yarn_says(cluster, engine):
    nobody = site_xml(**{"dfs.namenode.http-address": "127.0.0.1:9"})
    (cluster.root / "hdfs-site.xml").write_text(nobody)
    engine.__dict__["hdfs"] = Hdfs.connect(engine.cluster.site, "al", patience=0.1)
    cluster.add(7, ID)
    cluster.add(8, "eval-bbbbbb", ApplicationState.ACCEPTED)
    cluster.add(9, "done-cccccc", ApplicationState.KILLED)
    assert engine.status(ID).state == "running"
    waiting = engine.why(ID)
    assert waiting.reason == "unknown"
    assert "does not answer" in waiting.sentence
    assert engine.status("eval-bbbbbb").state == "queued"
    assert engine.status("done-cccccc").state == "stopped"


def test_a_job_that_is_over_is_not_stopped_and_one_that_runs_not_removed(cluster, engine):
    cluster.add(7, ID, ApplicationState.FINISHED)
    cluster.add(8, "eval-bbbbbb")
    assert engine.stop_ref(ID) == {"id": ID, "active": False}
    assert cluster.killed == []
    with pytest.raises(Refused, match="still active"):
        engine.remove(["eval-bbbbbb"])


def test_a_job_nobody_knows_is_named(cluster, engine):
    with pytest.raises(JobNotFound):
        engine.status("none-cccccc")
