"""Volcano's queues as people see them."""

from __future__ import annotations

from typing import Any

from dromon.engines import base
from dromon.engines.kubernetes import quantities, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import NotFound


def queues_of(api: Api) -> list[base.Queue]:
    try:
        found = api.list(volcano.QUEUE)
    except NotFound:
        return []
    found = [queue for queue in found if queue["metadata"]["name"] != "root"]
    weights = sum(_weight(queue) for queue in found) or 1.0
    return [_queue(queue, weights) for queue in sorted(found, key=lambda q: q["metadata"]["name"])]


def _queue(queue: dict[str, Any], weights: float) -> base.Queue:
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    deserved = quantities.vector(spec.get("deserved") or spec.get("capability") or {})
    allocated = quantities.vector(status.get("allocated") or {})
    shares = [allocated.get(kind, 0.0) / n for kind, n in deserved.items() if n]
    state = str(status.get("state") or "Open")
    return base.Queue(
        queue["metadata"]["name"],
        running=int(status.get("running") or 0),
        queued=int(status.get("pending") or 0) + int(status.get("inqueue") or 0),
        capacity=_weight(queue) / weights,
        used=max(shares) if shares else None,
        state={"Open": "running", "Closed": "stopped", "Closing": "draining"}.get(state, state),
    )


def _weight(queue: dict[str, Any]) -> float:
    return float((queue.get("spec") or {}).get("weight") or 1)
