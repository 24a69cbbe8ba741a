"""Whatever is compiled, the real API server and Volcano's webhook take it; `kubectl` reads it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jobs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from ruamel.yaml import YAML
from testbeds.kubernetes import programs
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "engines" / "kubernetes"))

from generated import launch_of, launches  # noqa: E402

from dromon.compat.volcano import import_job  # noqa: E402
from dromon.engines.base import Launch, token  # noqa: E402
from dromon.engines.intake import Intake, Request  # noqa: E402
from dromon.engines.kubernetes import volcano  # noqa: E402
from dromon.engines.kubernetes.carriers import request_map, secret  # noqa: E402
from dromon.engines.kubernetes.http import Api  # noqa: E402
from dromon.engines.kubernetes.kubeconfig import find  # noqa: E402
from dromon.engines.kubernetes.manifest import (  # noqa: E402
    Target,
    compile_launch,
    standalone,
    to_yaml,
)
from dromon.packaging import archive, lightapp  # noqa: E402
from dromon.spec import load_text, resolve  # noqa: E402
from dromon.storage.blobs import BlobStore  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EXAMPLES = sorted((ROOT / "examples").glob("*/job.yaml"))
MANY = 40
SCRIPT = """
import os, sys
rank, size = os.environ["DROMON_RANK"], os.environ["DROMON_WORLD_SIZE"]
open(sys.argv[1] + "/file", "w").close()
token, uid, may_write = os.environ["TOKEN"], os.getuid(), os.access("/etc", os.W_OK)
shm = os.statvfs("/dev/shm")
print(f"{rank} of {size}, TOKEN {token}, {uid}, {may_write}, {sys.argv[1]}, "
      f"{shm.f_blocks * shm.f_frsize >> 20} MiB")
"""
LIGHT = b"not read by anybody in a dry run"


class Kubectl:
    """In a namespace of its own."""

    def __init__(self, bed: Bed) -> None:
        self.environ = {**os.environ, "KUBECONFIG": str(bed.kubeconfig)}
        self.program = [programs.get(print).cluster, "kubectl"]
        self.namespace = f"manifest-{token()}"

    def run(self, *arguments: str, text: str = "") -> str:
        done = self._done(*arguments, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _done(self, *arguments: str, text: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.program, *arguments], input=text, capture_output=True, text=True,
            env=self.environ, check=False,
        )  # fmt: skip

    def takes(self, one: dict[str, Any]) -> bool:
        """Would the server make it, as it is?"""
        words = ("create", "--dry-run=server", "-n", self.namespace, "-f", "-")
        return self._done(*words, text=json.dumps(one)).returncode == 0

    def tried(self, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the server would have made of the objects' YAML."""
        text = self.run("apply", "--dry-run=server", "-o", "json", "-f", "-", text=to_yaml(objects))
        found = json.loads(text)
        return list(found["items"]) if found["kind"] == "List" else [found]


@pytest.fixture(scope="module")
def kubectl(bed: Bed) -> Iterator[Kubectl]:
    made = Kubectl(bed)
    made.run("create", "namespace", made.namespace)
    strict = "pod-security.kubernetes.io/enforce=restricted"  # no pod that asks for more comes up
    with Api(find(bed.kubeconfig)) as api:
        jobs.is_settled(api, made.namespace)
    made.run("label", "namespace", made.namespace, strict)
    yield made
    made.run("delete", "namespace", made.namespace, "--wait=false")


@pytest.fixture(scope="module")
def target(kubectl: Kubectl) -> Target:
    return Target(
        namespace=kubectl.namespace,
        image=IMAGE,
        image_pull_policy="Never",
        light="c" * 64,
        priority_classes={"low": 100, "normal": 1000, "high": 10000},
        default_priority_class="low",
        queues=("default", "team-a", "team-b"),
        host_path_allowed=True,
        run_as={"uid": 1000, "gid": 1000},
        store={"volume": {"hostPath": {"path": "/store"}}, "sub_path": "al", "local": ""},
    )


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 8


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_is_accepted(
    kubectl: Kubectl, target: Target, tmp_path: Path, example: Path
) -> None:
    intake = Intake(BlobStore(str(tmp_path / "blobs")), str(tmp_path / "index"))
    asked = Request(cwd=str(example.parent), environ=dict(os.environ), file=str(example),
                    text=example.read_text(), token=token())  # fmt: skip
    launch = intake.take(asked).launch
    request = compile_launch(launch, target).request
    objects = [*request["objects"], request_map(launch.id, request)]
    objects.append(secret(launch.id, request, "k" * 64, {}))
    assert_kept(objects, kubectl.tried(objects))


