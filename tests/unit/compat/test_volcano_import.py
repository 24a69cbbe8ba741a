"""Volcano Jobs and plain Jobs as job files: every part where it belongs, and what is lost said."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dromon.compat.volcano import import_job
from dromon.errors import JobFileError
from dromon.spec import load_text

JOBS = Path(__file__).parent / "volcano"
PYTORCH, TENSORFLOW, MXNET, MPI, PLAIN = (
    (JOBS / f"{name}.yaml").read_text()
    for name in ("pytorch", "tensorflow", "mxnet", "mpi", "plain")
)


def imported(text):
    """The job file's data, checked, and what was said."""
    made = import_job(text, "vcjob.yaml")
    assert made.problems == (), [str(problem) for problem in made.problems]
    load_text(made.text, "job.yaml")
    return YAML(typ="safe", pure=True).load(made.text), [str(note) for note in made.notes]


def volcano_job(task="", spec="", pod="", container="", metadata=""):
    """A job of one task; the parts are lines of YAML, put in at their place."""

    def put(text, depth):
        return "".join(f"{' ' * depth}{line}\n" for line in text.splitlines())

    return (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        f"metadata:\n  name: train\n{put(metadata, 2)}"
        f"spec:\n{put(spec, 2)}  tasks:\n  - name: worker\n    replicas: 2\n{put(task, 4)}"
        f"    template:\n      spec:\n{put(pod, 8)}        containers:\n        - name: worker\n"
        f"          image: registry/train:1\n          command: [python, /app/train.py]\n"
        f"{put(container, 10)}"
    )


