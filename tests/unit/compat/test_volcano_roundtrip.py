"""A Volcano Job imported and compiled for Kubernetes again: the same essentials."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from dromon.compat.volcano import import_job
from dromon.engines.base import Launch
from dromon.engines.kubernetes.manifest import Target, compile_launch
from dromon.errors import JobFileError
from dromon.spec import load_text, resolve

JOBS = sorted((Path(__file__).parent / "volcano").glob("*.yaml"))
TARGET = Target(
    namespace="research",
    image="base:1",
    priority_classes={"high": 1000, "low": 10},
    host_path_allowed=True,
    light="sha256:" + "0" * 64,
)


def there_and_back(text):
    made = import_job(text, "vcjob.yaml")
    assert made.problems == ()
    job = load_text(made.text, "job.yaml")
    id = f"{job.name}-aaaaaa"
    job = resolve(job, id=id, name=job.name)
    environment = {"kind": "image", "image": job.environment.image}
    supplied = dict.fromkeys(job.secrets, "value")
    submission = compile_launch(Launch(id, job.to_data(), None, environment, supplied), TARGET)
    return submission.request["objects"][0], submission.request


def tasks_of(spec):
    return {task["name"]: task for task in spec["tasks"]}


def amounts(template):
    """What one container asks for, of the kinds that must not change."""
    main = template["spec"]["containers"][0]
    asked = main.get("resources", {})
    found = {**asked.get("limits", {}), **asked.get("requests", {})}
    return {kind: str(amount) for kind, amount in found.items() if kind not in ("cpu", "memory")}


@pytest.mark.parametrize("name", ["pytorch", "tensorflow", "mpi"])
def test_roles_gangs_queue_and_what_pods_ask_for_come_back(name):
    (path,) = (job for job in JOBS if job.stem == name)
    before = YAML(typ="safe", pure=True).load(path.read_text())["spec"]
    after, _ = there_and_back(path.read_text())
    after = after["spec"]
    was, now = tasks_of(before), tasks_of(after)
    if name == "mpi":  # the launcher is gone, its hosts are the workers
        was = {"worker": was["mpiworker"]}
    assert sorted(now) == sorted(was)
    for task in was:
        assert now[task]["replicas"] == was[task]["replicas"]
        assert now[task]["minAvailable"] == was[task]["replicas"]
        assert amounts(now[task]["template"]) == amounts(was[task]["template"])
        pods = [tasks[task]["template"]["spec"] for tasks in (was, now)]
        images = [pod["containers"][0]["image"] for pod in pods]
        assert images[0] == images[1]
        for key in ("nodeSelector", "affinity"):
            assert pods[1].get(key) == pods[0].get(key)
        for toleration in pods[0].get("tolerations", []):
            assert toleration in pods[1]["tolerations"]
    assert after["queue"] == before.get("queue", "default")
    assert after.get("ttlSecondsAfterFinished") == before.get("ttlSecondsAfterFinished")
    assert after.get("priorityClassName", "low") == before.get("priorityClassName", "low")


def test_every_old_path_is_mounted_from_where_it_was():
    (path,) = (job for job in JOBS if job.stem == "pytorch")
    job, _ = there_and_back(path.read_text())
    pod = tasks_of(job["spec"])["worker"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    main = pod["containers"][0]
    assert main["name"] == "main"
    mounts = {mount["mountPath"]: mount for mount in main["volumeMounts"]}
    assert volumes[mounts["/data"]["name"]]["nfs"] == {"server": "nas", "path": "/corpora"}
    assert mounts["/data"]["readOnly"] is True
    claim = volumes[mounts["/out"]["name"]]["persistentVolumeClaim"]
    assert (claim["claimName"], mounts["/out"]["subPath"]) == ("results", "runs")
    assert volumes[mounts["/etc/train"]["name"]]["configMap"] == {"name": "train-conf"}
    assert volumes[mounts["/dev/shm"]["name"]]["emptyDir"]["sizeLimit"] == "16Gi"
    assert {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}} in main[
        "env"
    ]


def test_commands_variables_and_secrets_come_back_in_the_request():
    (path,) = (job for job in JOBS if job.stem == "pytorch")
    _, request = there_and_back(path.read_text())
    worker = request["roles"]["worker"]
    assert worker["command"][2].endswith("pretrain.py --lr 0.001")
    assert worker["env"]["LR"] == "0.001"
    assert request["secrets"] == ["WANDB_API_KEY"]
    assert request["gang"]["max_duration"] == 7200
    assert request["gang"]["max_retries"] == 5
    assert request["grace"] == 120


def test_a_plain_job_is_a_gang_of_its_completions():
    (path,) = (job for job in JOBS if job.stem == "plain")
    job, request = there_and_back(path.read_text())
    assert job["spec"]["minAvailable"] == 4
    pod = job["spec"]["tasks"][0]["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == ["main", "side"]
    assert pod["serviceAccountName"] == "counting"
    assert request["priority_class"] == "low"


# --- whatever stands in a Job, the answer is a job file or a problem with its place

WORDS = """
name image command args env value valueFrom secretKeyRef resources limits requests cpu memory
nvidia.com/gpu volumeMounts mountPath volumes emptyDir medium sizeLimit nfs path server spec
template tasks containers initContainers policies event events action exitCode timeout plugins
pytorch mpi replicas minAvailable queue maxRetry priorityClassName metadata labels annotations
subPath readOnly persistentVolumeClaim claimName hostPath workingDir ttlSecondsAfterFinished
parallelism completions backoffLimit activeDeadlineSeconds serviceAccountName
"""
KEYS = st.sampled_from(WORDS.split())
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 9), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "8Gi", "500m", "RestartJob", "PodFailed", "*", "sh", "-c", "/dev/shm",
                     "Memory", "$(A)", "${config.x}", "x" * 70, "mpirun -H a b", "é\n\t"]),
)  # fmt: skip
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)  # fmt: skip
OF_CONTAINER = ("command", "args", "env", "resources", "volumeMounts", "workingDir")
CONTAINER = st.fixed_dictionaries(
    {"name": st.just("c"), "image": LEAVES}, optional=dict.fromkeys(OF_CONTAINER, TREES)
)
POD = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=2)},
    optional={"volumes": TREES, "initContainers": TREES, "nodeSelector": TREES},
)
TASK = st.fixed_dictionaries(
    {"template": st.fixed_dictionaries({"spec": POD}, optional={"metadata": TREES})},
    optional={"name": LEAVES, "replicas": st.integers(-1, 3) | LEAVES, "policies": TREES,
              "minAvailable": LEAVES},
)  # fmt: skip
OF_SPEC = (
    "plugins", "policies", "volumes", "queue", "minAvailable", "maxRetry", "priorityClassName",
    "ttlSecondsAfterFinished",
)  # fmt: skip
SPEC = st.fixed_dictionaries(
    {"tasks": st.lists(TASK, max_size=3)}, optional=dict.fromkeys(OF_SPEC, TREES)
)


@settings(max_examples=100, deadline=None)
@given(spec=SPEC, metadata=TREES)
def test_any_job_gives_a_job_file_or_problems_with_places(spec, metadata):
    data = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata,
            "spec": spec}  # fmt: skip
    problems = []
    try:
        made = import_job(json.dumps(data), "vcjob.json")
    except JobFileError as error:
        problems = [str(problem) for problem in error.problems]
    assert all(problem.startswith("vcjob.json:") for problem in problems)
    if not problems:
        YAML(typ="safe", pure=True).load(made.text)
        if not made.problems:
            load_text(made.text, "job.yaml")
