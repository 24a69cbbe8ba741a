"""A launch as the request of a YARN application. Pure: the same launch gives the same bytes.

What the nodes fetch is named by digest when it is packed at submit (`packing`); everything else
stands here. The ApplicationMaster and its members read this request and nothing else.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dromon import frameworks
from dromon.engines.base import Launch, Submission
from dromon.engines.gang import PRIORITIES, gang_plan
from dromon.engines.gang import priority as number_of
from dromon.errors import Refused
from dromon.hadoop.addresses import NAME_NODE_PORT
from dromon.spec import Job
from dromon.spec.interpolate import volume_paths

GPU = "yarn.io/gpu"
AGENT_MEMORY = 64  # MB beside the member's own
DEFAULT_MEMORY = 2048  # MB, where the job does not say
MASTER = {"memory": 256, "vcores": 1, "attempts": 4}
SIDE = {"memory": 1024, "vcores": 1}  # TensorBoard's container
EXPIRY = 600.0
LEASE = 60.0  # seconds beyond the time YARN takes to notice that a master's node is gone

# What a job file may ask for and YARN cannot give: key -> why.
LACKS = {
    "environment.image": "members run as processes of the nodes, not in containers of an image",
    "total_gpus": "give replicas and gpus",
    "resources.shm": "a node's /dev/shm is shared by all containers on it",
}
# What may stand under `yarn:`.
HATCHES = ("application", "lease", "master", "patience", "python", "resources", "roles")
# And under `yarn.roles.ROLE`: where its containers should be, what else they need.
ROLE_HATCHES = ("hosts", "racks", "resources", "strict")


@dataclass(frozen=True)
class Target:
    """What compiling must know of a cluster; found out once, by asking it."""

    user: str
    root: str  # the staging directory on HDFS
    webhdfs: tuple[str, ...]
    scheduler: tuple[str, ...]
    proxies: tuple[str, ...]  # hosts of YARN's web proxy
    constraints: bool = False  # the scheduler takes placement constraints
    preemption_wait: float | None = None  # seconds between YARN's warning and its kill
    highest_priority: int = 0
    logs_aggregated: bool = True
    shared: str = ""  # a directory that all nodes see
    name_node: str = ""  # the default one, or its nameservice, as in hdfs://NAME
    expiry: float = EXPIRY  # seconds in which YARN gives up nobody it has heard
    lease: float = LEASE

    def record(self, id: str) -> str:
        return f"{self.root}/jobs/{id}"


def compile_launch(launch: Launch, target: Target) -> Submission:
    job = Job.from_data(dict(launch.job))
    hatches = dict(job.yarn)
    _refuse(launch, job, hatches)
    volumes = {
        name: _volume(name, dict(volume), target.name_node)
        for name, volume in launch.job.get("volumes", {}).items()
    }
    marks = {name: volume["mark"] for name, volume in volumes.items()}
    roles = {
        name: _role(job, name, marks, hatches)
        for name in frameworks.rank_order(job.framework, list(job.roles))
    }
    master = {**MASTER, **hatches.get("master", {})}
    shared = f"{target.shared.rstrip('/')}/{launch.id}/checkpoints" if target.shared else ""
    node_python = hatches.get("python", "")
    request: dict[str, Any] = {
        "name": launch.id.rpartition("-")[0],
        "job": launch.job,
        "framework": job.framework,
        "queue": job.queue,
        "priority": _priority(job.priority, target.highest_priority),
        "preemptible": job.preemptible,
        "roles": roles,
        "gang": gang_plan(launch.id, job).to_json(),
        "grace": _grace(job.stop_grace, target.preemption_wait),
        "lease": float(hatches.get("lease", target.lease)),
        "expiry": target.expiry,
        "patience": dict(hatches.get("patience", {})),
        "python": node_python or "environment/bin/python",
        "master": {**master, "python": node_python or "runtime/bin/python"},
        "code": None if launch.code is None else _artifact(launch.code),
        "payload": None if launch.payload is None else _artifact(launch.payload),
        "environment": {"kind": "node"} if node_python else launch.environment,
        "artifacts": {},  # filled in when they are packed
        "volumes": volumes,
        "checkpoints": shared,
        "outputs": list(job.outputs),
        "tensorboard": job.tensorboard,
        "side": dict(SIDE),
        "supplied": sorted(launch.supplied),
        "secrets": list(job.secrets),
        "config": job.config,
        "hdfs": list(job.hdfs),
        "acls": _acls(job),
        "inherited": _inherited(launch.facts.get("inherited", {})),
        "facts": launch.facts,
        "application": hatches.get("application", {}),
        "logs_aggregated": target.logs_aggregated,
        "cluster": {
            "user": target.user,
            "record": target.record(launch.id),
            "webhdfs": list(target.webhdfs),
            "scheduler": list(target.scheduler),
            "proxies": list(target.proxies),
            "constraints": target.constraints,
        },
    }
    return Submission("yarn", launch.id, request, launch.supplied)


def _role(
    job: Job, name: str, marks: Mapping[str, str], hatches: Mapping[str, Any]
) -> dict[str, Any]:
    asked, own = job.roles[name], dict(hatches.get("roles", {}).get(name, {}))
    more = {**hatches.get("resources", {}), **own.get("resources", {})}
    command: str | list[str]
    if isinstance(asked.command, str):
        command = volume_paths(asked.command, marks)
    else:
        command = [volume_paths(word, marks) for word in asked.command or ()]
    resources = asked.resources
    memory = None if resources.memory is None else int(resources.memory)
    gpus = int(resources.gpu_count)
    return {
        "command": command,
        "replicas": asked.replicas,
        "min": asked.min,
        "processes": asked.processes,
        "memory": memory,
        "gpus": gpus,
        "env": {k: v for k, v in {**job.env, **asked.env}.items() if v is not None},
        "label": asked.node_label or "",
        "spread": asked.spread,
        "hosts": list(own.get("hosts", [])),
        "racks": list(own.get("racks", [])),
        "strict": bool(own.get("strict", False)),
        "container": {
            "memory": (DEFAULT_MEMORY if memory is None else math.ceil(memory / 2**20))
            + AGENT_MEMORY,
            "vcores": max(1, math.ceil(resources.cpus)),
            "others": {**({GPU: gpus} if gpus else {}), **more},
        },
    }


def _priority(asked: str | int, highest: int) -> int:
    """YARN cuts numbers off at its highest; classes keep their order below it."""
    if isinstance(asked, str) and asked in PRIORITIES:
        return round(PRIORITIES[asked] * highest / 100)
    return min(number_of(asked), highest)


def _grace(asked: float, preemption_wait: float | None) -> float:
    return asked if preemption_wait is None else min(asked, preemption_wait)


def _volume(name: str, volume: Mapping[str, Any], name_node: str) -> dict[str, str]:
    source, access = str(volume["source"]), str(volume.get("access", ""))
    mark = f"@dromon-volume:{name}@"
    if source == "node":
        return {"kind": "scratch", "path": "", "mark": mark}
    if access == "url":
        return {"kind": "as it is", "path": source, "mark": mark}
    if source.startswith("hdfs://"):
        if access == "mount":
            raise Refused(
                f"volume {name}: HDFS cannot be mounted on the nodes",
                hint="Use `access: copy`, or `access: url` to hand the address to the task.",
            )
        there = urlsplit(source).netloc
        if there and name_node and _with_port(there) != _with_port(name_node):
            raise Refused(
                f"volume {name}: members copy from the cluster's own HDFS, hdfs://{name_node}",
                hint="Use `access: url` to hand the address to the task, and list hdfs://"
                f"{there} under `hdfs:` for its tokens.",
            )
        return {"kind": "copy", "path": source, "mark": mark}
    if "://" in source and not source.startswith("file://"):
        raise Refused(
            f"volume {name}: nodes of YARN cannot fetch {source}",
            hint="Put it on HDFS, or use `access: url` to hand the address to the task.",
        )
    return {"kind": "as it is", "path": source.removeprefix("file://"), "mark": mark}


def _with_port(name_node: str) -> str:
    """As a nameservice has none, one more does no harm."""
    return name_node if ":" in name_node else f"{name_node}:{NAME_NODE_PORT}"


def _acls(job: Job) -> dict[str, str]:
    """In YARN's form, users and then groups; ours does not tell the two apart."""
    found = {"VIEW_APP": ",".join(job.acls.view), "MODIFY_APP": ",".join(job.acls.modify)}
    return {kind: f"{who} {who}" for kind, who in found.items() if who}


