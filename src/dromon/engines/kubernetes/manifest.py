"""A launch as Kubernetes objects and the request its pods read. Pure: same launch, same bytes.

What is packed at submit (code, environment) is named by digest then; everything else stands here.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from dromon.engines.base import Artifact, Launch, Submission
from dromon.engines.gang import gang_plan
from dromon.engines.kubernetes import data, hatches, placing, podspec, volcano, workload
from dromon.engines.kubernetes.carriers import expected_parts, standalone
from dromon.engines.kubernetes.documents import settled, to_yaml
from dromon.engines.kubernetes.hatches import Hatches
from dromon.engines.kubernetes.target import PYTHON, Target
from dromon.errors import Refused
from dromon.lifecycle.plan import GangPlan
from dromon.spec import Job
from dromon.spec.interpolate import volume_paths

__all__ = [
    "LACKS", "Target", "compile_launch", "content_token", "lacking", "standalone", "to_yaml",
]  # fmt: skip

LEASE = 60.0
LABEL = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
LABEL_LIMIT = 63

# What a job file may ask for and Kubernetes cannot give: key -> why.
LACKS = {
    "acls": "who may see or stop a job is for the roles of its namespace to say",
    "hdfs": "no tokens of name nodes are fetched",
    "tensorboard": "no TensorBoard is started; point one at the directory",
    "total_gpus": "give replicas and gpus",
}


def compile_launch(launch: Launch, target: Target) -> Submission:
    job = Job.from_data(dict(launch.job))
    hatch = hatches.read(job.kubernetes, job.roles)
    image, environment, notes = _image(launch, target)
    _refuse(launch, job, hatch, environment, target)
    plan = gang_plan(launch.id, job)
    volumes = {
        name: data.volume(name, dict(volume), target)
        for name, volume in launch.job.get("volumes", {}).items()
    }
    paths = {name: volume.path for name, volume in volumes.items()}
    number, priority_class = placing.priority(job.priority, target)
    name = launch.id.rpartition("-")[0]
    store = None if target.store is None else {"path": _store(target.store)}
    request: dict[str, Any] = {
        "name": name,
        "namespace": target.namespace,
        "job": launch.job,
        "framework": job.framework,
        "queue": placing.queue(job.queue, target),
        "priority": number,
        "priority_class": priority_class,
        "preemptible": job.preemptible,
        "roles": {role.name: _role(job, role.name, paths) for role in plan.roles},
        "gang": plan.to_json(),
        "grace": job.stop_grace,
        "lease": LEASE,
        "python": hatch.python or target.python or PYTHON,
        "image": image,
        "code": _artifact(launch.code),
        "payload": _artifact(launch.payload),
        "environment": environment,
        "artifacts": {},  # filled in when they are packed
        "volumes": {
            name: {"path": one.path, **({"fetch": one.fetch} if one.fetch else {})}
            for name, one in volumes.items()
        },
        "checkpoints": f"{store['path']}/jobs/{launch.id}/checkpoints" if store else "",
        "outputs": list(job.outputs),
        "tensorboard": job.tensorboard,
        "supplied": sorted(launch.supplied),
        "secrets": list(job.secrets),
        "secret": {"name": hatch.secret, "path": podspec.SUPPLIED} if hatch.secret else None,
        "config": job.config,
        "inherited": _inherited(launch.facts.get("inherited", {})),
        "facts": launch.facts,
        "store": store,
        "blobs": target.blobs,
        "light": podspec.light_name(target.light),
        "volcano": target.volcano,
        "notes": notes,
    }
    request["objects"] = [
        settled(_workload(launch, job, plan, hatch, request, list(volumes.values()), target))
    ]
    supplied = {} if hatch.secret else launch.supplied  # from the cluster's own Secret
    return Submission("kubernetes", launch.id, request, supplied)


def content_token(launch: Launch) -> str:
    """The end of an id that follows from what is launched, for manifests that are kept in git.

    Of a launch made with a token that is always the same: its own id may stand anywhere in it.
    """
    artifacts = [a and a.digest for a in (launch.code, launch.payload)]
    text = json.dumps([launch.id, launch.job, artifacts], sort_keys=True, ensure_ascii=False)
    return base64.b32encode(hashlib.sha256(text.encode()).digest())[:6].decode().lower()


def lacking(request: Mapping[str, Any]) -> dict[str, str]:
    """Of what this request asks, what will not be given, and why."""
    return {key: LACKS[key] for key in ("acls", "hdfs", "tensorboard") if request["job"].get(key)}


def _workload(
    launch: Launch,
    job: Job,
    plan: GangPlan,
    hatch: Hatches,
    request: Mapping[str, Any],
    volumes: list[data.Data],
    target: Target,
) -> dict[str, Any]:
    labels = {
        **hatch.labels,
        volcano.JOB_LABEL: launch.id,
        volcano.NAME_LABEL: request["name"],
        volcano.USER_LABEL: hatches.label_value(str(launch.facts.get("user", ""))),
    }
    annotations = dict(hatch.annotations)
    if not job.preemptible:
        annotations[workload.PREEMPTABLE] = "false"
    shape = podspec.Shape(
        id=launch.id,
        image=request["image"],
        python=request["python"],
        grace=job.stop_grace,
        fetches=request["environment"]["kind"] != "image",
        parts=0 if target.store or target.blobs else expected_parts(request),
        supplied=request["supplied"],
        data=volumes,
        labels=labels,
        annotations=annotations,
        priority_class="" if target.volcano else request["priority_class"],
    )
    templates = {
        role.name: podspec.template(shape, role.name, job.roles[role.name], hatch, target)
        for role in plan.roles
    }
    metadata = {
        "annotations": {**annotations, volcano.REQUEST_DIGEST: _digest(request)},
        "labels": labels,
        "name": launch.id,
        "namespace": target.namespace,
    }
    if not target.volcano:
        return workload.plain_job(metadata, templates[plan.roles[0].name], hatch)
    queue, priority_class = request["queue"], request["priority_class"]
    return workload.volcano_job(metadata, plan, templates, queue, priority_class, hatch)


def _role(job: Job, name: str, paths: Mapping[str, str]) -> dict[str, Any]:
    asked = job.roles[name]
    command: str | list[str]
    if isinstance(asked.command, str):
        command = volume_paths(asked.command, paths)
    else:
        command = [volume_paths(word, paths) for word in asked.command or ()]
    return {
        "command": command,
        "replicas": asked.replicas,
        "min": asked.min,
        "processes": asked.processes,
        "env": {k: v for k, v in {**job.env, **asked.env}.items() if v is not None},
        "cpus": asked.resources.cpus,
        "memory": asked.resources.memory or 0,
        "gpus": int(asked.resources.gpu_count),
    }


def _image(launch: Launch, target: Target) -> tuple[str, dict[str, Any], list[str]]:
    """The image, the environment in it or shipped to it, and what to tell the user."""
    given = str(launch.environment.get("image", ""))
    image = given or target.image
    if not image:
        raise Refused(
            "no image: the job names none and the context has no base image",
            hint="Write environment: {image: NAME@sha256:…}, or give the context one: "
            "--set image=NAME.",
        )
    notes = []
    if given and "@sha256:" not in given:
        notes.append(f"image {given}: a tag may name another image tomorrow; write NAME@sha256:…")
    if launch.environment["kind"] == "uv":
        return image, dict(launch.environment), notes
    if not given:
        notes.append(f"no environment is asked for: members have what is in {image}")
    return image, {"kind": "image", "image": image}, notes


def _store(store: Mapping[str, Any]) -> str:
    return f"{podspec.STORE}/{store.get('sub_path', '')}".rstrip("/")


def _inherited(inherited: Mapping[str, str]) -> dict[str, str]:
    """Of the caller's variables, those that mean the same on another machine."""
    return {k: v for k, v in inherited.items() if k in ("LANG", "LANGUAGE", "TZ") or k[:3] == "LC_"}


