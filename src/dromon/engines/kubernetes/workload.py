"""The object that runs a job: a Volcano Job, or a plain one where there is no Volcano. Pure."""

from collections.abc import Mapping
from typing import Any

from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.hatches import Hatches
from dromon.engines.kubernetes.merging import merged
from dromon.engines.kubernetes.policies import MAX_RETRY, policies
from dromon.lifecycle.plan import GangPlan

PREEMPTABLE = "volcano.sh/preemptable"
# Of containers that are restarted in their pod, and ours never are. Volcano's webhook would write
# it into the Job, and then take the same manifest, applied again, for a change that it denies.
TASK_MAX_RETRY = 3
# No network policy of Volcano's, which lets nobody but the job's own pods in: our client comes
# through the API server, and proves that it knows the job's key.
PLUGINS: Mapping[str, list[str]] = {
    "env": [],
    "svc": ["--publish-not-ready-addresses=true", "--disable-network-policy=true"],
}


def volcano_job(
    metadata: Mapping[str, Any],
    plan: GangPlan,
    templates: Mapping[str, Any],
    queue: str,
    priority_class: str,
    hatches: Hatches,
) -> dict[str, Any]:
    """One task for each role, in the order of ranks: the coordinator is in the first one's pod."""
    spec: dict[str, Any] = {
        "maxRetry": MAX_RETRY,
        "minAvailable": sum(role.min for role in plan.roles),
        "plugins": dict(PLUGINS),
        "policies": policies(plan),
        "queue": queue,
        "schedulerName": "volcano",
        "tasks": [
            {
                "maxRetry": TASK_MAX_RETRY,
                "minAvailable": role.min,
                "name": role.name,
                "replicas": role.replicas,
                "template": templates[role.name],
            }
            for role in plan.roles
        ],
    }
    if priority_class:
        spec["priorityClassName"] = priority_class
    return _object(volcano.JOB, metadata, spec, hatches)


def plain_job(
    metadata: Mapping[str, Any], template: Mapping[str, Any], hatches: Hatches
) -> dict[str, Any]:
    """One pod. What takes it away from outside gives it another; its own end is the job's."""
    # Asked in this order. Draining a node, preemption and eviction are disruptions.
    rules = [
        {"action": "FailJob", "onExitCodes": _codes(volcano.RESERVED)},
        {"action": "Ignore", "onPodConditions": [{"status": "True", "type": "DisruptionTarget"}]},
        {"action": "Ignore", "onExitCodes": _codes((volcano.RELEASED,))},
    ]
    spec: dict[str, Any] = {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "podFailurePolicy": {"rules": rules},
        "podReplacementPolicy": "Failed",
        "template": template,
    }
    return _object(volcano.PLAIN_JOB, metadata, spec, hatches)


def _codes(codes: tuple[int, ...]) -> dict[str, Any]:
    return {"containerName": "main", "operator": "In", "values": list(codes)}


def _object(
    kind: volcano.Kind, metadata: Mapping[str, Any], spec: Mapping[str, Any], hatches: Hatches
) -> dict[str, Any]:
    more = {} if hatches.ttl is None else {"ttlSecondsAfterFinished": hatches.ttl}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": dict(metadata),
        "spec": merged({**spec, **more}, hatches.job),
    }


def pod_specs(workload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pods of either kind of job, to be read or changed in place."""
    spec = workload["spec"]
    templates = [task["template"] for task in spec["tasks"]] if "tasks" in spec else []
    return [template["spec"] for template in templates or [spec["template"]]]
