"""One task's pod: the role it becomes, and what of it stays the pod's, under `kubernetes:`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dromon.compat.volcano import commands
from dromon.compat.volcano.amounts import cores, size
from dromon.compat.volcano.source import Source
from dromon.compat.volcano.volumes import Volumes
from dromon.engines.kubernetes.quantities import number
from dromon.spec.path import Path

GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi")
# Of a pod: what is ours to set, or is carried over by a key of its own.
OURS = frozenset((
    "containers", "restartPolicy", "schedulerName", "volumes", "priorityClassName", "priority",
    "preemptionPolicy", "activeDeadlineSeconds", "terminationGracePeriodSeconds",
    "serviceAccountName", "serviceAccount", "hostname", "subdomain", "enableServiceLinks",
    "nodeName",
))  # fmt: skip
# Of a container: likewise. Ports need not be declared to be used.
OURS_OF_CONTAINER = frozenset((
    "name", "image", "command", "args", "env", "resources", "volumeMounts", "workingDir", "ports",
    "terminationMessagePath", "terminationMessagePolicy", "stdin", "tty",
))  # fmt: skip
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
MAIN = "main"


@dataclass(slots=True)
class Task:
    """One task, read; `words` is its command as arguments, None where the image has it."""

    name: str
    path: Path
    replicas: int
    least: int | None
    words: list[str] | None = None
    arguments: list[str] = field(default_factory=list)  # for the program of the image
    directory: str = ""
    image: str = ""
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, tuple[str, str]] = field(default_factory=dict)  # variable -> Secret, key
    resources: dict[str, Any] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    pod: dict[str, Any] = field(default_factory=dict)  # the hatch
    service_account: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    priority: str = ""
    deadline: int | None = None
    grace: int | None = None


def read_task(
    source: Source, task: Task, template: Mapping[str, Any], path: Path, volumes: Volumes
) -> None:
    """Fills in the task from its pod template."""
    metadata = source.mapping(template, "metadata", path)
    task.labels = _texts(source.mapping(metadata, "labels", (*path, "metadata")))
    task.annotations = _texts(source.mapping(metadata, "annotations", (*path, "metadata")))
    spec, here = source.mapping(template, "spec", path), (*path, "spec")
    containers = source.items(spec, "containers", here)
    if not containers:
        raise source.wrong(here, "a pod without containers", "is the file cut off?")
    task.priority = str(spec.get("priorityClassName") or "")
    task.deadline = source.whole(spec, "activeDeadlineSeconds", here)
    task.grace = source.whole(spec, "terminationGracePeriodSeconds", here)
    task.service_account = str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")
    if spec.get("nodeName"):
        source.note((*here, "nodeName"), "pods are placed by the scheduler: use a node selector")
    task.pod = {key: value for key, value in spec.items() if key not in OURS}
    container = _container(source, task, containers[0], (*here, "containers", 0))
    mounted = volumes.task(spec, here, 0)
    if mounted.shm is not None:
        task.resources["shm"] = mounted.shm
    if mounted.volumes:
        task.pod["volumes"] = mounted.volumes
    mounts = [*mounted.mounts, *volumes.claims(source.root)]
    if mounts:
        container["volumeMounts"] = mounts
    others = [dict(each) for each in containers[1:]]
    if others:
        names = ", ".join(str(each.get("name")) for each in others)
        source.note((*here, "containers", 1), f"{names}: containers beside the member must end by "
                    "themselves, or the pod does not; they are under kubernetes: as they were",
                    at_key=False)  # fmt: skip
    if len(container) > 1 or others:
        task.pod["containers"] = [*([container] if len(container) > 1 else []), *others]


def _container(source: Source, task: Task, given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Reads the member's container; returns what is left of it for the hatch."""
    task.image = str(given.get("image") or "")
    left = {key: value for key, value in given.items() if key not in OURS_OF_CONTAINER}
    for probe in PROBES:
        if left.pop(probe, None) is not None:
            source.note((*path, probe), "the agent answers for the member: left out")
    if left.pop("lifecycle", None) is not None:
        source.note((*path, "lifecycle"), "hooks of the container are left out")
    further = _environment(source, task, given, path)
    if further:
        left["env"] = further
    task.directory = str(given.get("workingDir") or "")
    task.words = _words(source, task, given, path)
    rest = _resources(source, task, given, path)
    if rest:
        left["resources"] = rest
    return {"name": MAIN, **left}


