"""Job files of all shapes, and launches of them: for the tests of the compiler."""

from typing import Any

from hypothesis import strategies as st

from dromon import spec
from dromon.engines.base import Artifact, Launch

CANARY = "canary-5c1f0"
SHAPES: dict[str, dict[str, dict[str, Any]]] = {
    "none": {"worker": {}, "a-helper": {}},
    "torch": {"worker": {}},
    "tensorflow": {"chief": {}, "worker": {}, "ps": {}, "evaluator": {}},
    "mxnet": {"worker": {}, "server": {}},
    "jax": {"worker": {}},
    "mpi": {"worker": {}},
    "horovod": {"worker": {}},
}


def launch_of(id: str = "train-aaaaaa", *, launch_keys: Any = None, **keys: Any) -> Launch:
    """A launch of the job file with these keys."""
    data = {"command": "true", **keys} if "roles" not in keys else keys
    job = spec.load_data({k: v for k, v in data.items() if v is not None}, "request", [])
    job = spec.resolve(job, id=id, name=id.rpartition("-")[0])
    given = {
        "code": Artifact("ab" * 32, "blob:" + "ab" * 32, 2000),
        "environment": {"kind": "host", "python": "/usr/bin/python3"},
        "facts": {"user": "al"},
        **(launch_keys or {}),
    }
    return Launch(id=id, job=job.to_data(), **given)


def _text(alphabet: str, most: int) -> Any:
    return st.text(alphabet, min_size=1, max_size=most)


NAMES = st.from_regex(r"[a-z](?:[a-z0-9-]{0,31}[a-z0-9])?", fullmatch=True)
TOKENS = st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=6, max_size=6)
SIZES = st.integers(2**20, 2**50)
DURATIONS = st.floats(0, 1e6, allow_nan=False)
VARIABLES = st.from_regex(r"MY_[A-Z0-9_]{0,20}", fullmatch=True)
# Texts that YAML of one version or another would take for something else.
WORDS = st.one_of(
    st.sampled_from(["on", "No", "0o17", "017", "1e3", "12:30:45", "~", "", " x", "- a", "{", "#"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
)
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "cpus": st.floats(0, 512, allow_nan=False),
        "memory": SIZES,
        "gpus": st.one_of(st.integers(0, 16), st.just({"a100": 2})),
        "shm": SIZES,
    },
)
SOURCES = st.one_of(
    st.just({"source": "node"}),
    st.fixed_dictionaries(
        {"source": st.sampled_from(["pvc:data", "pvc:data/a/b", "nfs://server/data"])},
        optional={"access": st.sampled_from(["copy", "mount", "url"])},
    ),
    st.just({"source": "s3://bucket/data", "access": "url"}),
)
HATCHES = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(NAMES, st.sampled_from(["", "x", "A.b_c-1"]), max_size=2),
        "annotations": st.dictionaries(NAMES, WORDS, max_size=2),
        "python": st.sampled_from(["python3", "/opt/python/bin/python"]),
        "read_only_root": st.booleans(),
        "service_account": st.just("trainer"),
        "ttl": st.sampled_from([0, 60, "1h"]),
        "pod": st.sampled_from(
            [
                {"shareProcessNamespace": True},
                {"containers": [{"name": "main", "env": [{"name": "A", "value": "on"}]}]},
                {"tolerations": [{"key": "spot", "operator": "Exists"}]},
                {"volumes": [{"name": "run", "emptyDir": {"sizeLimit": "1Gi"}}]},
            ]
        ),
    },
)


@st.composite
def roles(draw: Any, name: str) -> dict[str, Any]:
    replicas = draw(st.integers(1, 1000))
    role = {
        "replicas": replicas,
        "command": draw(st.one_of(st.just("true"), st.just(["echo", "${volumes.data}", "a b"]))),
        "resources": draw(RESOURCES),
        "spread": draw(st.sampled_from(["none", "node"])),
        "env": draw(st.dictionaries(VARIABLES, WORDS, max_size=3)),
    }
    if draw(st.booleans()):
        role["min"] = draw(st.integers(1, replicas))
    return role


@st.composite
def job_files(draw: Any) -> dict[str, Any]:
    """Keys of a job file that a cluster with everything takes."""
    framework = draw(st.sampled_from(sorted(SHAPES)))
    names = draw(st.lists(st.sampled_from(list(SHAPES[framework])), min_size=1, unique=True))
    if framework in ("tensorflow", "mxnet") and "worker" not in names:
        names.append("worker")
    made = {name: draw(roles(name)) for name in names}
    keys: dict[str, Any] = {
        "framework": framework,
        "roles": made,
        "volumes": {"data": draw(SOURCES), "scratch": {"source": "node"}},
        "priority": draw(st.sampled_from(["low", "normal", "high", "urgent", 0, 55, -3])),
        "preemptible": draw(st.booleans()),
        "stop_grace": draw(DURATIONS),
        "retries": {"max": draw(st.integers(0, 9))},
        "config": {"lr": 0.1, "text": draw(WORDS)},
        "kubernetes": draw(HATCHES),
    }
    if all(role.get("min", role["replicas"]) == role["replicas"] for role in made.values()):
        keys["policies"] = draw(st.sampled_from([{}, {"pending:90s": "abort_job"}]))
    if draw(st.booleans()):
        keys["secrets"] = ["TOKEN"]
    return keys


@st.composite
def launches(draw: Any) -> Launch:
    keys = draw(job_files())
    supplied = dict.fromkeys(keys.get("secrets", ()), CANARY)
    facts = {"user": draw(st.sampled_from(["al", "Al Ö", "-x@host.example-", "u" * 90]))}
    more: dict[str, Any] = {"supplied": supplied, "facts": facts}
    if draw(st.booleans()):
        more["environment"] = {"kind": "image", "image": "x@sha256:" + "1" * 64}
    return launch_of(f"{draw(NAMES)}-{draw(TOKENS)}", launch_keys=more, **keys)
