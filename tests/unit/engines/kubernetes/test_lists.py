"""How an engine lists, follows and submits: what it asks an API server, and what it does not."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import ApiServer, until

from dromon.contexts.file import Context
from dromon.engines.base import Filter
from dromon.engines.kubernetes import counted, volcano
from dromon.engines.kubernetes.engine import LISTS, KubernetesEngine
from dromon.engines.kubernetes.jobs import MANY

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def engine(plain_server: ApiServer, tmp_path: Path) -> Iterator[KubernetesEngine]:
    """With a store, which this machine sees."""
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": plain_server.url}}],
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    (tmp_path / "store").mkdir()
    context = Context(
        "here", "kubernetes", str(tmp_path / "kubeconfig"), image="base",
        store=str(tmp_path / "store"),
    )  # fmt: skip
    made = KubernetesEngine(context, str(tmp_path / "home"))
    yield made
    made.close()


def job(id: str, phase: str = "Running", replicas: int = 2, **counts: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {volcano.ROLE_LABEL: "worker"}}, "spec": {"containers": []}}
    tasks = [{"name": "worker", "replicas": replicas, "template": template}]
    state = {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    labels = {volcano.JOB_LABEL: id, volcano.NAME_LABEL: id.rpartition("-")[0]}
    return {
        "metadata": {"name": id, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"tasks": tasks},
        "status": {"state": state, "taskStatusCount": {"worker": {"phase": counts}}},
    }


def pod(id: str, index: int, phase: str = "Running") -> dict[str, Any]:
    labels = {volcano.JOB_LABEL: id, volcano.ROLE_LABEL: "worker", "volcano.sh/task-index": index}
    name = f"{id}-worker-{index}"
    return {
        "metadata": {"name": name, "labels": {k: str(v) for k, v in labels.items()}},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": phase},
    }


def asked(server: ApiServer, plural: str) -> int:
    return sum(request.path.endswith(f"/{plural}") for request in server.requests)


def test_jobs_are_chosen_before_their_pods_are_asked_for(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    for id in ("old-aaaaaa", "other-bbbbbb"):
        plain_server.put(JOBS, job(id, "Completed"))
    assert engine.list(Filter()) == []
    assert engine.list(Filter(active_only=False, name="none")) == []
    assert asked(plain_server, "pods") == 0
    assert [s.id for s in engine.list(Filter(active_only=False, name="old"))] == ["old-aaaaaa"]
    assert asked(plain_server, "pods") == 1


def test_of_very_many_pods_volcano_is_believed_how_many_run(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    plain_server.put(JOBS, job("big-aaaaaa", replicas=MANY + 1, Running=MANY, Pending=1))
    [status] = engine.list(Filter())
    assert asked(plain_server, "pods") == 0
    assert len(status.members) == MANY + 1
    assert {m.host for m in status.members[:MANY]} == {counted.UNKNOWN_NODE}
    assert status.members[MANY].host == ""


def test_where_no_store_is_seen_hundreds_of_coordinators_are_not_asked_for_one_table(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    unseen = KubernetesEngine(engine.context._replace(store=""), str(engine.home.root))
    plain_server.put(JOBS, job("big-aaaaaa", replicas=MANY + 1, Running=MANY + 1))
    [status] = unseen.list(Filter())
    unseen.close()
    assert status.state == "running"
    assert not any("/proxy/" in request.path for request in plain_server.requests)


def test_a_list_is_spared_what_only_a_submit_needs(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    """Each of these costs as much as the list itself."""
    plain_server.put(JOBS, job("one-aaaaaa"))
    program = (
        "import json, sys\n"
        "from dromon.contexts.file import Context\n"
        "from dromon.engines.base import Filter\n"
        "from dromon.engines.kubernetes.engine import KubernetesEngine\n"
        "engine = KubernetesEngine(Context(**json.loads(sys.argv[1])), sys.argv[2])\n"
        "assert len(engine.list(Filter())) == 1\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(engine.context._asdict()), engine.home.root],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    heavy = {"pydantic", "http.server", "ruamel.yaml", "tarfile", "shutil", "dromon.packaging"}
    assert heavy & set(done.stdout.split()) == set()


def test_a_job_without_pods_has_the_priority_of_its_class_which_is_asked_for_once(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    for name, value in (("high", 1000), ("site", 50)):
        about = {"value": value, "globalDefault": name == "site"}
        plain_server.put(CLASSES, {"metadata": {"name": name}, **about})
    for id, named in (("one-aaaaaa", "high"), ("two-bbbbbb", ""), ("three-cccccc", "gone")):
        made = job(id, "Pending")
        made["spec"]["priorityClassName"] = named
        plain_server.put(JOBS, made)
    for _ in range(2):
        found = {status.name: status.priority for status in engine.list(Filter())}
        assert found == {"one": 1000, "two": 50, "three": 0}
        assert engine.status("one-aaaaaa").priority == 1000
    assert asked(plain_server, "priorityclasses") == 2  # and once more for the one that is gone


def test_nobody_asks_for_classes_where_pods_say_what_they_got(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    made = pod("one-aaaaaa", 0)
    made["spec"]["priority"] = 7
    plain_server.put(JOBS, job("one-aaaaaa"))
    plain_server.put(PODS, made)
    assert engine.status("one-aaaaaa").priority == 7
    assert asked(plain_server, "priorityclasses") == 0


def test_who_lists_again_and_again_is_told_by_a_watch(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    plain_server.put(JOBS, job("one-aaaaaa"))
    plain_server.put(PODS, pod("one-aaaaaa", 0))
    for _ in range(LISTS):
        [status] = engine.list(Filter())
    before = engine.api.requests
    assert [m.host for m in status.members] == ["n1"]
    plain_server.put(PODS, pod("one-aaaaaa", 1))
    until(lambda: len(engine.list(Filter())[0].members) == 2)
    plain_server.put(JOBS, job("two-bbbbbb"))
    until(lambda: len(engine.list(Filter())) == 2)
    plain_server.delete("pods", "one-aaaaaa-worker-0")
    until(lambda: len(engine.list(Filter())[0].members) == 1)
    plain_server.put(JOBS, job("two-bbbbbb", "Completed"))
    until(lambda: len(engine.list(Filter())) == 1)
    assert engine.api.requests == before
    assert engine.store is not None
    record = Path(engine.store.record("one-aaaaaa").root)
    record.mkdir(parents=True)
    told = {"state": "running", "attempt": 3, "members": []}
    (record / "status.json").write_text(json.dumps(told))
    assert engine.list(Filter())[0].attempt == 3
    engine.close()


def test_a_job_on_record_is_found_without_a_question(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    assert engine.store is not None
    engine.store.create_record("one-aaaaaa", {"volcano": True})
    assert engine.find("one-aaaaaa") == "one-aaaaaa"
    assert engine.api.requests == 0
    plain_server.put(JOBS, job("far-bbbbbb"))
    assert engine.find("far") == "far-bbbbbb"


def submitted(engine: KubernetesEngine, folder: Path) -> str:
    data = {"name": "job", "command": "true", "resources": {"cpus": 1}}
    return str(engine.start({"cwd": str(folder), "environ": {}, "data": data})["id"])


def test_what_a_job_brings_belongs_to_it_and_the_next_one_asks_for_less(
    plain_server: ApiServer, engine: KubernetesEngine, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    id = submitted(engine, tmp_path / "work")
    first = engine.api.requests
    assert first <= 11  # with what is the same for all jobs: facts of the cluster, the runtime
    again = submitted(engine, tmp_path / "work")
    assert engine.api.requests - first == 5

    def owners(kind: volcano.Kind, name: str) -> list[tuple[str, str]]:
        found = engine.api.read(kind, "default", name)
        assert found is not None
        return [(o["kind"], o["name"]) for o in found["metadata"]["ownerReferences"]]

    assert owners(volcano.CONFIG_MAP, id) == [("Job", id)]
    assert owners(volcano.SECRET, id) == [("ConfigMap", id)]
    [light] = engine.api.list_names(volcano.CONFIG_MAP, "default", labels=volcano.LIGHT_LABEL)
    assert ("Job", again) in owners(volcano.CONFIG_MAP, light)
    plain_server.delete("configmaps", light)  # went with its last job
    third = submitted(engine, tmp_path / "work")
    assert owners(volcano.CONFIG_MAP, light) == [("Job", third)]


def test_whoever_follows_hears_of_an_end_that_the_record_does_not_tell(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    assert engine.store is not None
    engine.store.create_record("one-aaaaaa", {"volcano": True})
    plain_server.put(JOBS, job("one-aaaaaa", "Failed"))
    assert list(engine.lines("one-aaaaaa", follow=True)) == []
    assert engine.api.requests == 1
    plain_server.delete("batch.volcano.sh/jobs", "one-aaaaaa")
    assert list(engine.lines("one-aaaaaa", follow=True)) == []


def test_who_waits_does_not_wait_longer_than_he_said(
    plain_server: ApiServer, engine: KubernetesEngine
) -> None:
    plain_server.put(JOBS, job("one-aaaaaa"))
    with pytest.raises(TimeoutError):
        engine.wait("one-aaaaaa", timeout=0.5)
