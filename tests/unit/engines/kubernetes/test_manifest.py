"""A launch as Kubernetes objects: pure, printable, and it refuses what a cluster cannot give."""

import json
import re
from dataclasses import replace

import pytest

from dromon.engines.base import Artifact
from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.manifest import LACKS, compile_launch, content_token, lacking
from dromon.errors import Refused

NFS = {"volume": {"nfs": {"server": "s", "path": "/d"}}, "sub_path": "team", "local": ""}
UV = {"kind": "uv", "request": {"packages": ["numpy"]}}


def test_the_same_launch_gives_the_same_bytes(make_launch, target):
    def made():
        launch = make_launch(replicas=2, config={"lr": 0.1}, env={"B": "2", "A": "1"})
        return json.dumps(compile_launch(launch, target).request)

    assert made() == made()


def test_an_id_can_follow_from_what_is_launched(make_launch):
    token = content_token(make_launch(replicas=2))
    assert re.fullmatch("[a-z2-7]{6}", token)
    assert token == content_token(make_launch(replicas=2, launch_keys={"facts": {"user": "bo"}}))
    assert token != content_token(make_launch(replicas=3))
    assert token != content_token(make_launch(replicas=2, launch_keys={"code": None}))


def test_a_gang_of_two_is_one_task_with_everything_said(make_request):
    request = make_request(replicas=2, resources={"cpus": 1.5, "memory": "1GiB", "gpus": 2})
    assert request["objects"] == [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {
                "annotations": {
                    "dromon.io/request": request["objects"][0]["metadata"]["annotations"][
                        "dromon.io/request"
                    ]
                },
                "labels": {
                    "dromon.io/job": "train-aaaaaa",
                    "dromon.io/name": "train",
                    "dromon.io/user": "al",
                },
                "name": "train-aaaaaa",
                "namespace": "ml",
            },
            "spec": {
                "maxRetry": 1_000_000,
                "minAvailable": 2,
                "plugins": {
                    "env": [],
                    "svc": [
                        "--publish-not-ready-addresses=true",
                        "--disable-network-policy=true",
                    ],
                },
                "policies": [
                    {"action": "TerminateJob", "exitCode": 200},
                    {"action": "TerminateJob", "exitCode": 201},
                    {"action": "TerminateJob", "exitCode": 202},
                    {"action": "TerminateJob", "exitCode": 203},
                    {"action": "TerminateJob", "exitCode": 128},
                    {"action": "RestartJob", "event": "PodEvicted"},
                    {"action": "RestartJob", "event": "PodFailed"},
                ],
                "priorityClassName": "low",
                "queue": "default",
                "schedulerName": "volcano",
                "tasks": [
                    {
                        "maxRetry": 3,
                        "minAvailable": 2,
                        "name": "worker",
                        "replicas": 2,
                        "template": {
                            "metadata": {
                                "labels": {
                                    "dromon.io/job": "train-aaaaaa",
                                    "dromon.io/name": "train",
                                    "dromon.io/role": "worker",
                                    "dromon.io/user": "al",
                                }
                            },
                            "spec": POD,
                        },
                    }
                ],
            },
        }
    ]


