"""This machine's past as a trace: what was asked of it, when, and how long it took.

A job that never ran says nothing of how long it takes, and is left out; one that runs still counts
with what it has run so far.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dromon.errors import UsageError
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.events import NodeJoined
from dromon.sim.trace import Trace, TraceJob


def trace_of(jobs: Iterable[Mapping[str, Any]]) -> Trace:
    """From what the daemon answers about its history."""
    known = sorted((job for job in jobs if job["ran"] > 0), key=lambda job: job["submitted"])
    if not known:
        raise UsageError(
            "this machine has no history yet: no job has run here",
            hint="Give a trace file instead: `dromon simulate TRACE --nodes 8x8`.",
        )
    begin = known[0]["submitted"]
    return Trace([_job(job, begin) for job in known], "history", "history", begin)


def _job(job: Mapping[str, Any], begin: float) -> TraceJob:
    return TraceJob(
        id=job["id"],
        submit=job["submitted"] - begin,
        duration=job["ran"],
        user=job["user"],
        queue=job["queue"],
        priority=job["priority"],
        preemptible=job["preemptible"],
        max_duration=job["max_duration"],
        ask=tuple(_role(name, role) for name, role in job["roles"].items()),
    )


def _role(name: str, role: Mapping[str, Any]) -> RoleAsk:
    return RoleAsk(
        name, role["min"], role["min"], role["cpus"], role["memory"], role["gpus"],
        next(iter(role["gpu_kinds"] or ()), None), role["node_label"], role["spread"],
    )  # fmt: skip


def machine_of(nodes: Sequence[Any]) -> list[NodeJoined]:
    """The machine as it is now, from what `nodes` answers."""
    found = []
    for node in nodes:
        gpus = tuple(
            Gpu(str(gpu.get("index", place)), str(gpu.get("kind") or ""))
            for place, gpu in enumerate(node.gpus)
        )
        cpus, memory = node.total.get("cpus", 0.0), int(node.total.get("memory", 0))
        found.append(NodeJoined(node.name, cpus, memory, gpus, frozenset(node.labels)))
    return found
