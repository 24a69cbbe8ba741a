import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dromon.spec import Job, Resources, load_data, load_text, resolve

PRODUCT = """\
name: unet3d
framework: torch
queue: research
priority: normal
preemptible: true
max_duration: 8h
stop_grace: 2m
gang_wait: 1m
workdir: .
files: {winequality.py: lib/winequality.py}
environment:
  python: "3.11"
  packages: [torch==2.15.0]
env: {OMP_NUM_THREADS: "1", HF_TOKEN: null}
secrets: [WANDB_API_KEY]
volumes:
  ct: {source: "hdfs:///datasets/ct", access: copy}
  scratch: {source: node}
roles:
  worker:
    replicas: 4
    min: 4
    command: python train.py --data ${volumes.ct}/train --epochs ${config.training.epochs}
    processes: 1
    resources: {cpus: 4, memory: 16GiB, gpus: 1, shm: 8GiB}
    node_label: gpu
    spread: none
policies:
  member_failed: restart_job
  member_evicted: restart_job
  exit_code:3: ignore
  pending:10m: abort_job
retries: {max: 3, backoff: 10s}
outputs: [checkpoints, model]
tensorboard: runs
hdfs: [hdfs://other-nn]
acls: {view: [team-a], modify: []}
config:
  model: {name: 3D_UNet, filters: [32, 64, 128, 256]}
  training: {epochs: 100, batch_size: 4, optimizer: {name: adam, learning_rate: 0.001}}
yarn: {}
kubernetes: {pod: {}}
"""


def test_the_whole_job_file_is_understood() -> None:
    job = load_text(PRODUCT, "job.yaml")
    worker = job.roles["worker"]
    assert (job.max_duration, job.stop_grace, job.gang_wait) == (28800.0, 120.0, 60.0)
    assert (worker.replicas, worker.min, worker.resources.gpu_count) == (4, 4, 1.0)
    assert worker.resources.memory == 16 * 2**30
    assert (job.volumes["ct"].access, job.volumes["scratch"].access) == ("copy", "mount")
    assert (job.retries.max, job.retries.backoff) == (3, 10.0)
    assert job.env == {"OMP_NUM_THREADS": "1", "HF_TOKEN": None}
    filled = resolve(job, id="unet3d-abc234", name="unet3d").roles["worker"].command
    assert filled == "python train.py --data ${volumes.ct}/train --epochs 100"


def test_a_command_is_enough() -> None:
    job = load_data({"command": ["true"], "resources": {"cpus": 1}})
    worker = job.roles["worker"]
    assert job.name is None
    assert (job.framework, job.queue, job.priority, job.preemptible) == (
        "none", "default", "normal", True,
    )  # fmt: skip
    assert (job.max_duration, job.stop_grace, job.gang_wait, job.workdir) == (
        None,
        30.0,
        60.0,
        None,
    )
    assert (worker.replicas, worker.min, worker.processes, worker.spread) == (1, 1, 1, "none")
    assert worker.resources == Resources(cpus=1.0, memory=None, gpus=0, shm=None)
    assert job.to_data() == {"roles": {"worker": {"command": ["true"]}}}


@pytest.mark.parametrize(
    ("gpus", "count", "kinds"),
    [(2, 2.0, {}), (0.5, 0.5, {}), (1.0, 1.0, {}), ({"a100": 2, "t4": 0.5}, 2.5,
     {"a100": 2.0, "t4": 0.5})],
)  # fmt: skip
def test_gpus_are_counted(gpus: object, count: float, kinds: dict[str, float]) -> None:
    resources = load_data({"command": "x", "resources": {"gpus": gpus}}).roles["worker"].resources
    assert (resources.gpu_count, resources.gpu_kinds) == (count, kinds)


def test_jobs_do_not_share_their_empty_containers() -> None:
    first, second = load_data({"command": "x"}), load_data({"command": "x"})
    first.env["A"] = "1"
    assert second.env == {}
    assert load_data({"command": "x"}).env == {}


def test_a_job_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_data({"command": "x"}).queue = "other"  # type: ignore[misc]


text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0${"), min_size=1, max_size=10
).filter(str.strip)
word = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)
variable = st.from_regex(r"Z[A-Z0-9_]{0,6}", fullmatch=True)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
duration = st.sampled_from(["90s", "1h30m", "2d", 5, 0.5])
resources = st.fixed_dictionaries(
    {},
    optional={
        "cpus": st.sampled_from([0, 0.5, 1, 4]),
        "memory": st.sampled_from(["512MiB", "16GiB", 2**30]),
        "gpus": st.sampled_from([0, 1, 0.25, 8]) | st.dictionaries(word, st.just(2), min_size=1),
        "shm": st.just("1GiB"),
    },
)
event = st.sampled_from(["member_failed", "member_lost", "exit_code:3", "pending:10m"])
policies = st.dictionaries(event, st.sampled_from(["restart_job", "ignore", "abort_job"]))


@st.composite
def roles(draw: st.DrawFn) -> dict[str, object]:
    replicas = draw(st.integers(1, 9))
    return draw(
        st.fixed_dictionaries(
            {"command": text | st.lists(text, min_size=1, max_size=3)},
            optional={
                "replicas": st.just(replicas),
                "processes": st.integers(1, 4),
                "resources": resources,
                "node_label": word,
                "spread": st.sampled_from(["none", "node"]),
                "env": st.dictionaries(variable, text | st.none(), max_size=2),
                "policies": policies,
            },
        )
    ) | ({"replicas": replicas, "min": draw(st.integers(1, replicas))} if replicas > 4 else {})


jobs = st.fixed_dictionaries(
    {"roles": st.dictionaries(word, roles(), min_size=1, max_size=2)},
    optional={
        "name": word,
        "framework": st.sampled_from(["none", "torch", "jax"]),
        "queue": word,
        "priority": word | st.integers(-5, 5),
        "preemptible": st.booleans(),
        "max_duration": duration,
        "stop_grace": duration,
        "workdir": text,
        "files": st.dictionaries(word, text, max_size=2),
        "environment": st.fixed_dictionaries(
            {}, optional={"python": st.just("3.11"), "packages": st.lists(text, max_size=2)}
        ),
        "env": st.dictionaries(variable, text | st.none(), max_size=2),
        "volumes": st.dictionaries(
            word,
            st.fixed_dictionaries(
                {"source": text}, optional={"access": st.sampled_from(["copy", "mount", "url"])}
            ),
            max_size=2,
        ),
        "policies": policies,
        "retries": st.fixed_dictionaries({}, optional={"max": st.integers(0, 3)}),
        "outputs": st.lists(word, max_size=2),
        "acls": st.fixed_dictionaries({}, optional={"view": st.lists(text, max_size=2)}),
        "config": st.dictionaries(text, plain, max_size=3),
        "kubernetes": st.dictionaries(text, plain, max_size=2),
    },
)


@settings(max_examples=150, deadline=None)
@given(jobs)
def test_a_job_survives_its_own_data(data: dict[str, object]) -> None:
    job = load_data(data)
    canonical = job.to_data()
    assert load_data(canonical) == job
    assert Job.from_data(json.loads(json.dumps(canonical))) == job
    assert load_data(canonical).to_data() == canonical
    assert list(canonical) == [key for key in Job.model_fields if key in canonical]