AMOUNTS = {"cpu": "1500m", "memory": "1088Mi", "nvidia.com/gpu": "2"}
POD = {
    "automountServiceAccountToken": False,
    "containers": [
        {
            "command": [
                "python3", "-I", "-S", "/dromon/light/light.pyz", "kubernetes-member", "worker",
            ],
            "env": [
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for name, path in (
                    ("DROMON_POD", "metadata.name"),
                    ("DROMON_NODE", "spec.nodeName"),
                    ("DROMON_POD_IP", "status.podIP"),
                    ("DROMON_VERSION", "metadata.annotations['volcano.sh/job-version']"),
                )
            ],
            "image": "base@sha256:" + "0" * 64,
            "name": "main",
            "ports": [
                {"containerPort": 8470, "name": "line", "protocol": "TCP"},
                {"containerPort": 8471, "name": "page", "protocol": "TCP"},
            ],
            "resources": {"limits": AMOUNTS, "requests": AMOUNTS},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [
                {"mountPath": "/dromon/light", "name": "light", "readOnly": True},
                {"mountPath": "/dromon/request", "name": "request", "readOnly": True},
                {"mountPath": "/dromon/secret", "name": "secret", "readOnly": True},
                {"mountPath": "/dromon/run", "name": "run"},
                {"mountPath": "/dev/shm", "name": "shm"},
                {"mountPath": "/dromon/code", "name": "code", "readOnly": True},
            ],
        }
    ],
    "enableServiceLinks": False,
    "restartPolicy": "Never",
    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    "terminationGracePeriodSeconds": 35,
    "tolerations": [{"effect": "NoSchedule", "key": "nvidia.com/gpu", "operator": "Exists"}],
    "volumes": [
        {"configMap": {"name": "dromon-light-cccccccccccc"}, "name": "light"},
        {"configMap": {"name": "train-aaaaaa"}, "name": "request"},
        {
            "name": "secret",
            "secret": {"defaultMode": 0o444, "optional": True, "secretName": "train-aaaaaa"},
        },
        {"emptyDir": {}, "name": "run"},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "512Mi"}, "name": "shm"},
        {
            "name": "code",
            "projected": {"sources": [{"configMap": {"name": "train-aaaaaa-code-0"}}]},
        },
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("framework", "roles", "tasks"),
    [
        ("none", {"worker": 3}, [("worker", 3, 3)]),
        ("torch", {"worker": 4}, [("worker", 4, 4)]),
        ("jax", {"worker": 2}, [("worker", 2, 2)]),
        ("mpi", {"worker": 2}, [("worker", 2, 2)]),
        ("horovod", {"worker": 2}, [("worker", 2, 2)]),
        (
            "tensorflow",
            {"ps": 1, "worker": 2, "evaluator": 1, "chief": 1},
            [("chief", 1, 1), ("worker", 2, 2), ("ps", 1, 1), ("evaluator", 1, 1)],
        ),
        (
            "mxnet",
            {"worker": 2, "server": 2},
            [("worker", 2, 2), ("server", 2, 2), ("scheduler", 1, 1)],
        ),
    ],
)
def test_roles_become_tasks_in_the_order_of_ranks(make_request, framework, roles, tasks):
    asked = {name: {"replicas": n, "command": "true"} for name, n in roles.items()}
    request = make_request(framework=framework, roles=asked)
    spec = request["objects"][0]["spec"]
    found = [(task["name"], task["replicas"], task["minAvailable"]) for task in spec["tasks"]]
    assert found == tasks
    assert spec["minAvailable"] == sum(n for _, n, _ in tasks)
    assert list(request["roles"]) == [name for name, _, _ in tasks]
    assert [role["name"] for role in request["gang"]["roles"]] == [name for name, _, _ in tasks]


def test_volcano_is_never_told_to_end_a_job_while_it_still_makes_its_pods(make_request):
    found = make_request(policies={"pending:300ms": "abort_job"})["objects"][0]["spec"]["policies"]
    assert found[5]["timeout"] == "2s"


def test_a_gang_may_start_with_fewer(make_request):
    roles = {
        "worker": {"replicas": 8, "min": 5, "command": "true"},
        "ps": {"replicas": 2, "command": "true"},
    }
    spec = make_request(framework="tensorflow", roles=roles)["objects"][0]["spec"]
    assert spec["minAvailable"] == 7
    assert {t["name"]: t["minAvailable"] for t in spec["tasks"]} == {"worker": 5, "ps": 2}


def test_a_job_that_waits_too_long_is_ended_by_volcano(make_request):
    policies = {"pending:10m": "abort_job", "pending:2.5s": "complete_job"}
    found = make_request(policies=policies)["objects"][0]["spec"]["policies"]
    assert found[5] == {"action": "CompleteJob", "event": "PodPending", "timeout": "2500ms"}
    assert [p["event"] for p in found[6:]] == ["PodEvicted", "PodFailed"]
    long = make_request(policies={"pending:12d": "abort_job"})["objects"][0]["spec"]["policies"]
    assert long[5]["timeout"] == "1036800s"


def test_values_of_secrets_are_beside_the_request(make_launch, target):
    launch = make_launch(secrets=["TOKEN"], launch_keys={"supplied": {"TOKEN": "canary"}})
    made = compile_launch(launch, target)
    assert made.supplied == {"TOKEN": "canary"}
    assert made.request["supplied"] == ["TOKEN"]
    assert made.request["secret"] is None
    assert "canary" not in json.dumps(made.request)