def _inherited(inherited: Mapping[str, str]) -> dict[str, str]:
    """Of the caller's variables, those that mean the same on another machine."""
    return {k: v for k, v in inherited.items() if k in ("LANG", "LANGUAGE", "TZ") or k[:3] == "LC_"}


def _artifact(artifact: Any) -> dict[str, Any]:
    return {"digest": artifact.digest, "size": artifact.size}


def _refuse(launch: Launch, job: Job, hatches: Mapping[str, Any]) -> None:
    """What would change the meaning of the job if it were silently left out."""
    unknown = sorted(set(hatches) - set(HATCHES))
    if unknown:
        raise Refused(
            f"yarn.{unknown[0]}: there is no such setting", hint=f"There are {', '.join(HATCHES)}."
        )
    for name, own in dict(hatches.get("roles", {})).items():
        wrong = sorted(set(own) - set(ROLE_HATCHES)) if name in job.roles else [""]
        if wrong:
            place = f"yarn.roles.{name}" + (f".{wrong[0]}" if wrong[0] else "")
            words = ", ".join(ROLE_HATCHES if wrong[0] else job.roles)
            raise Refused(f"{place}: there is no such {'setting' if wrong[0] else 'role'}",
                          hint=f"There are {words}.")  # fmt: skip
    if launch.environment["kind"] == "image":
        raise Refused(
            f"environment.image: {LACKS['environment.image']}",
            hint="Use packages:, requirements: or lock: on YARN.",
        )
    if job.total_gpus:
        raise Refused(f"total_gpus: {LACKS['total_gpus']}", hint="Give replicas and gpus.")
    if job.tensorboard and "tensorboard" in job.roles:
        raise Refused(
            "roles.tensorboard: with `tensorboard:` the job has one already",
            hint="Name the role otherwise, or leave `tensorboard:` out.",
        )
    for name, role in job.roles.items():
        place = f"roles.{name}.resources"
        if role.resources.gpu_kinds:
            raise Refused(
                f"{place}.gpus: YARN counts GPUs and does not know their models",
                hint="Ask for a number, and for the nodes that have them by node_label:.",
            )
        if role.resources.gpu_count % 1:
            raise Refused(f"{place}.gpus: YARN gives whole GPUs only", hint="Ask for 1.")


def lacking(request: Mapping[str, Any]) -> dict[str, str]:
    """Of what this request asks, what will not be given, and why."""
    roles = request["job"].get("roles", {}).values()
    asks_shm = any("shm" in role.get("resources", {}) for role in roles)
    return {"resources.shm": LACKS["resources.shm"]} if asks_shm else {}
