"""Changing queues and draining the machine, asked of a real daemon."""

import pytest

from dromon.errors import JobFileError, UsageError


def test_a_change_is_a_version_and_a_wrong_one_is_none(local):
    version = local.change_queue("set", "research", ["limit.gpus=1"])["version"]
    with pytest.raises(JobFileError) as caught:
        local.change_queue("set", "research", ["deserved.gpus=2", "aging=-1"])
    paths = {problem.path for problem in caught.value.problems}
    assert paths == {"queues.research.aging", "queues.research.deserved.gpus"}
    newest = local.queue_history(1)[0]
    assert newest["version"] == version
    assert newest["site"]["queues"]["research"] == {"limit": {"gpus": 1}}
    assert newest["user"]


def test_a_queue_is_removed_only_when_nothing_is_in_it(local, jobs):
    local.change_queue("set", "lab", ["weight=1"])
    local.change_queue("set", "vision", ["parent=lab"])
    with pytest.raises(UsageError, match="queue lab is above vision"):
        local.change_queue("rm", "lab")
    id = jobs.run("sleep 60", queue="vision", resources={"cpus": 0})
    with pytest.raises(UsageError, match=f"queue vision still has 1 job: {id}"):
        local.change_queue("rm", "vision")
    local.stop(id, 0.0)
    jobs.end(id)
    local.change_queue("rm", "vision")
    local.change_queue("rm", "lab")
    assert "lab" not in {view["name"] for view in local.queue_views()["views"]}


@pytest.mark.parametrize(
    ("action", "name", "words"),
    [
        ("drain", "nowhere", "there is no queue 'nowhere'"),
        ("set", "root", "root is all there is"),
        ("rm", "default", "is not the site's to remove"),
    ],
)
def test_what_is_not_there_cannot_be_changed(local, action, name, words):
    with pytest.raises(UsageError, match=words):
        local.change_queue(action, name, ["weight=1"] if action == "set" else [])


def test_another_node_is_not_this_daemons_to_drain(local):
    with pytest.raises(UsageError, match="there is no node 'elsewhere' here"):
        local.drain_node("elsewhere", True)
    before = len(local.queue_history(100))
    local.drain_node(None, False)  # it is open already: nothing to note
    assert len(local.queue_history(100)) == before


def test_history_has_what_a_job_asked_for_and_how_long_it_ran(local, jobs):
    id = jobs.run("true", resources={"cpus": 0, "gpus": 1}, replicas=2)
    jobs.end(id)
    (found,) = [job for job in local.history() if job["id"] == id]
    assert (found["state"], found["roles"]["worker"]["gpus"]) == ("succeeded", 1)
    assert found["ran"] > 0
    assert found["submitted"] <= found["started"] <= found["ended"]
    report = local.report(found["submitted"] - 1)
    assert report["users"][0]["gpu_hours"] > 0
    assert report["waits"]["starts"] >= 1
