"""Pods as Volcano counts them in a job's status, for a list of very many jobs. Pure.

Nobody reads ten thousand pods to print a table. Which node a pod is on is not known from this, nor
which of a role's pods is in which phase: the first ones are said to be the furthest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dromon.engines.kubernetes import status, volcano

UNKNOWN_NODE = "-"
ORDER = ("Succeeded", "Failed", "Running", "Unknown", "Pending")


def members(job: Mapping[str, Any]) -> int:
    """How many it may have."""
    tasks = (job.get("spec") or {}).get("tasks") or ()
    return sum(int(task.get("replicas", 1)) for task in tasks) or 1


def pods(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    counts = (job.get("status") or {}).get("taskStatusCount") or {}
    id = job["metadata"]["name"]
    for task in (job.get("spec") or {}).get("tasks") or ():
        found = (counts.get(task["name"]) or {}).get("phase") or {}
        spec = (task.get("template") or {}).get("spec") or {}
        bound = {**spec, "nodeName": UNKNOWN_NODE}
        role, number = status.role_of(task), 0
        for phase in ORDER:
            for _ in range(int(found.get(phase, 0))):
                labels = {volcano.ROLE_LABEL: role, volcano.VOLCANO_INDEX: str(number)}
                yield {
                    "metadata": {"name": f"{id}-{task['name']}-{number}", "labels": labels},
                    "spec": spec if phase == "Pending" else bound,
                    "status": {"phase": phase},
                }
                number += 1
