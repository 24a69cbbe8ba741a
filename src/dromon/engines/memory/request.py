"""A launch as the request of a cluster in Volcano's manner. Pure: same launch, same bytes."""

from typing import Any

from dromon import frameworks
from dromon.engines.base import Launch, Submission
from dromon.engines.memory.shell import RESERVED
from dromon.errors import Refused
from dromon.lifecycle import policy
from dromon.lifecycle.plan import GangPlan, RolePlan
from dromon.spec import Job

PRIORITIES = {"low": 10, "normal": 50, "high": 90, "urgent": 100}
# More than the member's grace, so that the agent is the one to end a deaf member and can say so.
POD_GRACE = 5.0


def compile_launch(launch: Launch) -> Submission:
    job = Job.from_data(dict(launch.job))
    order = frameworks.rank_order(job.framework, list(job.roles))
    roles = {
        name: {
            "command": job.roles[name].command,
            "replicas": job.roles[name].replicas,
            "processes": job.roles[name].processes,
            "gpus": job.roles[name].resources.gpu_count,
            "env": {k: v for k, v in {**job.env, **job.roles[name].env}.items() if v is not None},
        }
        for name in order
    }
    tasks = [
        {
            "name": name,
            "replicas": job.roles[name].replicas,
            "minAvailable": job.roles[name].min,
            "grace": job.stop_grace + POD_GRACE,
            "resources": {
                "cpus": job.roles[name].resources.cpus,
                "memory": float(job.roles[name].resources.memory or 0),
                "gpus": job.roles[name].resources.gpu_count,
            },
        }
        for name in order
    ]
    plan = gang_plan(launch.id, job, order)
    pendings = [
        {"event": "PodPending", "timeout": seconds, "action": "TerminateJob"}
        for seconds, action, _ in policy.pendings(plan)
        if action == "abort_job"
    ]
    request: dict[str, Any] = {
        "name": launch.id.rpartition("-")[0],
        "queue": job.queue,
        "priority": priority(job.priority),
        "preemptible": job.preemptible,
        "maxRetry": 1000,  # what may be retried how often is not for the controller to say
        "policies": [
            *({"exitCode": code, "action": "TerminateJob"} for code in RESERVED),
            *pendings,
            {"event": "PodEvicted", "action": "RestartJob"},
            {"event": "PodFailed", "action": "RestartJob"},
        ],
        "tasks": tasks,
        "roles": roles,
        "gang": plan.to_json(),
        "framework": job.framework,
        "code": None if launch.code is None else launch.code.digest,
        "environment": dict(launch.environment),
        "outputs": list(job.outputs),
        "config": job.config,
        "supplied": sorted(launch.supplied),
        "facts": dict(launch.facts),
    }
    return Submission("memory", launch.id, request, launch.supplied)


def gang_plan(id: str, job: Job, order: list[str]) -> GangPlan:
    return GangPlan(
        job=id,
        framework=job.framework,
        roles=tuple(
            RolePlan(
                name=role,
                replicas=job.roles[role].replicas,
                min=job.roles[role].min,
                ending=frameworks.ending(job.framework, role, order),
                policies=job.roles[role].policies,
            )
            for role in order
        ),
        policies=job.policies,
        max_retries=job.retries.max,
        backoff=job.retries.backoff,
        max_duration=job.max_duration,
        stop_grace=job.stop_grace,
        gang_wait=job.gang_wait,
    )


def priority(asked: str | int) -> int:
    if isinstance(asked, int):
        return asked
    if asked not in PRIORITIES:
        raise Refused(f"there is no priority class {asked!r}", hint=f"{', '.join(PRIORITIES)}")
    return PRIORITIES[asked]
