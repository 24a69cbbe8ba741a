"""Pods that are not made, or have a node and do not start: why, in a sentence."""

import pytest
from clusterview import Cluster

from dromon.engines.kubernetes.why import explain

# As Volcano 1.14 has it.
NO_QUOTA = (
    "Error creating pods: [failed to create pod train-aaaaaa-worker-1, err: &errors.StatusError"
    '{ErrStatus:v1.Status{TypeMeta:v1.TypeMeta{Kind:"", APIVersion:""}, ListMeta:v1.ListMeta'
    '{SelfLink:"", ResourceVersion:"", Continue:"", RemainingItemCount:(*int64)(nil)}, Status:'
    '"Failure", Message:"pods \\"train-aaaaaa-worker-1\\" is forbidden: exceeded quota: small,'
    ' requested: requests.cpu=1, used: requests.cpu=4, limited: requests.cpu=4", Reason:"Forbidden"'
    ", Details:(*v1.StatusDetails)(0x162710ea1200), Code:403}} failed to create pod"
    " train-aaaaaa-worker-0, err: &errors.StatusError{ErrStatus:v1.Status{TypeMeta:"
)


@pytest.fixture
def cluster():
    return Cluster()


def why(cluster):
    return explain(cluster.look(), cluster.now)


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


# --- pods that are not made


def test_a_quota_that_keeps_pods_from_being_made(cluster):
    cluster.node("n1")
    cluster.node("n2")
    cluster.runs("other-bbbbbb", "n1", "n2")
    cluster.group(cluster.job())
    cluster.event("train-aaaaaa", "FailedCreatePod", NO_QUOTA, kind="Job")
    found = why(cluster)
    assert found.sentence == (
        "its pods cannot be made: quota small of namespace ml allows 4 CPUs, of which 4 CPUs is in"
        " use, and a pod asks for 1 CPU"
    )
    assert found.reason == "resources"
    assert (found.holders, found.missing) == (("other-bbbbbb",), {"cpu": 1.0})
    assert found.unblock == (
        "other-bbbbbb ends", "quota small is raised", "the job asks for less",
    )  # fmt: skip


def test_a_quota_is_found_by_arithmetic_when_nobody_says_it(cluster):
    cluster.node("n1")
    cluster.group(cluster.job(), "Pending")
    cluster.quota("gpus", {"requests.nvidia.com/gpu": "6"}, {"requests.nvidia.com/gpu": "0"})
    assert why(cluster).sentence == (
        "quota gpus of namespace ml allows 6 GPUs, of which 0 GPUs is in use: there is no room for"
        " its pods"
    )


def test_a_refusal_that_is_no_quota_has_its_own_words(cluster):
    cluster.node("n1")
    cluster.group(cluster.job())
    said = (
        'Error creating pods: [failed to create pod x, err: pods "x" is forbidden:'
        ' violates PodSecurity "restricted:latest": hostPath volumes]'
    )
    cluster.event("train-aaaaaa", "FailedCreatePod", said, kind="Job")
    assert why(cluster).sentence == (
        'its pods cannot be made: violates PodSecurity "restricted:latest": hostPath volumes'
    )


def test_a_scheduling_gate_is_named(cluster):
    cluster.node("n1")
    job = cluster.job(spec={"schedulingGates": [{"name": "example.com/wait"}]})
    cluster.group(job)
    cluster.pod(job, 0)
    cluster.pod(job, 1)
    assert why(cluster).sentence == (
        "its pods are held back by the scheduling gate example.com/wait"
    )


@pytest.mark.parametrize(
    ("phase", "sentence"),
    [
        (None, "there is no PersistentVolumeClaim data in namespace ml"),
        ("Pending", "PersistentVolumeClaim data has no volume yet: no storage class is set"),
        ("Lost", "the volume of PersistentVolumeClaim data is gone"),
    ],
)
def test_a_claim_without_a_volume(cluster, phase, sentence):
    cluster.node("n1")
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.group(cluster.job(spec={"volumes": [volume]}))
    if phase:
        cluster.claim("data", phase)
        cluster.event("data", "FailedBinding", "no storage class is set")
    assert why(cluster).sentence == sentence


def test_a_claim_that_waits_for_its_first_pod_is_no_reason(cluster):
    cluster.node("n1")
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.group(cluster.job(spec={"volumes": [volume]}), after=295)
    cluster.claim("data", "Pending")
    cluster.event("data", "WaitForFirstConsumer", "waiting for first consumer")
    assert why(cluster).reason == "about to start"


# --- pods with a node that do not start


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (waiting("ErrImageNeverPull"),
         "worker-0 cannot start: image py:1 is not on node n1, and its pull policy is Never"),
        (waiting("ImagePullBackOff", 'Back-off pulling image "py:1"'),
         "worker-0 cannot start: image py:1 cannot be pulled (ImagePullBackOff)"),
        (waiting("CreateContainerConfigError", 'secret "hub" not found'),
         "worker-0 cannot start: there is no secret hub in namespace ml"),
        (waiting("CreateContainerConfigError", 'configmap "conf" not found'),
         "worker-0 cannot start: there is no ConfigMap conf in namespace ml"),
        (waiting("CreateContainerConfigError", "couldn't find key token in Secret ml/hub"),
         "worker-0 cannot start: secret hub has no key token in namespace ml"),
        (waiting("CreateContainerError", "no command specified"),
         "worker-0 cannot start: no command specified"),
    ],
)  # fmt: skip
def test_a_container_that_cannot_be_made(cluster, state, sentence):
    cluster.node("n1")
    job = cluster.job(replicas=1)
    cluster.pod(job, 0, "n1", phase="Pending", state=state)
    found = why(cluster)
    assert (found.sentence, found.reason) == (sentence, "impossible")
    assert found.unblock


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ('MountVolume.SetUp failed for volume "k" : secret "keys" not found',
         "worker-1 cannot start: there is no secret keys in namespace ml"),
        ("mount.nfs: Connection timed out",
         "worker-1 cannot start: its volume cannot be mounted on n1: mount.nfs: Connection timed"
         " out"),
    ],
)  # fmt: skip
def test_a_volume_that_cannot_be_mounted(cluster, message, sentence):
    cluster.node("n1")
    job = cluster.job()
    cluster.pod(job, 0, "n1")
    cluster.pod(job, 1, "n1", phase="Pending", state=waiting("ContainerCreating"))
    cluster.event("train-aaaaaa-worker-1", "FailedMount", message)
    assert why(cluster).sentence == sentence


def test_pods_on_their_way_are_about_to_start(cluster):
    cluster.node("n1")
    job = cluster.job()
    cluster.pod(job, 0, "n1")
    cluster.pod(job, 1, "n1", phase="Pending", state=waiting("ContainerCreating"))
    cluster.event("train-aaaaaa-worker-1", "Pulling", "Pulling image", warning=False)
    found = why(cluster)
    assert found.sentence == (
        "worker-1 starts on n1: its image is being pulled (1 of 2 pods do not run yet)"
    )
    assert found.reason == "about to start"
