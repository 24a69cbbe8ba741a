"""Volcano's queues as people see them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dromon.engines import base
from dromon.engines.kubernetes import quantities, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import NotAllowed, NotFound


def queues_of(api: Api) -> list[base.Queue]:
    try:
        found = api.list(volcano.QUEUE)
    except NotFound:
        return []
    found = [queue for queue in found if queue["metadata"]["name"] != "root"]
    weights = sum(_weight(queue) for queue in found) or 1.0
    phases = _phases(api)
    return [
        _queue(queue, weights, phases)
        for queue in sorted(found, key=lambda q: q["metadata"]["name"])
    ]


def _phases(api: Api) -> Counter[tuple[str, str]] | None:
    """How many PodGroups each queue has in each phase: a queue's own figures come late, or never.
    None: we may not look."""
    try:
        groups = api.list(volcano.POD_GROUP)
    except NotAllowed:
        return None
    return Counter(
        (
            str((group.get("spec") or {}).get("queue") or "default"),
            str((group.get("status") or {}).get("phase") or "Pending"),
        )
        for group in groups
    )


def _queue(
    queue: dict[str, Any], weights: float, phases: Counter[tuple[str, str]] | None
) -> base.Queue:
    name = queue["metadata"]["name"]
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    deserved = quantities.vector(spec.get("deserved") or spec.get("capability") or {})
    allocated = quantities.vector(status.get("allocated") or {})
    shares = [allocated.get(kind, 0.0) / n for kind, n in deserved.items() if n]
    state = str(status.get("state") or "Open")
    running = int(status.get("running") or 0)
    queued = int(status.get("pending") or 0) + int(status.get("inqueue") or 0)
    if phases is not None:
        running = phases[name, "Running"]
        queued = phases[name, "Pending"] + phases[name, "Inqueue"]
    return base.Queue(
        name,
        running=running,
        queued=queued,
        capacity=_weight(queue) / weights,
        used=max(shares) if shares else None,
        state={"Open": "running", "Closed": "stopped", "Closing": "draining"}.get(state, state),
    )


def _weight(queue: dict[str, Any]) -> float:
    return float((queue.get("spec") or {}).get("weight") or 1)
