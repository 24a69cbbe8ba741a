"""What is gathered around a job, and what is left out where nobody may look."""

import pytest
from clusterview import Cluster

from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.refusals import NoVolcano
from dromon.engines.kubernetes.why import explain
from dromon.errors import JobNotFound


@pytest.fixture
def cluster():
    return Cluster()


def test_everything_is_there_for_who_may_look(cluster):
    cluster.node("n1")
    job = cluster.job()
    cluster.group(job, said="no")
    cluster.pod(job, 0, "n1")
    cluster.event("train-aaaaaa-worker-0", "Old", "first", after=10)
    cluster.event("train-aaaaaa-worker-0", "New", "last", after=20)
    cluster.event("somebody-else", "New", "theirs", after=30)
    cluster.quota("q", {"pods": "5"}, {"pods": "1"})
    s = cluster.look()
    assert list(s.pods) == ["worker-0"]
    assert s.group.phase == "Inqueue"
    assert s.group.conditions[0].message == "no"
    assert (s.queue.name, s.queue.parent) == ("team", "root")
    assert [event.message for event in s.events] == ["last", "first"]
    assert s.nodes[0].free["nvidia.com/gpu"] == 4.0
    assert s.quotas[0].hard == {"pods": 5.0}
    assert (s.priority, s.notes, s.peers) == (50, (), ())


def test_a_job_that_is_not_there(cluster):
    with pytest.raises(JobNotFound, match="no job nothing in namespace ml"):
        cluster.look("nothing")


def test_pods_that_are_over_hold_nothing(cluster):
    cluster.node("n1")
    job = cluster.job()
    cluster.pod(job, 0, "n1", phase="Succeeded")
    assert cluster.look().nodes[0].used == {}
    assert "worker-0" in cluster.look().pods


def test_pods_of_a_namesake_that_was_there_before_do_not_count(cluster):
    job = cluster.job()
    old = cluster.pod(job, 0, "n1")
    old["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert cluster.look().pods == {}


@pytest.mark.parametrize(
    ("plural", "where", "note"),
    [
        ("nodes", "", "may not look at nodes"),
        ("pods", "", "may not look at pods of other namespaces"),
        ("queues", "", "may not look at queues"),
        ("events", "ml", "may not look at events"),
        ("resourcequotas", "ml", "may not look at quotas"),
        ("priorityclasses", "", "may not look at priority classes"),
        ("podgroups", "ml", "may not look at PodGroups"),
        ("jobs", "", "may not look at jobs of other namespaces"),
    ],
)
def test_what_is_forbidden_is_noted_and_the_rest_is_there(cluster, plural, where, note):
    cluster.node("n1")
    job = cluster.job()
    cluster.pod(job, 0, "n1")
    cluster.forbidden = {(plural, where)}
    s = cluster.look()
    assert s.notes == (note,)
    assert list(s.pods) == ["worker-0"]
    assert explain(s, cluster.now).sentence


def test_nothing_but_the_job_itself_need_be_seen(cluster):
    job = cluster.job()
    cluster.group(job)
    plurals = ("nodes", "queues", "events", "resourcequotas", "priorityclasses", "podgroups")
    cluster.forbidden = {(p, where) for p in plurals for where in ("", "ml")}
    cluster.forbidden |= {("pods", ""), ("pods", "ml"), ("jobs", "")}
    found = explain(cluster.look(), cluster.now)
    assert found.sentence.endswith("events, nodes and quotas)")
    assert found.reason == "unknown"


def test_others_are_known_by_the_job_they_belong_to(cluster):
    cluster.node("n1")
    cluster.job()
    cluster.runs("other-bbbbbb", "n1", "n1", priority="high", namespace="web")
    (peer,) = cluster.look().peers
    assert (peer.name, peer.namespace, peer.priority, peer.phase) == (
        "other-bbbbbb", "web", 90, "Running",
    )  # fmt: skip
    assert peer.held["nvidia.com/gpu"] == 8.0
    assert peer.nodes["n1"]["nvidia.com/gpu"] == 8.0


class WithoutVolcano(Cluster):
    def list(self, kind, namespace="", labels="", fields=""):
        if kind.group.endswith("volcano.sh"):
            raise NoVolcano("this cluster has no Volcano")
        return super().list(kind, namespace, labels, fields)


def test_a_plain_job_is_explained_without_volcano():
    cluster = WithoutVolcano()
    cluster.node("n1", gpus=0, cpu="1")
    container = {"name": "main", "image": "py:1", "resources": {"requests": {"cpu": "4"}}}
    template = {
        "metadata": {"labels": {"dromon.io/role": "main"}}, "spec": {"containers": [container]},
    }  # fmt: skip
    cluster.objects[volcano.PLAIN_JOB].append(
        {"metadata": {"name": "one-aaaaaa", "namespace": "ml", "uid": "u",
                      "creationTimestamp": cluster.stamp()},
         "spec": {"template": template}, "status": {"active": 1, "ready": 0}}
    )  # fmt: skip
    found = explain(cluster.look("one-aaaaaa"), cluster.now)
    assert found.sentence == ("a pod of main needs 4 CPUs and no node has that much; n1 has 1 CPU")
