"""Every reason to wait, made on a real cluster with plain Volcano Jobs, and what is said of it."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import GPU, IMAGE

from dromon.engines.base import Waiting, token
from dromon.engines.kubernetes import kubeconfig, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.situation import gather
from dromon.engines.kubernetes.watchdog import command, look
from dromon.engines.kubernetes.why import explain

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PATIENCE = 60.0
SLEEP = ["python3", "-c", "import time; time.sleep(600)"]


class Site:
    """A namespace of its own; everything in it goes when the test is through."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.api = Api(kubeconfig.find(str(bed.kubeconfig)))
        self.namespace = f"why-{token()}"
        self.queues: list[str] = []
        self.api.create(volcano.NAMESPACE, "", {"metadata": {"name": self.namespace}})

    def close(self) -> None:
        for job in self.api.list(volcano.JOB, self.namespace):
            self.api.delete(volcano.JOB, self.namespace, job["metadata"]["name"], background=False)
        self.until(lambda: not self.api.list(volcano.POD, self.namespace))
        for queue in self.queues:
            self.shut(queue)
            self.api.delete(volcano.QUEUE, "", queue)
        self.api.delete(volcano.NAMESPACE, "", self.namespace)
        self.api.close()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.25)

    def queue(self, **spec: Any) -> str:
        name = f"why-{token()}"
        body = {"metadata": {"name": name}, "spec": {"weight": 1, "parent": "root", **spec}}
        self.api.create(volcano.QUEUE, "", body)
        self.queues.append(name)
        self.until(lambda: self.queue_state(name) == "Open")
        return name

    def shut(self, name: str) -> None:
        if self.queue_state(name) != "Closed":
            self.send(command_to_queue(self.api, name, "CloseQueue"))
        self.until(lambda: self.queue_state(name) == "Closed")

    def queue_state(self, name: str) -> str:
        found = self.api.read(volcano.QUEUE, "", name) or {}
        return str((found.get("status") or {}).get("state") or "")

    def send(self, body: Any) -> None:
        self.api.create(volcano.COMMAND, self.namespace, body)

    def submit(
        self,
        name: str,
        gpus: int = 0,
        replicas: int = 1,
        queue: str = "default",
        priority: str = "normal",
        container: Any = None,
        **pod: Any,
    ) -> str:
        amounts = {"cpu": "10m", "memory": "16Mi", **({GPU: str(gpus)} if gpus else {})}
        main = {
            "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": SLEEP,
            "resources": {"requests": amounts, "limits": amounts}, **(container or {}),
        }  # fmt: skip
        spec = {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main],
            **pod,
        }  # fmt: skip
        task = {"name": "worker", "replicas": replicas, "minAvailable": replicas,
                "template": {"spec": spec}}  # fmt: skip
        body = {
            "metadata": {"name": name},
            "spec": {"schedulerName": "volcano", "queue": queue, "minAvailable": replicas,
                     "priorityClassName": priority, "maxRetry": 1000, "tasks": [task],
                     "policies": [{"event": "PodEvicted", "action": "RestartJob"}]},
        }  # fmt: skip
        self.api.create(volcano.JOB, self.namespace, body)
        return name

    def running(self, name: str) -> None:
        self.until(lambda: self.why(name).reason == "running")

    def why(self, name: str) -> Waiting:
        return explain(gather(self.api, self.namespace, name), time.time())

    def says(self, name: str, words: str) -> Waiting:
        """Waits until it is said; what Kubernetes has to find out first takes it some seconds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.why(name)
            if words in found.sentence:
                return found
            assert time.monotonic() < deadline, f"{found.sentence!r} instead of {words!r}"
            time.sleep(0.25)


def command_to_queue(api: Api, name: str, action: str) -> Any:
    queue = api.read(volcano.QUEUE, "", name)
    assert queue is not None
    target = {
        "apiVersion": volcano.QUEUE.api_version, "kind": "Queue", "name": name,
        "uid": queue["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    return {"metadata": {"generateName": f"{name}-"}, "action": action, "target": target}


@pytest.fixture
def site(bed: Bed) -> Iterator[Site]:
    made = Site(bed)
    yield made
    made.close()


# --- room


def test_a_gang_too_big_for_the_cluster(site: Site) -> None:
    found = site.says(site.submit("big", gpus=2, replicas=3), "the whole cluster has room for 2")
    assert "3 pods of worker with 2 GPUs" in found.sentence
    assert found.reason == "impossible"


def test_a_pod_too_big_for_any_node(site: Site) -> None:
    found = site.says(site.submit("fat", gpus=4), "no node has that much")
    assert found.sentence.startswith("a pod of worker needs 4 GPUs")
    assert (found.reason, found.missing) == ("impossible", {GPU: 2.0})


def test_room_that_another_job_holds(site: Site) -> None:
    site.running(site.submit("holder", gpus=2, replicas=2))
    found = site.says(site.submit("late", gpus=1), "there is room for none")
    assert "held by holder" in found.sentence
    assert (found.reason, found.holders) == ("resources", ("holder",))
    assert found.unblock[0] == "holder ends"


def test_who_is_before_it(site: Site) -> None:
    site.running(site.submit("holder", gpus=2, replicas=2, priority="high"))
    site.submit("first", gpus=2, replicas=2, priority="normal")
    assert site.says(site.submit("second", gpus=2, priority="low"), "held by").position == 2


def test_a_label_that_no_node_has(site: Site) -> None:
    name = site.submit("picky", nodeSelector={"example.com/kind": "none"})
    found = site.says(name, "no node suits worker: 2 nodes without the label example.com/kind=none")
    assert found.reason == "impossible"


# --- queues


def test_a_queue_that_was_closed_after_the_job_came(site: Site) -> None:
    queue = site.queue()
    name = site.submit("shut", gpus=4, queue=queue)
    site.says(name, "no node has that much")
    site.send(command_to_queue(site.api, queue, "CloseQueue"))
    assert site.says(name, f"queue {queue} is").reason == "impossible"


def test_more_than_its_queue_may_ever_use(site: Site) -> None:
    queue = site.queue(capability={GPU: 1})
    name = site.submit("greedy", gpus=2, queue=queue)
    found = site.says(name, f"queue {queue} may never use more than 1 GPU")
    assert found.reason == "impossible"


def test_a_queue_that_others_have_filled(site: Site) -> None:
    queue = site.queue(capability={GPU: 2})
    site.running(site.submit("holder", gpus=2, queue=queue))
    name = site.submit("late", gpus=1, queue=queue)
    found = site.says(name, f"queue {queue} uses 2 GPUs of the 2 GPUs it may")
    assert found.sentence.endswith("held by holder 2 GPUs")
    assert found.holders == ("holder",)


# --- pods that cannot be made or started


def test_a_quota_that_is_used_up(site: Site) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "15m"}}}
    site.api.create(volcano.QUOTA, site.namespace, quota)
    found = site.says(site.submit("two", replicas=2), "quota small of namespace")
    assert "requests.cpu=15m" in found.sentence or "0.015 CPUs" in found.sentence
    assert "quota small is raised" in found.unblock


def test_a_secret_that_is_missing(site: Site) -> None:
    env = [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}]
    name = site.submit("locked", container={"env": env})
    words = f"worker-0 cannot start: there is no secret keys in namespace {site.namespace}"
    assert site.says(name, words).reason == "impossible"


def test_a_volume_whose_secret_is_missing(site: Site) -> None:
    volume = {"name": "v", "secret": {"secretName": "keys"}}
    mounts = [{"name": "v", "mountPath": "/keys"}]
    name = site.submit("locked", volumes=[volume], container={"volumeMounts": mounts})
    site.says(name, "worker-0 cannot start: there is no secret keys")


def test_an_image_that_is_not_there(site: Site) -> None:
    name = site.submit("bare", container={"image": "dromon.test/nothing:1"})
    found = site.says(name, "image dromon.test/nothing:1 is not on node")
    assert found.reason == "impossible"


def test_an_image_that_cannot_be_pulled(site: Site) -> None:
    image = {"image": "registry.invalid/nothing:1", "imagePullPolicy": "IfNotPresent"}
    site.says(site.submit("bare", container=image), "image registry.invalid/nothing:1 cannot be")


def test_a_name_that_is_no_image(site: Site) -> None:
    site.says(site.submit("odd", container={"image": "A B"}), "'A B' is no name of an image")


def test_a_claim_that_is_not_there_and_then_has_no_volume(site: Site) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    name = site.submit("dry", volumes=[volume])
    assert site.says(name, "there is no PersistentVolumeClaim data").reason == "impossible"
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "",
                 "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    site.api.create(volcano.CLAIM, site.namespace, claim)
    site.says(name, "PersistentVolumeClaim data has no volume yet")


def test_a_scheduling_gate(site: Site) -> None:
    name = site.submit("gated", schedulingGates=[{"name": "example.com/wait"}])
    site.says(name, "its pods are held back by the scheduling gate example.com/wait")


# --- its end and beginning


def test_a_suspended_job_and_its_resumption(site: Site) -> None:
    name = site.submit("paused")
    site.running(name)
    job = site.api.read(volcano.JOB, site.namespace, name)
    assert job is not None
    site.send(command(job, "AbortJob").body)
    site.says(name, "it was suspended from outside")
    site.send(command(job, "ResumeJob").body)
    site.running(name)


def test_waking_a_job_that_runs_does_it_no_harm(site: Site) -> None:
    """The watchdog's cure, should it ever be given to a job that is well."""
    name = site.submit("well", replicas=2)
    site.running(name)
    before = {p["metadata"]["uid"] for p in site.api.list(volcano.POD, site.namespace)}
    job = site.api.read(volcano.JOB, site.namespace, name)
    assert job is not None
    site.send(command(job, "ResumeJob").body)
    site.until(lambda: not site.api.list(volcano.COMMAND, site.namespace))
    time.sleep(2)  # Volcano acts on it after it has taken it away
    assert {p["metadata"]["uid"] for p in site.api.list(volcano.POD, site.namespace)} == before
    assert look(gather(site.api, site.namespace, name), time.time()) == []


def test_who_may_see_nothing_but_a_namespace_hears_what_is_left(site: Site) -> None:
    name = site.submit("big", gpus=2, replicas=3)
    site.says(name, "the whole cluster")
    role = {
        "metadata": {"name": "small"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}],
    }
    binding = {
        "metadata": {"name": "small"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "small"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "nobody-much"}],
    }
    site.api.create(ROLE, site.namespace, role)
    site.api.create(BINDING, site.namespace, binding)
    access = kubeconfig.find(str(site.bed.kubeconfig), acting_as="nobody-much")
    with Api(access) as small:
        found = explain(gather(small, site.namespace, name), time.time())
    assert "may not look at nodes" in found.sentence


RBAC = "rbac.authorization.k8s.io"
ROLE = volcano.Kind(RBAC, "v1", "Role", "roles")
BINDING = volcano.Kind(RBAC, "v1", "RoleBinding", "rolebindings")