def test_a_pytorch_job_is_carried_over_whole():
    job, notes = imported(PYTORCH)
    command = [
        "sh", "-c",
        "cd /workspace\ntorchrun --nnodes=3 --node_rank=$RANK pretrain.py --lr 0.001",
    ]  # fmt: skip
    resources = {"cpus": 3.5, "memory": "64GiB", "gpus": 8, "shm": "16GiB"}
    assert job == {
        "name": "bert-pretraining",
        "framework": "torch",
        "queue": "team-a",
        "priority": "high",
        "max_duration": "2h",
        "stop_grace": "2m",
        "environment": {"image": "registry/bert:2"},
        "env": {"LR": "0.001"},
        "secrets": ["WANDB_API_KEY"],
        "volumes": {
            "data": {"source": "nfs://nas/corpora"},
            "out": {"source": "pvc:results/runs", "access": "mount"},
        },
        "roles": {
            "master": {
                "replicas": 1,
                "command": command,
                "resources": resources,
                "policies": {"role_completed": "complete_job"},
            },
            "worker": {"replicas": 2, "command": command, "resources": resources},
        },
        "policies": {
            "member_evicted": "restart_job",
            "member_failed": "restart_job",
            "member_lost": "restart_job",
            "exit_code:3": "abort_job",
        },
        "retries": {"max": 5},
        "kubernetes": {
            "secret": "wandb",
            "ttl": "1d",
            "pod": {
                "nodeSelector": {"gpu": "a100"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "volumes": [{"name": "conf", "configMap": {"name": "train-conf"}}],
                "containers": [
                    {
                        "name": "main",
                        "imagePullPolicy": "IfNotPresent",
                        "env": [
                            {
                                "name": "NODE",
                                "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                            }
                        ],
                        "resources": {"limits": {"rdma/hca": 1}, "requests": {"rdma/hca": 1}},
                        "volumeMounts": [
                            {"name": "volume-data", "mountPath": "/data", "readOnly": True},
                            {"name": "volume-out", "mountPath": "/out", "subPath": "runs"},
                            {"name": "conf", "mountPath": "/etc/train"},
                        ],
                    }
                ],
            },
        },
    }
    said = "\n".join(notes)
    assert "vcjob.yaml:5:3: metadata.namespace: the namespace is the context's" in said
    assert "Dromon sets MASTER_PORT in every member" in said
    assert "asked for 3500m and limited to 8" in said


def test_what_was_not_carried_over_stands_on_top_of_the_file():
    text = import_job(PYTORCH, "jobs/vcjob.yaml").text
    top = text[: text.index("name: ")]
    assert top.startswith("# Imported from vcjob.yaml.\n")
    assert "#   5: the namespace is the context's: left out\n" in top
    assert all(line.startswith("#") for line in top.splitlines())


def test_lines_that_made_tf_config_are_left_out_for_the_frameworks_own():
    job, notes = imported(TENSORFLOW)
    assert job["framework"] == "tensorflow"
    assert job["roles"]["ps"]["command"] == ["sh", "-c", "python /app/mnist.py --ps\n"]
    assert job["roles"]["worker"]["command"] == "python /app/mnist.py ${EPOCHS}"
    assert job["retries"] == {"max": 3}  # what Volcano has where nothing is said
    assert any("Dromon sets TF_CONFIG" in note for note in notes)


def test_the_tensorflow_plugin_says_which_task_has_which_role():
    text = (
        TENSORFLOW.replace("svc: []", 'svc: [], tensorflow: ["--ps=keeper", "--worker=learner"]')
        .replace("name: ps", "name: keeper").replace("name: worker", "name: learner")
    )  # fmt: skip
    job, notes = imported(text)
    assert list(job["roles"]) == ["ps", "worker"]
    assert any("the task learner is the role worker" in note for note in notes)


def test_an_mxnet_job_is_known_by_its_variables():
    job, notes = imported(MXNET)
    assert job["framework"] == "mxnet"
    assert list(job["roles"]) == ["scheduler", "server", "worker"]
    assert "command" not in job["roles"]["scheduler"]  # the framework brings it along
    assert job["roles"]["worker"]["env"] == {"BATCH": "64"}
    assert any("DMLC_ROLE, DMLC_NUM_WORKER, DMLC_PS_ROOT_URI" in note for note in notes)


def test_an_mpi_job_needs_no_launcher_and_no_sshd():
    job, notes = imported(MPI)
    assert job["framework"] == "mpi"
    assert job["roles"] == {
        "worker": {
            "replicas": 2,
            "command": [
                "/bin/sh", "-c",
                "cd /home\nrm -f /tmp/old\nmpiexec --allow-run-as-root -np 2 ./hello;\n",
            ],
            "resources": {"gpus": 1},
        }
    }  # fmt: skip
    assert any("mpimaster is no role of its own" in note for note in notes)


def test_the_mpi_plugins_host_variable_is_not_needed_either():
    text = MPI.replace("plugins: {ssh: [], svc: []}", "plugins: {ssh: [], svc: [], mpi: []}")
    text = text.replace("--host ${HOSTS}", '-H "${MPI_HOST}"').replace("HOSTS=", "MPI_HOST=")
    job, _ = imported(text)
    assert job["roles"]["worker"]["command"][2].splitlines()[1:] == [
        "rm -f /tmp/old", "mpiexec --allow-run-as-root -np 2 ./hello;",
    ]  # fmt: skip


def test_a_plain_job_of_kubernetes_is_one_role():
    job, notes = imported(PLAIN)
    assert job == {
        "name": "pi",
        "framework": "none",
        "priority": "low",
        "max_duration": "90s",
        "environment": {"image": "perl:5"},
        "roles": {"worker": {"replicas": 4, "command": ["perl", "-wle", "print 3"]}},
        "retries": {"max": 2},
        "kubernetes": {
            "labels": {"team": "math", "app.kubernetes.io/name": "pi"},
            "annotations": {"prometheus.io/scrape": "true"},
            "service_account": "counting",
            "pod": {
                "initContainers": [{"name": "warm", "image": "busybox", "command": [True]}],
                "containers": [{"name": "side", "image": "sidecar:1"}],
            },
        },
    }
    said = "\n".join(notes)
    assert "4 pods ran 2 at a time" in said
    assert "$JOB_COMPLETION_INDEX is $DROMON_INDEX" in said
    assert "side: containers beside the member" in said


def test_a_cron_job_loses_its_schedule_only():
    text = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n"
        '  schedule: "0 3 * * *"\n  jobTemplate: {spec: {tasks: [{name: a, template: {spec: '
        "{containers: [{name: c, image: i, command: [x]}]}}}]}}\n"
    )
    job, notes = imported(text)
    assert job["roles"] == {"a": {"replicas": 1, "command": ["x"]}}
    assert "schedule is left out" in notes[0]


def test_ray_heads_and_workers_are_roles_and_the_plugin_is_not_carried_over():
    text = volcano_job(spec="plugins: {ray: [], svc: []}")
    job, notes = imported(text)
    assert job["framework"] == "none"
    assert "kubernetes" not in job
    assert any("ray" in note and "overwrites the commands" in note for note in notes)


@pytest.mark.parametrize(
    ("spec", "task", "least"),
    [
        ("", "", None),
        ("minAvailable: 2", "", None),
        ("minAvailable: 1", "", 1),
        ("minAvailable: 2", "minAvailable: 1", 1),
        ("minAvailable: 9", "", None),
    ],
)
def test_the_gang_is_what_the_job_or_the_task_says(spec, task, least):
    job, _ = imported(volcano_job(spec=spec, task=task))
    assert job["roles"]["worker"].get("min") == least


def test_a_number_for_all_tasks_is_taken_from_the_largest_and_said():
    text = TENSORFLOW.replace("minAvailable: 3", "minAvailable: 2")
    job, notes = imported(text)
    assert job["roles"]["worker"]["min"] == 1
    assert "min" not in job["roles"]["ps"]
    assert any("any 2 of the pods were enough" in note for note in notes)


@pytest.mark.parametrize(
    ("volume", "mount", "ours", "kept"),
    [
        ("emptyDir: {}", "", {"source": "node"}, False),
        ("hostPath: {path: /data/x/}", "", {"source": "/data/x", "access": "mount"}, False),
        ("persistentVolumeClaim: {claimName: c}", ", readOnly: true", {"source": "pvc:c"}, False),
        ("nfs: {server: s, path: /p}", ", subPath: q", {"source": "nfs://s/p/q",
                                                       "access": "mount"}, False),
        ("configMap: {name: c}", "", None, True),
        ("secret: {secretName: c}", "", None, True),
        ("emptyDir: {medium: Memory}", "", None, True),
        ("persistentVolumeClaim: {claimName: c}", ", mountPropagation: Bidirectional", None, True),
    ],
)  # fmt: skip
def test_a_volume_is_ours_where_we_have_a_word_for_it_and_keeps_its_path(volume, mount, ours, kept):
    text = volcano_job(
        pod=f"volumes: [{{name: v, {volume}}}]",
        container=f"volumeMounts: [{{name: v, mountPath: /where{mount}}}]",
    )
    job, _ = imported(text)
    assert job.get("volumes", {}).get("v") == ours
    pod = job["kubernetes"]["pod"]
    assert ("volumes" in pod) is kept
    (mounted,) = pod["containers"][0]["volumeMounts"]
    assert mounted["mountPath"] == "/where"
    assert mounted["name"] == ("v" if kept else "volume-v")


def test_a_volume_that_a_side_container_shares_stays_with_the_pod():
    text = volcano_job(
        pod="volumes: [{name: v, emptyDir: {}}]\n"
        "initContainers: [{name: i, image: i, volumeMounts: [{name: v, mountPath: /i}]}]",
        container="volumeMounts: [{name: v, mountPath: /where}]",
    )
    job, _ = imported(text)
    assert "volumes" not in job
    assert job["kubernetes"]["pod"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_claims_of_the_job_itself_are_mounted_in_every_task():
    text = volcano_job(
        spec="volumes:\n- {mountPath: /in, volumeClaimName: corpus}\n"
        "- {mountPath: /scratch, volumeClaim: {accessModes: [ReadWriteOnce]}}"
    )
    job, notes = imported(text)
    assert job["volumes"] == {
        "corpus": {"source": "pvc:corpus", "access": "mount"},
        "scratch": {"source": "node"},
    }
    mounts = job["kubernetes"]["pod"]["containers"][0]["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == ["/in", "/scratch"]
    assert any("scratch space of the node" in note for note in notes)


def test_secrets_of_several_kinds_are_supplied_at_submit():
    text = volcano_job(
        container="env:\n"
        "- {name: A, valueFrom: {secretKeyRef: {name: s, key: a}}}\n"
        "- {name: B, valueFrom: {secretKeyRef: {name: t, key: B}}}"
    )
    job, notes = imported(text)
    assert job["secrets"] == ["A", "B"]
    assert "kubernetes" not in job
    assert any("A was the key a of the Secret s" in note for note in notes)


def test_tasks_of_several_images_keep_theirs():
    text = TENSORFLOW.replace("image: tf:1\n          command: [bash", "image: tf:2\n          "
                              "command: [bash")  # fmt: skip
    job, _ = imported(text)
    assert job["environment"] == {"image": "tf:1"}
    assert job["kubernetes"]["roles"] == {
        "worker": {"pod": {"containers": [{"name": "main", "image": "tf:2"}]}}
    }


def test_texts_that_look_like_our_placeholders_are_escaped():
    text = volcano_job(container='env: [{name: A, value: "x${config.y}"}]').replace(
        "[python, /app/train.py]", '[bash, -c, "echo $${PID} ${job.name} ${HOME}"]'
    )
    job, _ = imported(text)
    assert job["env"] == {"A": "x$${config.y}"}
    assert job["roles"]["worker"]["command"] == "echo $$${PID} $${job.name} ${HOME}"


def test_references_are_filled_in_as_kubernetes_does():
    text = volcano_job(container='env: [{name: A, value: one}, {name: B, value: "$(A)-$$(A)"}]')
    text = text.replace("[python, /app/train.py]", '[run, "$(A)", "$$(A)", "$(NOBODY)", "$$"]')
    job, _ = imported(text)
    assert job["env"]["B"] == "one-$(A)"
    assert job["roles"]["worker"]["command"] == ["run", "one", "$(A)", "$(NOBODY)", "$$"]


def test_a_command_of_the_image_must_be_written_by_hand_and_is_said():
    text = volcano_job(container='args: ["--lr", "3"]').replace(
        "          command: [python, /app/train.py]\n", ""
    )
    made = import_job(text, "vcjob.yaml")
    assert [problem.path for problem in made.problems] == ["roles.worker.command"]
    assert any("It gets the arguments --lr 3" in str(note) for note in made.notes)


def test_a_script_without_a_directory_is_said():
    text = volcano_job().replace("/app/train.py", "train.py")
    _, notes = imported(text)
    assert any("train.py was looked for in the image's working directory" in n for n in notes)


def test_preemption_names_and_further_keys_find_their_place():
    text = volcano_job(
        metadata='annotations: {volcano.sh/preemptable: "false", mine: "1"}',
        spec="minSuccess: 1\nnetworkTopology: {mode: hard}\nplugins: {hcclrank: []}\n"
        "schedulerName: other",
        task="dependsOn: {name: [a]}\nmaxRetry: 2",
    ).replace("name: train\n", "name: " + "x" * 40 + "\n")
    job, notes = imported(text)
    assert job["preemptible"] is False
    assert job["name"] == "x" * 33
    assert job["kubernetes"]["annotations"] == {"mine": "1"}
    assert job["kubernetes"]["job"] == {
        "networkTopology": {"mode": "hard"}, "plugins": {"hcclrank": []},
    }  # fmt: skip
    said = "\n".join(notes)
    for words in ("at most 33 characters", "minSuccess", "dependsOn", "not by other"):
        assert words in said


@pytest.mark.parametrize(
    ("policy", "ours"),
    [
        ("{event: '*', action: RestartJob}", {"member_failed", "member_evicted", "member_lost"}),
        ("{event: PodPending, timeout: 10m, action: AbortJob}", {"pending:10m"}),
        ("{event: PodPending, timeout: 10m, action: RestartJob}", set()),
        ("{event: PodPending, action: AbortJob}", set()),
        ("{event: OutOfSync, action: AbortJob}", set()),
        ("{event: PodFailed, action: SyncJob}", set()),
        ("{exitCode: 0, action: AbortJob}", set()),
        ("{exitCode: 7, action: CompleteJob}", {"exit_code:7"}),
    ],
)
def test_a_policy_is_ours_or_said_to_be_left_out(policy, ours):
    job, notes = imported(volcano_job(spec=f"policies: [{policy}]"))
    assert set(job.get("policies", {})) == ours
    assert ours or any("left out" in note for note in notes)


def test_json_lists_and_further_documents_are_read():
    data = YAML(typ="safe", pure=True).load(volcano_job())
    whole = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "ConfigMap",
             "apiVersion": "v1", "metadata": {"name": "c"}}, data]}  # fmt: skip
    job, notes = imported(json.dumps(whole, indent="\t"))
    assert job["roles"]["worker"]["replicas"] == 2
    assert "the ConfigMap c is not a job: apply it by itself" in notes[0]
    job, notes = imported("---\n# nothing\n---\n" + volcano_job() + "---\nkind: Service\n...\n")
    assert "the Service is not a job" in notes[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "vcjob.yaml:1:1: is empty"),
        ("a: b\n", "vcjob.yaml:1:1: is no object of Kubernetes; a Volcano Job begins with"),
        ("kind: Pod\napiVersion: v1\n", "1:1: kind: a Pod of v1 is no Job; put it under"),
        ("kind: Workflow\napiVersion: argoproj.io/v1alpha1\n", "copy the Job that stands under"),
        ("kind: RayCluster\napiVersion: ray.io/v1\n", "a Ray cluster is no job"),
        ("kind: PyTorchJob\napiVersion: kubeflow.org/v1\n",
         "a PyTorchJob of kubeflow.org is no Job; Volcano Jobs and plain Jobs can be imported"),
        ("kind: Job\napiVersion: batch/v1\n", "1:1: a Job without a spec"),
        ("kind: Job\napiVersion: batch/v1\nspec: {template: {}}\n", "a pod without containers"),
        ("kind: Job\napiVersion: batch.volcano.sh/v1alpha1\nspec: {queue: a}\n",
         "a Job without tasks"),
        ("kind: Job\napiVersion: batch.volcano.sh/v1alpha1\nspec: {tasks: 3}\n",
         "3:15: spec.tasks: expected a list, got the number 3"),
        ("a: [\n", "vcjob.yaml:"),
        ("\ta: b\n", "a tab indents this line"),
        ("name: {{ .Values.name }}\n", "is a template, not YAML yet; fill it in first"),
        (volcano_job() + "---\n" + volcano_job(), "one job per file"),
        (volcano_job(container="resources: {limits: {cpu: many}}"), "'many' is not a quantity"),
        (volcano_job(task="minAvailable: -1"), "expected a whole number"),
        (volcano_job().replace("replicas: 2", "replicas: two"), "expected a whole number"),
        (volcano_job().replace("[python, /app/train.py]", "python"), "expected a list of texts"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_one_message_with_its_place(text, words):
    with pytest.raises(JobFileError) as caught:
        import_job(text, "vcjob.yaml")
    assert words in str(caught.value)


def test_two_jobs_are_told_with_the_line_of_each():
    with pytest.raises(JobFileError) as caught:
        import_job(volcano_job() + "---\n" + volcano_job(), "two.yaml")
    assert [problem.line for problem in caught.value.problems] == [2, 17]
