"""A launch as this machine's own request. Pure: the same launch gives the same bytes."""

import os
from collections.abc import Mapping
from typing import Any

from dromon import frameworks
from dromon.engines.base import Launch, Submission
from dromon.engines.gang import gang_plan
from dromon.errors import Refused
from dromon.spec import Job
from dromon.spec.interpolate import volume_paths

# What a job file may ask for and this machine cannot give: key -> why.
LACKS = {
    "environment.image": "members run as processes of this machine, not in containers",
    "hdfs": "name nodes and their tokens belong to clusters",
    "node_label": "this machine has no labels",
    "acls": "they count on a shared machine only (`dromon daemon share`)",
    "tensorboard": "no TensorBoard is started; point one at the directory",
    "total_gpus": "give replicas and gpus",
}


def compile_launch(launch: Launch, record: str, job: Job | None = None) -> Submission:
    """`record` is where the job's record will lie; `job` saves parsing `launch.job` again."""
    job = job or Job.from_data(dict(launch.job))
    _refuse(launch, job)
    name = launch.id.rpartition("-")[0]
    volumes = {
        v: _volume(v, dict(spec), record) for v, spec in launch.job.get("volumes", {}).items()
    }
    roles = {}
    for role in frameworks.rank_order(job.framework, list(job.roles)):
        asked = job.roles[role]
        command: str | list[str]
        if isinstance(asked.command, str):
            command = volume_paths(asked.command, volumes)
        else:
            command = [volume_paths(word, volumes) for word in asked.command or ()]
        roles[role] = {
            "command": command,
            "replicas": asked.replicas,
            "min": asked.min,
            "processes": asked.processes,
            "cpus": asked.resources.cpus,
            "memory": asked.resources.memory,
            "gpus": asked.resources.gpu_count,
            "gpu_kinds": dict(asked.resources.gpu_kinds),
            "node_label": asked.node_label,
            "spread": asked.spread,
            "env": {k: v for k, v in {**job.env, **asked.env}.items() if v is not None},
        }
    request: dict[str, Any] = {
        "name": name,
        "job": launch.job,
        "framework": job.framework,
        "queue": job.queue,
        "priority": job.priority,  # a number once the site's classes are known, at submit
        "preemptible": job.preemptible,
        "roles": roles,
        "gang": gang_plan(launch.id, job).to_json(),
        "code": None if launch.code is None else _artifact(launch.code),
        "payload": None if launch.payload is None else _artifact(launch.payload),
        "environment": launch.environment,
        "volumes": volumes,
        "outputs": list(job.outputs),
        "supplied": sorted(launch.supplied),
        "secrets": list(job.secrets),
        "config": job.config,
        "facts": launch.facts,
    }
    return Submission("local", launch.id, request, launch.supplied)


def _refuse(launch: Launch, job: Job) -> None:
    """What would change the meaning of the job if it were silently left out."""
    if launch.environment["kind"] == "image":
        raise Refused(
            f"environment.image: {LACKS['environment.image']}",
            hint="Use packages:, requirements: or lock: here; the image serves the cluster.",
        )
    if job.total_gpus:
        raise Refused(f"total_gpus: {LACKS['total_gpus']}", hint="Give replicas and gpus.")
    for name, role in job.roles.items():
        if role.node_label:
            raise Refused(
                f"roles.{name}.node_label: {LACKS['node_label']}",
                hint="Leave it out here: `roles.ROLE.node_label=null` on the command line.",
            )


def lacking(request: Mapping[str, Any]) -> dict[str, str]:
    """Of what this request asks, what will not be given, and why."""
    job = request["job"]
    found = {key: LACKS[key] for key in ("hdfs", "acls", "tensorboard") if job.get(key)}
    if request["environment"]["kind"] == "image":
        found["environment.image"] = LACKS["environment.image"]
    return found


def _artifact(artifact: Any) -> dict[str, Any]:
    return {"digest": artifact.digest, "size": artifact.size}


def _volume(name: str, volume: Mapping[str, Any], record: str) -> str:
    source = str(volume["source"])
    access = str(volume.get("access", "mount"))
    if source == "node":
        return os.path.join(record, "volumes", name)
    if access == "url":
        return source
    if source.startswith("file://"):
        return source[len("file://") :]
    if "://" in source:
        raise Refused(
            f"volume {name}: the local engine cannot fetch {source}",
            hint="Use a path of this machine, or `access: url` to hand the address to the task.",
        )
    return source
