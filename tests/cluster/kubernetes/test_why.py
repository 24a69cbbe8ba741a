"""Every reason to wait, made on a real cluster with plain Volcano Jobs, and what is said of it."""

import time
from collections.abc import Iterator

import pytest
from plainjobs import Site, command_to_queue
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import GPU

from dromon.engines.kubernetes import kubeconfig, volcano
from dromon.engines.kubernetes.calls import command
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import NotAllowed
from dromon.engines.kubernetes.situation import gather
from dromon.engines.kubernetes.watchdog import look

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

RBAC = "rbac.authorization.k8s.io"
ROLE = volcano.Kind(RBAC, "v1", "Role", "roles")
BINDING = volcano.Kind(RBAC, "v1", "RoleBinding", "rolebindings")


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
    site.says(site.submit("first", gpus=2, replicas=2, priority="normal"), "held by")
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


def test_a_victim_of_preemption_and_who_it_made_room_for(site: Site) -> None:
    site.running(site.submit("victim", gpus=2, replicas=2, priority="low"))
    site.submit("vip", gpus=2, replicas=2, priority="high")
    found = site.says("victim", "it was preempted for vip, whose priority is higher; it needs 2")
    assert found.holders == ("vip",)


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

        def may_look() -> bool:
            """Rules take a moment to be known."""
            try:
                small.list(volcano.POD, site.namespace)
            except NotAllowed:
                return False
            return True

        site.until(may_look)
        found = site.says(name, "Volcano finds no node for 1 of the 3 pods", api=small)
    assert found.sentence.endswith("jobs of other namespaces and nodes)")
