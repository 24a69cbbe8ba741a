"""The known ways in which Volcano forgets a job, found by looking, with their cure. Pure.

A cure is a tuple of calls to the API server, as values: whoever looks decides whether to make
them. A finding without one is to be told, for only people can mend it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dromon.engines.kubernetes import room, status, volcano, why
from dromon.engines.kubernetes.calls import Call, command
from dromon.engines.kubernetes.pods import PodFacts
from dromon.engines.kubernetes.situation import Situation
from dromon.engines.kubernetes.stuck import members
from dromon.units import format_duration

PATIENCE = 60.0  # seconds Volcano gets for any step
# Agents of a node that went away end themselves when their lease is over, which is a minute; only
# then may another take their place.
FENCED = 120.0
_BETWEEN = frozenset({status.RESTARTING, status.TERMINATING, status.ABORTING, status.COMPLETING})
_PARTIAL = frozenset({"RestartPod", "RestartTask", "RestartPartition"})


class Finding(NamedTuple):
    kind: str
    sentence: str
    cure: tuple[Call, ...] = ()


def look(situation: Situation, now: float) -> list[Finding]:
    if status.is_plain(situation.job) or status.phase(situation.job) in volcano.ENDED:
        return []
    found = (rule(situation, now) for rule in RULES)
    return [finding for finding in found if finding is not None]


def _wake(s: Situation) -> tuple[Call, ...]:
    """Any Command makes Volcano look at a job again. ResumeJob does nothing else to one that is
    not suspended; one on its way there is told once more to be."""
    is_aborting = status.phase(s.job) == status.ABORTING
    return (command(s.job, "AbortJob" if is_aborting else "ResumeJob"),)


def _for(s: Situation, now: float) -> float:
    """Seconds in its phase."""
    return now - (status.phase_since(s.job) or status.submitted(s.job))


# --- the rules


def asleep(s: Situation, now: float) -> Finding | None:
    """Between two phases, while the pods it waits for are gone."""
    phase, waited = status.phase(s.job), _for(s, now)
    there = [pod for pod in s.pods.values() if not pod.is_over]
    if phase not in _BETWEEN or waited < PATIENCE or there:
        return None
    counted = int((s.job.get("status") or {}).get("terminating") or 0)
    still = f" and still counts {counted} that end" if counted else ""
    return Finding(
        "asleep",
        f"Volcano has it in {phase} for {format_duration(waited)}; it has no pods any more{still}",
        _wake(s),
    )


def lost_node(s: Situation, now: float) -> Finding | None:
    """Pods that cannot be ended because nobody is there to confirm it."""
    if s.nodes is None:
        return None
    nodes = {node.name: node for node in s.nodes}
    gone: list[PodFacts] = []
    for pod in s.pods.values():
        if pod.deleted is None or pod.deleted + PATIENCE > now or not pod.node:
            continue
        node = nodes.get(pod.node)
        if node is None or (not node.is_ready and (node.since or now) + FENCED < now):
            gone.append(pod)
    if not gone:
        return None
    where = members(sorted({pod.node for pod in gone}))
    return Finding(
        "lost node",
        f"{members([pod.member for pod in gone])} cannot end, for {where} does not answer",
        tuple(
            Call("delete", volcano.POD, s.namespace, pod.name, grace=0, uid=pod.uid) for pod in gone
        ),
    )


def no_group(s: Situation, now: float) -> Finding | None:
    """Without a PodGroup the scheduler does not know of it."""
    waits = status.phase(s.job) in ("", status.PENDING) and _for(s, now) >= PATIENCE
    blind = any("PodGroups" in note for note in s.notes)
    if not waits or s.group is not None or blind:
        return None
    return Finding(
        "no group",
        f"Volcano has made no PodGroup for it in {format_duration(_for(s, now))}",
        _wake(s),
    )


def no_pods(s: Situation, now: float) -> Finding | None:
    """Let in, and nobody makes its pods: unless the API server refuses them, which it says."""
    if s.group is None or s.group.phase not in ("Inqueue", "Running") or s.pods:
        return None
    refused = s.said("FailedCreatePod", "FailedCreate")
    phase = status.phase(s.job)
    if refused or phase not in (status.PENDING, status.RUNNING) or _for(s, now) < PATIENCE:
        return None
    return Finding(
        "no pods",
        f"Volcano let it in and has made no pods in {format_duration(_for(s, now))}",
        _wake(s),
    )


def not_let_in(s: Situation, now: float) -> Finding | None:
    """Nothing but the scheduler's configuration keeps it out: no command helps."""
    if s.group is None or s.group.phase != "Pending" or now - s.group.created < PATIENCE:
        return None
    reason = why.explain(s, now)
    if reason.reason == "unknown":
        return Finding("not let in", reason.sentence)
    trap = next((way for way in reason.unblock if "does not preempt" in way), "")
    return Finding("not let in", trap) if trap else None


def no_gang(s: Situation, now: float) -> Finding | None:
    """Pods of another scheduler start one by one."""
    foreign = sorted(
        {pod.scheduler for pod in s.pods.values() if pod.scheduler}
        - {(s.job.get("spec") or {}).get("schedulerName") or "volcano"}
    )
    if not foreign or sum(shape.most for shape in room.shapes(s.job)) < 2:
        return None
    return Finding(
        "no gang",
        f"its pods are placed by {members(foreign)}, one by one and not together: its schedulerName"
        " does not name Volcano",
    )


def old_pods(s: Situation, now: float) -> Finding | None:
    """Pods made before the last restart, which nobody ends."""
    version = (s.job.get("status") or {}).get("version")
    policies = [p for p in _policies(s.job) if p.get("action") in _PARTIAL]
    settled = status.phase(s.job) in (status.PENDING, status.RUNNING) and _for(s, now) >= PATIENCE
    if version is None or policies or not settled:
        return None
    old = [
        pod
        for pod in s.pods.values()
        if pod.version is not None
        and pod.version < int(version)
        and not pod.is_over
        and pod.deleted is None
    ]
    if not old:
        return None
    return Finding(
        "old pods",
        f"{members([pod.member for pod in old])} {_is(len(old))} from before the last restart",
        tuple(Call("delete", volcano.POD, s.namespace, pod.name, uid=pod.uid) for pod in old),
    )


def half_gang(s: Situation, now: float) -> Finding | None:
    """Volcano takes pods that ended with 0 for ready, and starts the others without them."""
    if status.phase(s.job) not in (status.PENDING, status.RUNNING):
        return None
    over = [p for p in s.pods.values() if p.phase == "Succeeded" and p.ended is not None]
    ends = [pod.ended.finished for pod in over if pod.ended is not None and pod.ended.finished]
    if not ends:
        return None
    late = [
        pod
        for pod in s.pods.values()
        if pod.phase in ("Pending", "Running") and pod.created > min(ends) and pod.deleted is None
    ]
    if not late or now - max(pod.created for pod in late) < PATIENCE:
        return None
    return Finding(
        "half a gang",
        f"{members([pod.member for pod in late])} began anew without"
        f" {members([pod.member for pod in over])}, which Volcano counts as ready",
        (command(s.job, "RestartJob"),),
    )


def _policies(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    spec = job.get("spec") or {}
    tasks = [policy for task in spec.get("tasks") or () for policy in task.get("policies") or ()]
    return [*(spec.get("policies") or ()), *tasks]


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


RULES: tuple[Callable[[Situation, float], Finding | None], ...] = (
    asleep, lost_node, no_group, no_pods, not_let_in, no_gang, old_pods, half_gang,
)  # fmt: skip
