"""Pods as Volcano counts them in a job's status, for a list of very many jobs. Pure.

Nobody reads ten thousand pods to print a table. Which node a pod is on is not known from this, nor
which of a role's pods is in which phase: the first ones are said to be the furthest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dromon.engines.kubernetes import pods, status, volcano
from dromon.engines.kubernetes.pods import PodFacts
from dromon.lifecycle import states

UNKNOWN_NODE = "-"
ALIKE = ("Running", "Pending")  # nobody asks which of them: one stands for all
ORDER = ("Succeeded", "Failed", "Running", "Unknown", "Pending")


def members(job: Mapping[str, Any]) -> int:
    """How many it may have."""
    tasks = (job.get("spec") or {}).get("tasks") or ()
    return sum(int(task.get("replicas", 1)) for task in tasks) or 1


def facts(job: Mapping[str, Any]) -> dict[str, PodFacts]:
    """By member. Those that live, or wait, are one and the same."""
    counts = (job.get("status") or {}).get("taskStatusCount") or {}
    found: dict[str, PodFacts] = {}
    for task in (job.get("spec") or {}).get("tasks") or ():
        phases = (counts.get(task["name"]) or {}).get("phase") or {}
        role, number = status.role_of(task), 0
        for phase in ORDER:
            count = int(phases.get(phase, 0))
            if not count:
                continue
            one = pods.facts(_pod(job, task, role, phase))
            members = {f"{role}-{index}": index for index in range(number, number + count)}
            number += count
            if phase in ALIKE:
                found.update(dict.fromkeys(members, one))
                continue
            for member, index in members.items():
                name = f"{job['metadata']['name']}-{task['name']}-{index}"
                found[member] = one._replace(name=name, member=member, number=index)
    return found


def told(job: Mapping[str, Any]) -> dict[str, Any]:
    """In place of a coordinator's word: hundreds of them are not asked for one table."""
    return {"state": states.RUNNING} if status.phase(job) == status.RUNNING else {}


def _pod(job: Mapping[str, Any], task: Mapping[str, Any], role: str, phase: str) -> dict[str, Any]:
    spec = (task.get("template") or {}).get("spec") or {}
    return {
        "metadata": {
            "name": f"{job['metadata']['name']}-{task['name']}-0",
            "labels": {volcano.ROLE_LABEL: role, volcano.VOLCANO_INDEX: "0"},
        },
        "spec": spec if phase == "Pending" else {**spec, "nodeName": UNKNOWN_NODE},
        "status": {"phase": phase},
    }