def test_secrets_by_reference_come_from_the_clusters_own_secret(make_launch, target):
    launch = make_launch(
        secrets=["TOKEN"],
        kubernetes={"secret": "wandb"},
        launch_keys={"supplied": {"TOKEN": "canary"}},
    )
    made = compile_launch(launch, target)
    assert made.supplied == {}
    assert made.request["secret"] == {"name": "wandb", "path": "/dromon/supplied"}
    pod = made.request["objects"][0]["spec"]["tasks"][0]["template"]["spec"]
    assert pod["volumes"][-1] == {
        "name": "supplied",
        "secret": {
            "defaultMode": 0o444,
            "items": [{"key": "TOKEN", "path": "TOKEN"}],
            "secretName": "wandb",
        },
    }
    mounts = pod["containers"][0]["volumeMounts"]
    assert mounts[-1] == {"mountPath": "/dromon/supplied", "name": "supplied", "readOnly": True}


def test_the_jobs_own_image_beats_the_contexts(make_request):
    image = "torch@sha256:" + "1" * 64
    request = make_request(launch_keys={"environment": {"kind": "image", "image": image}})
    assert request["image"] == image
    assert request["environment"] == {"kind": "image", "image": image}
    assert request["notes"] == []


def test_a_tag_is_taken_and_told(make_request):
    request = make_request(launch_keys={"environment": {"kind": "image", "image": "torch:2"}})
    assert "a tag may name another image" in request["notes"][0]


def test_without_any_image_the_hint_says_how_to_set_one(make_request, target):
    with pytest.raises(Refused, match="no image") as refused:
        make_request(on=replace(target, image=""))
    assert "environment: {image:" in refused.value.hint


def test_an_environment_is_fetched_from_the_store_before_the_member_starts(make_pod, target):
    pod = make_pod(
        on=replace(target, store=NFS),
        launch_keys={"environment": UV},
        resources={"gpus": 1, "memory": "1GiB"},
        kubernetes={"read_only_root": True},
    )
    [fetch], [main] = pod["initContainers"], pod["containers"]
    assert fetch["command"][-1] == "kubernetes-fetch"
    assert fetch["image"] == main["image"]
    assert fetch["securityContext"] == main["securityContext"]
    assert fetch["resources"]["limits"] == {"cpu": "1", "memory": "1088Mi"}
    paths = [mount["mountPath"] for mount in fetch["volumeMounts"]]
    assert paths == ["/dromon/light", "/dromon/request", "/dromon/secret", "/dromon/run",
                     "/dromon/store", "/tmp"]  # fmt: skip


def test_the_store_is_mounted_and_the_code_comes_from_it(make_request, target):
    request = make_request(on=replace(target, store=NFS), outputs=["model"])
    assert request["store"] == {"path": "/dromon/store/team"}
    assert request["checkpoints"] == "/dromon/store/team/jobs/train-aaaaaa/checkpoints"
    pod = request["objects"][0]["spec"]["tasks"][0]["template"]["spec"]
    assert {"name": "store", "nfs": {"path": "/d", "server": "s"}} in pod["volumes"]
    assert "code" not in [volume["name"] for volume in pod["volumes"]]


def test_large_code_is_expected_in_several_parts(make_pod):
    code = Artifact("ab" * 32, "blob:x", 2_000_000)
    pod = make_pod(launch_keys={"code": code})
    [volume] = [v for v in pod["volumes"] if v["name"] == "code"]
    names = [source["configMap"]["name"] for source in volume["projected"]["sources"]]
    assert names == [f"train-aaaaaa-code-{number}" for number in range(3)]
    assert "code" not in [v["name"] for v in make_pod(launch_keys={"code": None})["volumes"]]


def test_a_job_that_may_not_be_preempted_says_so_on_itself_and_its_pods(make_request):
    job = make_request(preemptible=False)["objects"][0]
    mark = ("volcano.sh/preemptable", "false")
    assert mark in job["metadata"]["annotations"].items()
    assert mark in job["spec"]["tasks"][0]["template"]["metadata"]["annotations"].items()


def test_members_hear_their_volumes_paths_in_the_command(make_request):
    request = make_request(
        command="train ${volumes.ct}/a $${volumes.ct} ${HOME}",
        volumes={"ct": {"source": "pvc:data/ct"}, "far": {"source": "s3://b/x", "access": "url"}},
    )
    command = request["roles"]["worker"]["command"]
    assert command == "train /dromon/volumes/ct/a ${volumes.ct} ${HOME}"
    assert request["volumes"] == {"ct": {"path": "/dromon/volumes/ct"}, "far": {"path": "s3://b/x"}}


