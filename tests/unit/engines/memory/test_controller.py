"""The controller alone, over pods that are small programs and know nothing of Dromon."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dromon.engines.memory.cluster import RUNNING, Cluster
from dromon.engines.memory.controller import Controller, lacking

SLEEP = "import time; time.sleep(60)"
POLICIES = [
    {"exitCode": 203, "action": "TerminateJob"},
    {"event": "PodEvicted", "action": "RestartJob"},
    {"event": "PodFailed", "action": "RestartJob"},
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(cpus=4)
    yield cluster
    cluster.close()


@pytest.fixture
def controller(cluster: Cluster) -> Iterator[Controller]:
    controller = Controller(cluster)
    yield controller
    controller.drop()


def put(cluster: Cluster, name: str, script: str, **changes: Any) -> None:
    """A job of two pods with one CPU each."""
    task = {"name": "w", "replicas": 2, "minAvailable": 2, "grace": 1.0, "resources": {"cpus": 1}}
    spec = {
        "tasks": [{**task, **changes.pop("task", {})}],
        "policies": POLICIES,
        "maxRetry": changes.pop("maxRetry", 1000),
        "priority": changes.pop("priority", 0),
        "preemptible": changes.pop("preemptible", False),
        "command": ["-S", "-c", script],
    }
    job = {"name": name, "number": len(cluster.jobs()), "spec": spec, "phase": "Pending"}
    rest = {
        "version": 1,
        "retried": 0,
        "terminate": False,
        "private": [],
        "ended": None,
        "since": time.time(),
    }
    cluster.put(name, {**job, **rest, **changes})


def until(predicate: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 20
    while not predicate() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(predicate())


def phase(cluster: Cluster, job: str) -> str:
    found = cluster.get(job)
    assert found is not None
    return str(found["phase"])


def alive(cluster: Cluster, job: str) -> list[str]:
    return sorted(p.member for p in cluster.pods(job) if p.phase == RUNNING)


@pytest.mark.usefixtures("controller")
def test_pods_that_all_exit_with_0_complete_the_job(cluster: Cluster) -> None:
    put(cluster, "a", "pass")
    assert until(lambda: phase(cluster, "a") == "Completed")
    assert [p.code for p in cluster.pods("a")] == [0, 0]


@pytest.mark.usefixtures("controller")
def test_a_gang_gets_all_of_its_pods_or_none(cluster: Cluster) -> None:
    put(cluster, "holder", SLEEP, task={"replicas": 1, "minAvailable": 1, "resources": {"cpus": 3}})
    assert until(lambda: alive(cluster, "holder") == ["w-0"])
    put(cluster, "gang", SLEEP)
    put(cluster, "other", "pass", task={"resources": {"cpus": 0.1}})  # lets nobody pass
    assert lacking(cluster, cluster.get("gang")["spec"]) == {"cpus": 1}  # type: ignore[index]
    assert alive(cluster, "gang") == []
    cluster.kill(cluster.pods("holder")[0])
    cluster.put("holder", {**cluster.get("holder"), "terminate": True})  # type: ignore[dict-item]
    assert until(lambda: alive(cluster, "gang") == ["w-0", "w-1"])
    assert until(lambda: phase(cluster, "other") == "Completed")


@pytest.mark.usefixtures("controller")
def test_the_loss_of_one_pod_replaces_them_all(cluster: Cluster) -> None:
    put(cluster, "a", SLEEP)
    assert until(lambda: alive(cluster, "a") == ["w-0", "w-1"])
    cluster.kill(cluster.pods("a")[1])
    assert until(lambda: [p.version for p in cluster.pods("a") if p.phase == RUNNING] == [2, 2])
    assert all(p.deleted for p in cluster.pods("a", version=1))


@pytest.mark.usefixtures("controller")
def test_the_first_policy_that_matches_wins(cluster: Cluster) -> None:
    script = "import sys, time; sys.exit(203) if sys.argv[1] == 'w-0' else time.sleep(60)"
    put(cluster, "a", script)
    assert until(lambda: phase(cluster, "a") == "Terminated")
    assert {p.version for p in cluster.pods("a")} == {1}
    assert alive(cluster, "a") == []


@pytest.mark.usefixtures("controller")
def test_failures_are_retried_up_to_the_limit(cluster: Cluster) -> None:
    put(cluster, "a", "import sys; sys.exit(1)", maxRetry=2)
    assert until(lambda: phase(cluster, "a") == "Failed")
    assert {p.version for p in cluster.pods("a")} == {1, 2, 3}


@pytest.mark.usefixtures("controller")
def test_a_deleted_pod_gets_its_grace_and_then_is_killed(cluster: Cluster) -> None:
    # The program stands in for a pod's runtime, which dies of SIGQUIT.
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    put(cluster, "a", deaf, task={"grace": 0.2})
    assert until(lambda: len(alive(cluster, "a")) == 2)
    cluster.delete(cluster.pods("a")[0])
    assert until(lambda: len(cluster.pods("a", version=2)) == 2)


def test_a_new_controller_goes_on_where_the_old_one_was_dropped(cluster: Cluster) -> None:
    old = Controller(cluster)
    put(cluster, "running", SLEEP)
    assert until(lambda: len(alive(cluster, "running")) == 2)
    old.drop()
    put(cluster, "new", "pass")
    lost = cluster.pods("running")[0]
    cluster.kill(lost)
    assert until(lambda: lost.phase != RUNNING)
    assert phase(cluster, "running") == "Running"  # nobody looks
    new = Controller(cluster)
    try:
        assert until(lambda: len(cluster.pods("running", version=2)) == 2)
        assert until(lambda: phase(cluster, "new") == "Completed")
    finally:
        new.drop()


@pytest.mark.usefixtures("controller")
def test_members_beyond_the_minimum_come_when_there_is_room(cluster: Cluster) -> None:
    put(cluster, "holder", SLEEP, task={"resources": {"cpus": 1.5}})
    assert until(lambda: len(alive(cluster, "holder")) == 2)
    put(cluster, "a", SLEEP, task={"minAvailable": 1})
    assert until(lambda: alive(cluster, "a") == ["w-0"])
    cluster.put("holder", {**cluster.get("holder"), "terminate": True})  # type: ignore[dict-item]
    for pod in cluster.pods("holder"):
        cluster.kill(pod)
    assert until(lambda: alive(cluster, "a") == ["w-0", "w-1"])


@pytest.mark.usefixtures("controller")
def test_a_more_important_job_goes_first(cluster: Cluster) -> None:
    everything = {"resources": {"cpus": 2}}
    put(cluster, "holder", SLEEP, task=everything)
    assert until(lambda: len(alive(cluster, "holder")) == 2)
    put(cluster, "low", SLEEP, task=everything)
    put(cluster, "high", SLEEP, task=everything, priority=5)
    cluster.put("holder", {**cluster.get("holder"), "terminate": True})  # type: ignore[dict-item]
    for pod in cluster.pods("holder"):
        cluster.kill(pod)
    assert until(lambda: len(alive(cluster, "high")) == 2)
    assert alive(cluster, "low") == []


@pytest.mark.usefixtures("controller")
def test_room_is_made_by_the_least_important_job_and_by_no_more_than_needed(
    cluster: Cluster,
) -> None:
    for number, name in enumerate(("least", "less")):
        put(cluster, name, SLEEP, preemptible=True, priority=number)
        assert until(lambda name=name: len(alive(cluster, name)) == 2)  # type: ignore[misc]
    put(cluster, "high", SLEEP, priority=5)
    assert until(lambda: len(alive(cluster, "high")) == 2)
    assert alive(cluster, "less") == ["w-0", "w-1"]
    assert phase(cluster, "least") == "Pending"