def test_generated_job_files_are_accepted(kubectl: Kubectl, target: Target) -> None:
    """Many in one go: most of what a call costs is kubectl's own start."""
    found: list[Launch] = []

    @settings(max_examples=MANY, deadline=None, derandomize=True, database=None,
              phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(launches())
    def collect(launch: Launch) -> None:
        found.append(launch._replace(id=f"{launch.id.rpartition('-')[0]}-{token()}"))

    collect()
    bare = replace(target, store=None, run_as=None)
    objects = []
    for number, launch in enumerate(found):
        request = compile_launch(launch, target if number % 2 else bare).request
        objects += [*request["objects"], request_map(launch.id, request)]
    assert len(objects) == 2 * MANY
    assert_kept(objects, kubectl.tried(objects))


@pytest.mark.parametrize("has_volcano", [True, False])
def test_a_manifest_that_needs_no_client_is_accepted(
    kubectl: Kubectl, target: Target, has_volcano: bool
) -> None:
    on = replace(target, store=None, volcano=has_volcano)
    keys = {"secrets": ["TOKEN"], "kubernetes": {"secret": "wandb", "ttl": "1h"}}
    launch = launch_of(launch_keys={"supplied": {"TOKEN": "canary"}}, **keys)
    objects = standalone(compile_launch(launch, on).request, LIGHT, bytes(500_000))
    assert_kept(objects, kubectl.tried(objects))
    assert "canary" not in to_yaml(objects)


def test_what_the_escape_hatch_says_wrongly_is_told_by_the_server(
    kubectl: Kubectl, target: Target
) -> None:
    launch = launch_of(kubernetes={"pod": {"hostNetwrk": True}})
    objects = list(compile_launch(launch, target).request["objects"])
    with pytest.raises(AssertionError, match="hostNetwrk"):
        kubectl.tried(objects)


def test_a_manifest_alone_runs_a_gang_and_leaves_nothing_behind(
    kubectl: Kubectl, target: Target, tmp_path: Path
) -> None:
    """As somebody would who has the YAML in git and `kubectl`, and no Dromon; not as root."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT)
    blobs = BlobStore(str(tmp_path / "blobs"))
    keys = {
        "command": "python3 train.py ${volumes.scratch}",
        "replicas": 2,
        "resources": {"cpus": 0.2, "memory": "128MiB", "shm": "96MiB"},
        "spread": "node",
        "secrets": ["TOKEN"],
        "volumes": {"scratch": {"source": "node"}},
        "kubernetes": {"secret": "values", "read_only_root": True},
    }
    asked = Request(cwd=str(code), environ={**os.environ, "TOKEN": ""}, data=keys, token=token())
    launch = Intake(blobs, str(tmp_path / "index")).take(asked).launch
    assert launch.code is not None
    request = compile_launch(launch, replace(target, store=None)).request
    packed = archive.code_archive(launch.code.digest, blobs, str(tmp_path / "cache"))
    light = lightapp.build(str(tmp_path / "light"), engine="kubernetes")
    manifest = to_yaml(
        standalone(request, Path(light.path).read_bytes(), Path(packed.path).read_bytes())
    )
    here = ("--namespace", kubectl.namespace)
    kubectl.run("create", "secret", "generic", "values", "--from-literal=TOKEN=ö", *here)
    kubectl.run("apply", "-f", "-", text=manifest)
    ended = "--for=jsonpath={.status.state.phase}=Completed"
    kubectl.run("wait", f"vcjob/{launch.id}", ended, f"--timeout={jobs.PATIENCE:.0f}s", *here)
    for number in range(2):
        said = kubectl.run("logs", f"{launch.id}-worker-{number}", *here)
        assert said == f"{number} of 2, TOKEN ö, 1000, False, /dromon/volumes/scratch, 96 MiB\n"
    pods = ("get", "pods", "-l", f"dromon.io/job={launch.id}", *here)
    nodes = kubectl.run(*pods, "-o", "jsonpath={.items[*].spec.nodeName}")
    assert sorted(nodes.split()) == ["node1", "node2"]
    again = kubectl.run("apply", "-f", "-", text=manifest).splitlines()
    assert [line.rpartition(" ")[2] for line in again] == ["unchanged"] * 4
    kubectl.run("delete", "-f", "-", f"--timeout={jobs.PATIENCE:.0f}s", text=manifest)
    mine = ("get", "configmaps,pods,vcjob", "-l", f"dromon.io/job={launch.id}", "-o", "name")
    # Pods go after their job.
    assert jobs.until(lambda: kubectl.run(*mine, *here) == ""), kubectl.run(*mine, *here)


# ---- what others published ----------------------------------------------------------------------


def published() -> list[tuple[str, dict[str, Any]]]:
    """Jobs of Volcano's and Kubernetes' own examples, but those that are there to be refused."""
    folder = programs.manifests()
    return [
        (str(file.relative_to(folder)), one)
        for file in sorted(folder.rglob("*.yaml"))
        for one in YAML(typ="safe", pure=True).load_all(file.read_text())
        if one and one["kind"] in ("Job", "CronJob") and "invalid_jobs" not in str(file)
    ]


def there_and_back(file: str, theirs: dict[str, Any], target: Target) -> dict[str, Any]:
    """Imported and compiled. What the image's own command is, its user has to write."""
    made = import_job(json.dumps(theirs), file)
    assert all("command: missing" in str(problem) for problem in made.problems), made.problems
    data = YAML(typ="safe", pure=True).load(made.text)
    for role in data["roles"].values():
        role.setdefault("command", "run")
    job = load_text(json.dumps(data), "job.yaml")
    id = f"{job.name[:30]}-{token()}"
    environment = {"kind": "image", "image": job.environment.image}
    launch = Launch(id, resolve(job, id=id, name=job.name).to_data(), None, environment, {})
    on = replace(target, queues=(*target.queues, str(job.queue)))
    return dict(compile_launch(launch, on).request["objects"][0])


def test_published_jobs_become_job_files_and_the_same_jobs_again(
    kubectl: Kubectl, target: Target, built: None
) -> None:
    taken = []
    for file, theirs in published():
        ours = there_and_back(file, theirs, target)
        was = {task["name"]: task for task in theirs["spec"].get("tasks", ())}
        for task in ours["spec"]["tasks"]:
            if task["name"] in was:
                assert essentials(task) == essentials(was[task["name"]]), file
        assert ours["spec"]["queue"] == theirs["spec"].get("queue", "default"), file
        # Some ask for queues that are not here, or have fields that no server knows.
        if theirs["kind"] == "Job" and kubectl.takes(theirs):
            taken.append(ours)
    assert len(taken) > 12
    assert_kept(taken, kubectl.tried(taken))


def essentials(task: dict[str, Any]) -> list[Any]:
    pod = task["template"]["spec"]
    main = pod["containers"][0]
    amounts = main.get("resources", {}).get("requests") or main.get("resources", {}).get("limits")
    devices = {k: str(v) for k, v in (amounts or {}).items() if "/" in k}
    return [task.get("replicas", 1), main["image"], devices, pod.get("nodeSelector")]


def assert_kept(sent: list[dict[str, Any]], made: list[dict[str, Any]]) -> None:
    """The server leaves out or changes nothing of what it was sent. Nor does anybody add to a
    Volcano Job: whoever applied it again would seem to take that away, which is denied.
    """
    assert len(made) == len(sent)
    for ours, theirs in zip(sent, made, strict=True):
        assert not lost(ours, theirs, ours["metadata"]["name"])
        if ours["apiVersion"] == volcano.JOB.api_version:
            assert not lost(theirs["spec"], ours["spec"], "added")


def lost(ours: Any, theirs: Any, place: str) -> list[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        # An empty mapping says nothing; a key is not stored for it.
        return [
            problem
            for key, value in ours.items()
            if value != {} or key in theirs
            for problem in lost(value, theirs.get(key), f"{place}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
        return [p for at, (a, b) in enumerate(pairs) for p in lost(a, b, f"{place}.{at}")]
    return [] if ours == theirs else [f"{place}: {ours!r} became {theirs!r}"]
