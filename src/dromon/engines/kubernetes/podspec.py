"""The pod of one role: its containers, what they mount, what they may. Pure.

Nothing of the user's variables is in it: the agent sets them, from the request.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dromon.engines.kubernetes import placing, volcano
from dromon.engines.kubernetes.data import Data
from dromon.engines.kubernetes.hatches import Hatches
from dromon.engines.kubernetes.merging import merged
from dromon.engines.kubernetes.target import Target
from dromon.spec import Resources, Role

MAIN, FETCH = "main", volcano.FETCH
LIGHT, REQUEST, SECRET = "/dromon/light", "/dromon/request", "/dromon/secret"
RUN, CODE, STORE = "/dromon/run", "/dromon/code", "/dromon/store"
SUPPLIED = "/dromon/supplied"  # values of secrets, from a Secret that the job names
ARCHIVE = f"{LIGHT}/light.pyz"
AGENT_MEMORY = 64 * 2**20  # beside the member's own
SMALLEST_SHM = 64 * 2**20  # what a container has anyway
POD_GRACE = 5  # the agent is the one to end a deaf member, and needs the time to say so
# Largest first. Kubernetes writes amounts so, and nobody is told of a change where there is none.
BINARY = [(f"{letter}i", 2 ** (10 * power)) for power, letter in enumerate("KMGTPE", 1)][::-1]
DECIMAL = [(letter, 10 ** (3 * power)) for power, letter in enumerate("kMGTPE", 1)][::-1]
FROM_POD = {
    "DROMON_POD": "metadata.name",
    "DROMON_NODE": "spec.nodeName",
    "DROMON_POD_IP": "status.podIP",
}


@dataclass(frozen=True)
class Shape:
    """What all pods of one job have in common."""

    id: str
    image: str
    python: str
    grace: float
    fetches: bool  # an environment, from the store, before the member starts
    parts: int  # ConfigMaps with the code
    supplied: Sequence[str]
    data: Sequence[Data]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority_class: str = ""  # where the pod has to say it itself


def template(shape: Shape, name: str, role: Role, hatches: Hatches, target: Target) -> Any:
    """A pod template with what the job file says under `kubernetes.pod` merged in last."""
    spec = merged(_spec(shape, name, role, hatches, target), hatches.pod)
    metadata: dict[str, Any] = {"labels": {**shape.labels, volcano.ROLE_LABEL: name}}
    if shape.annotations:
        metadata["annotations"] = dict(shape.annotations)
    return {"metadata": metadata, "spec": merged(spec, hatches.roles.get(name, {}))}


def size(amount: int) -> str:
    """Bytes in the largest unit that divides them."""
    return _amount(amount, [*BINARY, *DECIMAL])


def cores(amount: float) -> str:
    thousandths = math.ceil(round(amount * 1000, 6))
    return f"{thousandths}m" if thousandths % 1000 else _amount(thousandths // 1000, DECIMAL)


def _amount(amount: int, units: Sequence[tuple[str, int]]) -> str:
    for unit, worth in units:
        if amount and amount % worth == 0:
            return f"{amount // worth}{unit}"
    return str(amount)


def _spec(shape: Shape, name: str, role: Role, hatches: Hatches, target: Target) -> dict[str, Any]:
    volumes, mounts = _volumes(shape, role.resources, hatches, target)
    main = {
        **_container(shape, MAIN, ["kubernetes-member", name], hatches, target),
        "env": _env(target),
        "ports": [
            {"containerPort": volcano.LINE_PORT, "name": "line", "protocol": "TCP"},
            {"containerPort": volcano.PAGE_PORT, "name": "page", "protocol": "TCP"},
        ],
        "resources": _resources(role.resources, target),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    spec: dict[str, Any] = {
        "automountServiceAccountToken": bool(hatches.service_account),
        "containers": [main],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": _pod_security(target),
        "terminationGracePeriodSeconds": math.ceil(shape.grace) + POD_GRACE,
        "volumes": volumes,
        **placing.placement(shape.id, name, role, target),
    }
    if shape.fetches:
        spec["initContainers"] = [_fetch(shape, main, hatches, target)]
    if shape.priority_class:
        spec["priorityClassName"] = shape.priority_class
    if hatches.service_account:
        spec["serviceAccountName"] = hatches.service_account
    return spec


def _container(
    shape: Shape, name: str, arguments: list[str], hatches: Hatches, target: Target
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "command": [shape.python, "-I", "-S", ARCHIVE, *arguments],
        "image": shape.image,
        "name": name,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **({"readOnlyRootFilesystem": True} if hatches.read_only_root else {}),
        },
    }
    if target.image_pull_policy:
        made["imagePullPolicy"] = target.image_pull_policy
    return made


def _fetch(
    shape: Shape, main: Mapping[str, Any], hatches: Hatches, target: Target
) -> dict[str, Any]:
    needed = (LIGHT, REQUEST, SECRET, RUN, STORE, "/tmp")
    resources = {
        kind: {k: v for k, v in amounts.items() if k != target.gpu_resource}
        for kind, amounts in main["resources"].items()
    }
    return {
        **_container(shape, FETCH, ["kubernetes-fetch"], hatches, target),
        "env": main["env"],
        "resources": resources,
        "volumeMounts": [m for m in main["volumeMounts"] if m["mountPath"] in needed],
    }


def _env(target: Target) -> list[dict[str, Any]]:
    fields = dict(FROM_POD)
    if target.volcano:
        fields["DROMON_VERSION"] = f"metadata.annotations['{volcano.VOLCANO_VERSION}']"
    made: list[dict[str, Any]] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]
    if not target.volcano:
        made.append({"name": "VC_TASK_INDEX", "value": "0"})
    return made


def _resources(asked: Resources, target: Target) -> dict[str, Any]:
    amounts = {}
    if asked.cpus:
        amounts["cpu"] = cores(asked.cpus)
    if asked.memory is not None:
        amounts["memory"] = size(asked.memory + AGENT_MEMORY)
    if asked.gpu_count:
        amounts[target.gpu_resource] = _amount(int(asked.gpu_count), DECIMAL)
    return {"limits": amounts, "requests": dict(amounts)} if amounts else {}


def _pod_security(target: Target) -> dict[str, Any]:
    made: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if target.run_as is not None:
        user, group = target.run_as["uid"], target.run_as["gid"]
        made |= {
            "fsGroup": group,
            "fsGroupChangePolicy": "OnRootMismatch",
            "runAsGroup": group,
            "runAsNonRoot": user != 0,
            "runAsUser": user,
        }
    return made


def _volumes(
    shape: Shape, resources: Resources, hatches: Hatches, target: Target
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    # Only with a user of our own is there a group that may read: an image's user is not known.
    secret_mode = 0o444 if target.run_as is None else 0o440
    found: list[tuple[str, str, Mapping[str, Any], bool]] = [
        ("light", LIGHT, {"configMap": {"name": light_name(target.light)}}, True),
        ("request", REQUEST, {"configMap": {"name": shape.id}}, True),
        ("secret", SECRET, {"secret": {"defaultMode": secret_mode, "optional": True,
                                       "secretName": shape.id}}, True),
        ("run", RUN, {"emptyDir": {}}, False),
        ("shm", "/dev/shm", {"emptyDir": _shm(resources)}, False),
    ]  # fmt: skip
    if shape.parts:
        found.append(("code", CODE, code_source(shape.id, shape.parts), True))
    if target.store is not None:
        found.append(("store", STORE, target.store["volume"], False))
    if hatches.read_only_root:
        found.append(("tmp", "/tmp", {"emptyDir": {}}, False))
    if hatches.secret and shape.supplied:
        items = [{"key": name, "path": name} for name in shape.supplied]
        source = {"defaultMode": secret_mode, "items": items, "secretName": hatches.secret}
        found.append(("supplied", SUPPLIED, {"secret": source}, True))
    volumes: list[Mapping[str, Any]] = [{"name": name, **source} for name, _, source, _ in found]
    mounts: list[Mapping[str, Any]] = [
        {"mountPath": path, "name": name, **({"readOnly": True} if read_only else {})}
        for name, path, _, read_only in found
    ]
    volumes += [one.volume for one in shape.data if one.volume is not None]
    mounts += [one.mount for one in shape.data if one.mount is not None]
    return volumes, mounts


def _shm(resources: Resources) -> dict[str, Any]:
    """Half of the memory where the job does not say: data loaders die in the usual 64 MB."""
    made = {"medium": "Memory"}
    if resources.shm is not None:
        made["sizeLimit"] = size(resources.shm)
    elif resources.memory is not None:
        made["sizeLimit"] = size(max(SMALLEST_SHM, resources.memory // 2))
    return made


def light_name(digest: str) -> str:
    return f"dromon-light-{digest.removeprefix('sha256:')[:12]}"


def part_name(id: str, number: int) -> str:
    return f"{id}-code-{number}"


def code_source(id: str, parts: int) -> dict[str, Any]:
    """The volume of the code that came through the API server, in parts."""
    sources = [{"configMap": {"name": part_name(id, number)}} for number in range(parts)]
    return {"projected": {"sources": sources}}