def _environment(
    source: Source, task: Task, given: Mapping[str, Any], path: Path
) -> list[Mapping[str, Any]]:
    left = []
    for at, each in enumerate(source.items(given, "env", path)):
        name, here = str(each.get("name") or ""), (*path, "env", at)
        known = each.get("valueFrom")
        if known is None:
            text = each.get("value")
            filled, unknown = commands.expanded("" if text is None else str(text), task.env)
            task.env[name] = commands.escaped(filled)
            for other in unknown:
                if other in task.secrets:
                    source.note(here, f"$({other}) is a secret and is not filled in here",
                                at_key=False)  # fmt: skip
        elif isinstance(known, dict) and isinstance(known.get("secretKeyRef"), dict):
            secret = known["secretKeyRef"]
            task.secrets[name] = (str(secret.get("name")), str(secret.get("key")))
        else:
            left.append(each)  # of the pod itself, or of a ConfigMap: the pod sets it as before
    return left


def _words(source: Source, task: Task, given: Mapping[str, Any], path: Path) -> list[str] | None:
    command, arguments = (_list(source, given, key, path) for key in ("command", "args"))
    task.arguments = arguments
    if not command:
        return None
    words = []
    for word in (*command, *arguments):
        filled, unknown = commands.expanded(word, task.env)
        for name in unknown:
            if name in task.secrets:
                source.note((*path, "command"), f"$({name}) is not filled in here: write ${name} "
                            "in a script")  # fmt: skip
        words.append(commands.escaped(filled))
    return words


def _list(source: Source, given: Mapping[str, Any], key: str, path: Path) -> list[str]:
    value = given.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise source.wrong((*path, key), "expected a list of texts", "write [sh, -c, …]")
    return [_text(each) for each in value]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): _text(value) for key, value in given.items()}


def _resources(source: Source, task: Task, given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Reads CPUs, memory and GPUs; returns the other kinds, for the hatch."""
    asked, here = source.mapping(given, "resources", path), (*path, "resources")
    requests = source.mapping(asked, "requests", here)
    limits = source.mapping(asked, "limits", here)
    for kind in ("requests", "limits"):
        for key, value in source.mapping(asked, kind, here).items():
            try:
                number(value)
            except ValueError as error:
                raise source.wrong((*here, kind, key), str(error)) from None
    cpu = requests.get("cpu", limits.get("cpu"))
    if cpu is not None and number(cpu):
        task.resources["cpus"] = cores(cpu)
    memory = limits.get("memory", requests.get("memory"))
    if memory is not None:
        amount = size(memory)
        if amount is None:
            source.note(here, f"{memory} of memory is less than a job file can ask for: left out")
        else:
            task.resources["memory"] = amount
    for kind in ("cpu", "memory"):
        both = kind in requests and kind in limits
        if both and number(requests[kind]) != number(limits[kind]):
            which = "the limit" if kind == "memory" else "the request"
            source.note((*here, "limits", kind), f"asked for {requests[kind]} and limited to "
                        f"{limits[kind]}: a job file has one amount, {which}")  # fmt: skip
    others = {key for key in {**requests, **limits} if key not in ("cpu", "memory")}
    for key in sorted(others & set(GPUS)):
        others.discard(key)
        count = int(number(limits.get(key, requests.get(key))))
        task.resources["gpus"] = task.resources.get("gpus", 0) + count
        if key != GPUS[0]:
            source.note((*here, "limits", key), f"the context must say gpu_resource={key}")
    rest = {
        kind: {key: each[key] for key in sorted(others) if key in each}
        for kind, each in (("limits", limits), ("requests", requests))
    }
    return {kind: amounts for kind, amounts in rest.items() if amounts}