def test_variables_are_the_agents_and_not_the_pods(make_request):
    request = make_request(env={"A": "1", "B": "2"}, roles={
        "worker": {"command": "true", "env": {"B": "3", "C": None}},
    })  # fmt: skip
    assert request["roles"]["worker"]["env"] == {"A": "1", "B": "3"}
    pod = request["objects"][0]["spec"]["tasks"][0]["template"]["spec"]
    names = {variable["name"] for variable in pod["containers"][0]["env"]}
    assert not names & {"A", "B", "C"}


def test_one_pod_runs_on_a_cluster_without_volcano(make_request, target):
    request = make_request(on=replace(target, volcano=False), priority="high")
    [job] = request["objects"]
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec = job["spec"]
    pod = spec.pop("template")["spec"]
    assert spec == {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": "main", "operator": "In",
                        "values": list(volcano.RESERVED),
                    },
                },
                {
                    "action": "Ignore",
                    "onPodConditions": [{"status": "True", "type": "DisruptionTarget"}],
                },
                {
                    "action": "Ignore",
                    "onExitCodes": {"containerName": "main", "operator": "In", "values": [143]},
                },
            ]
        },
        "podReplacementPolicy": "Failed",
    }  # fmt: skip
    assert {"name": "VC_TASK_INDEX", "value": "0"} in pod["containers"][0]["env"]
    assert pod["priorityClassName"] == "high"
    own = {"pod": {"priorityClassName": "mine"}}
    [job] = make_request(on=replace(target, volcano=False), kubernetes=own)["objects"]
    assert job["spec"]["template"]["spec"]["priorityClassName"] == "mine"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"replicas": 2}, "nothing on this cluster starts 2 pods together"),
        ({"queue": "team"}, "no queues"),
        ({"preemptible": False}, "only Volcano can be told so"),
        ({"policies": {"pending:1m": "abort_job"}}, "only Volcano can be told so"),
    ],
)
def test_what_only_volcano_gives_is_refused_without_it(make_request, target, keys, words):
    with pytest.raises(Refused, match=words) as refused:
        make_request(on=replace(target, volcano=False), **keys)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"resources": {"gpus": 0.5}}, "whole GPUs only"),
        ({"resources": {"gpus": {"a100": 1, "h100": 1}}}, "GPUs of one kind"),
        ({"total_gpus": 8, "resources": None}, "total_gpus"),
        ({"outputs": ["model"]}, "no store to keep them in"),
        ({"launch_keys": {"environment": UV}}, "no store to ship it through"),
        ({"node_label": "gold"}, "which nodes are gold"),
        ({"priority": "best"}, "no class of this cluster"),
        ({"queue": "nope"}, "there is no queue nope"),
        ({"policies": {"pending:1m": "abort_job"}, "replicas": 4, "min": 2}, "it can do without"),
        ({"kubernetes": {"secret": "wandb"}}, "the job takes nothing from wandb"),
    ],
)  # fmt: skip
def test_what_would_change_the_meaning_of_the_job_is_refused(make_request, target, keys, words):
    with pytest.raises(Refused, match=words) as refused:
        make_request(on=replace(target, queues=("default", "team")), **keys)
    assert refused.value.hint


@pytest.mark.parametrize("id", ["a" * 50 + "-aaaaaa", "3d-aaaaaa", "a.b-aaaaaa", "A-aaaaaa"])
def test_names_that_no_pod_can_have_are_refused(make_launch, target, id):
    launch = make_launch(replicas=11)._replace(id=id)
    with pytest.raises(Refused, match="no name that a pod can have") as refused:
        compile_launch(launch, target)
    assert refused.value.hint


def test_what_is_left_out_without_harm_is_told(make_request):
    assert lacking(make_request()) == {}
    asked = {"acls": {"view": ["bo"]}, "hdfs": ["hdfs://n:8020"], "tensorboard": "logs"}
    assert lacking(make_request(**asked)) == {key: LACKS[key] for key in asked}


def test_of_the_callers_variables_only_its_language_goes_along(make_request):
    facts = {"inherited": {"LANG": "de", "LC_ALL": "C", "PATH": "/x", "LD_LIBRARY_PATH": "/y"}}
    found = make_request(launch_keys={"facts": facts})["inherited"]
    assert found == {"LANG": "de", "LC_ALL": "C"}


def test_any_users_name_is_a_label(make_request):
    for name, label in (("al b@x", "al-b-x"), ("-a-", "a"), ("Ö", ""), ("u" * 90, "u" * 63)):
        job = make_request(launch_keys={"facts": {"user": name}})["objects"][0]
        assert job["metadata"]["labels"]["dromon.io/user"] == label