def _artifact(artifact: Artifact | None) -> dict[str, Any] | None:
    return None if artifact is None else {"digest": artifact.digest, "size": artifact.size}


def _digest(request: Mapping[str, Any]) -> str:
    """Of what is asked; who asked, from where and by which version, is no part of it."""
    around = ("facts", "inherited", "light", "notes")
    asked = {key: value for key, value in request.items() if key not in around}
    text = json.dumps(asked, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse(
    launch: Launch, job: Job, hatch: Hatches, environment: Mapping[str, Any], target: Target
) -> None:
    """What would change the meaning of the job if it were silently left out."""
    if job.total_gpus:
        raise Refused(f"total_gpus: {LACKS['total_gpus']}", hint="Give replicas and gpus.")
    if hatch.secret and not launch.supplied:
        raise Refused(
            f"kubernetes.secret: the job takes nothing from {hatch.secret}",
            hint="Name its keys that members need: secrets: [KEY], or env: {KEY: null}.",
        )
    if not target.store:
        _refuse_without_store(job, environment, target)
    if not target.volcano:
        _refuse_without_volcano(job)
    names = [launch.id]
    for name, role in job.roles.items():
        names.append(f"{launch.id}-{name}-{role.replicas - 1}")
        if role.resources.gpu_count % 1:
            raise Refused(
                f"roles.{name}.resources.gpus: Kubernetes gives whole GPUs only",
                hint="Ask for 1, or for a part by your site's own resource, under kubernetes.pod.",
            )
    for name in names:
        if len(name) > LABEL_LIMIT or not LABEL.fullmatch(name):
            raise Refused(f"{name}: no name that a pod can have",
                          hint="Use shorter names for the job and its roles.")  # fmt: skip


def _refuse_without_store(job: Job, environment: Mapping[str, Any], target: Target) -> None:
    """Only what is small goes through the API server."""
    if job.outputs:
        raise Refused(
            "outputs: this context has no store to keep them in",
            hint="Give the context one, --set store=nfs://server/path (or pvc:CLAIM), or write "
            "them to a volume of the job's.",
        )
    if environment["kind"] != "image" and not target.blobs:
        raise Refused(
            "environment: this context has no store to ship it through",
            hint="Name an image that has it, environment: {image: NAME@sha256:…}, or give the "
            "context a store: --set store=nfs://server/path (or pvc:CLAIM), or blobs=s3://….",
        )


def _refuse_without_volcano(job: Job) -> None:
    pods = sum(role.replicas for role in job.roles.values())
    if pods > 1:
        raise Refused(
            f"nothing on this cluster starts {pods} pods together: it has no Volcano",
            hint="Have Volcano installed, or ask for one member.",
        )
    if not job.preemptible:
        raise Refused(
            "preemptible: false, but only Volcano can be told so",
            hint="Use a priority class that nothing is above, and leave it out.",
        )
    pending = [key for key in job.policies if key.startswith("pending:")]
    pending += [k for role in job.roles.values() for k in role.policies if k.startswith("pending:")]
    if pending:
        raise Refused(f"policies: {pending[0]}: only Volcano can be told so",
                      hint="Leave it out.")  # fmt: skip
