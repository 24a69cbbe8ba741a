"""A launch as the request of a cluster in Volcano's manner. Pure: same launch, same bytes."""

from typing import Any

from dromon import frameworks
from dromon.engines.base import Launch, Submission
from dromon.engines.gang import gang_plan, priority
from dromon.engines.memory.shell import RESERVED
from dromon.lifecycle import policy
from dromon.spec import Job

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
    plan = gang_plan(launch.id, job)
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
