"""What the API server is told to have a job ended or looked at again, as values. Pure.

Whoever looks at a job decides whether to make such a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dromon.engines.kubernetes import status, volcano
from dromon.engines.kubernetes.pods import Ended, PodFacts
from dromon.engines.kubernetes.volcano import FETCH, Kind
from dromon.units import parse_duration

LATE = 3.0  # seconds that Volcano gets to end a job that has waited too long


class Call(NamedTuple):
    verb: str  # "create" or "delete"
    kind: Kind
    namespace: str
    name: str = ""
    body: Mapping[str, Any] = {}
    grace: int | None = None
    uid: str = ""  # only this very object
    job: str = ""  # that gets a note first
    trouble: str = ""  # the note: why it ends


def overdue(job: Mapping[str, Any], now: float) -> Call | None:
    """A job that has waited longer than it may: Volcano's own timer races with its other steps and
    may make the pods anew instead, for minutes. A Command stands in line with them."""
    limit = status.pending_limit(job)
    if not limit or status.phase(job) != status.PENDING:
        return None
    waited = now - status.submitted(job)
    return command(job, "TerminateJob") if waited > parse_duration(limit) + LATE else None


def unstartable(job: Mapping[str, Any], pods: Mapping[str, PodFacts]) -> Call | None:
    """A job whose image lacks what its pods' first container runs. Volcano looks at the ends of
    main containers alone, and makes the pods anew for ever."""
    if status.is_plain(job) or not any(_is_unstarted(pod.ended) for pod in pods.values()):
        return None
    failed = status.first_failure(job, pods, 0)
    words = failed.message if failed is not None else "its pods cannot start"
    return command(job, "TerminateJob")._replace(job=job["metadata"]["name"], trouble=words)


def _is_unstarted(ended: Ended | None) -> bool:
    return ended is not None and ended.container == FETCH and ended.code == volcano.UNSTARTED


def command(job: Mapping[str, Any], action: str) -> Call:
    """What `vcctl` would send. Volcano takes the Command away when it has read it."""
    meta = job["metadata"]
    target = {
        "apiVersion": volcano.JOB.api_version, "kind": volcano.JOB.name, "name": meta["name"],
        "uid": meta["uid"], "controller": True,
    }  # fmt: skip
    body = {
        "metadata": {
            "generateName": f"{meta['name']}-{action.lower()}-",
            "labels": {volcano.JOB_LABEL: meta["name"]},
            "ownerReferences": [{**target, "blockOwnerDeletion": True}],
        },
        "action": action,
        "target": target,
    }
    return Call("create", volcano.COMMAND, meta.get("namespace") or "", body=body)
