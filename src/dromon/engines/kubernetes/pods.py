"""What a pod says of itself, and how it ended if it did: `facts(pod)`, `end(facts)`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from dromon.engines.kubernetes import quantities, volcano
from dromon.lifecycle import verdict as causes
from dromon.lifecycle.wording import signal_name

NO_IMAGE = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
    "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
})  # fmt: skip
UNMADE = frozenset({
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
    "PreCreateHookError", "PostStartHookError",
})  # fmt: skip
_INDEX = "batch.kubernetes.io/job-completion-index"
_STARTLESS = frozenset({"StartError", "ContainerCannotRun"})  # runc could not start the command
_AWAY = frozenset({"NodeLost", "NodeShutdown", "Terminated", "Shutdown"})
# Of the condition DisruptionTarget: what took the pod, as a cause.
_TAKEN = {
    "PreemptionByScheduler": causes.PREEMPTED,
    "PreemptionByKubeScheduler": causes.PREEMPTED,
    "EvictionByEvictionAPI": causes.EVICTED,
    "TerminationByKubelet": causes.EVICTED,
    "DeletionByTaintManager": causes.LOST,
    "DeletionByPodGC": causes.LOST,
}

AWAY = frozenset({causes.PREEMPTED, causes.EVICTED, causes.LOST})  # taken, not broken


class Condition(NamedTuple):
    kind: str
    is_true: bool
    reason: str
    message: str
    since: float | None


class Blocked(NamedTuple):
    """A container that cannot start, in the kubelet's words."""

    container: str
    image: str
    reason: str
    message: str


class Ended(NamedTuple):
    """How a container ended."""

    container: str
    code: int
    reason: str  # OOMKilled, Error, Completed, StartError, ContainerStatusUnknown
    started: float | None
    finished: float | None
    message: str


class PodFacts(NamedTuple):
    name: str
    uid: str
    member: str  # "worker-0"
    role: str
    number: int  # among those of its role
    phase: str
    node: str
    ip: str
    created: float
    started: float | None  # its container runs, or ran, since
    version: int | None  # of its job, when it was made
    priority: int | None
    scheduler: str
    conditions: tuple[Condition, ...]
    blocked: Blocked | None
    ended: Ended | None
    reason: str  # of the pod as a whole: Evicted, NodeLost, UnexpectedAdmissionError, …
    message: str
    deleted: float | None  # the moment it may be gone at the latest
    gates: tuple[str, ...]
    claims: tuple[str, ...]  # PersistentVolumeClaims
    note: Mapping[str, Any]  # what our agent left; empty if it left nothing
    last_lines: tuple[str, ...]  # of its log, where no agent came to leave anything
    spec: Mapping[str, Any]

    @property
    def asks(self) -> dict[str, float]:
        return quantities.asked(self.spec)

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.conditions if one.kind == kind), None)

    @property
    def is_over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_unheard(self) -> bool:
        """Its containers were well when its node was last heard of."""
        ready, inside = self.condition("Ready"), self.condition("ContainersReady")
        if self.phase != "Running" or ready is None or inside is None:
            return False
        return inside.is_true and not ready.is_true

    @property
    def is_bound(self) -> bool:
        return bool(self.node) and not self.is_over


class End(NamedTuple):
    """Why a pod is not there any more, as a cause of lifecycle.verdict, in words."""

    cause: str
    how: str  # continues "worker-0 …": "was evicted: the node was low on memory"
    code: int | None = None
    signal: int | None = None
    at: float = 0.0


def when(text: Any) -> float | None:
    """A time as Kubernetes writes it."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def facts(pod: Mapping[str, Any]) -> PodFacts:
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    known = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    role, index = _member(meta["name"], known)
    states = [
        (one["name"], one.get("image") or "", one.get("state") or {})
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in status.get(kind) or ()
    ]
    ended = _ended(states)
    note, lines = _left(ended)
    return PodFacts(
        name=meta["name"],
        uid=meta.get("uid") or "",
        member=f"{role}-{index}" if role else meta["name"],
        role=role,
        number=index,
        phase=status.get("phase") or "Pending",
        node=spec.get("nodeName") or "",
        ip=status.get("podIP") or "",
        created=when(meta.get("creationTimestamp")) or 0.0,
        started=_started(states),
        version=_whole(known.get(volcano.VOLCANO_VERSION)),
        priority=spec.get("priority"),
        scheduler=spec.get("schedulerName") or "",
        conditions=tuple(condition(one) for one in status.get("conditions") or ()),
        blocked=_blocked(states, spec),
        ended=ended,
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        deleted=when(meta.get("deletionTimestamp")),
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        claims=claims(spec),
        note=note,
        last_lines=lines,
        spec=spec,
    )


def newest(pods: Iterable[Mapping[str, Any]]) -> dict[str, PodFacts]:
    """By member; where a member has had several pods, the youngest."""
    found: dict[str, PodFacts] = {}
    for one in sorted(map(facts, pods), key=lambda one: (one.role, one.number, one.created)):
        found[one.member] = one
    return found


def end(pod: PodFacts) -> End | None:
    """None while it lives, and of a success. The first of these that is true is the cause."""
    code = pod.ended.code if pod.ended else None
    at = (pod.ended.finished if pod.ended else None) or pod.created
    number = code - 128 if code is not None and 128 < code < 160 else None
    taken = taken_by(pod) if pod.phase != "Running" else None
    if taken is not None:
        cause, words = taken
        return End(cause, _with(f"was {_WORDS[cause]}", words), code, number, at)
    if pod.phase == "Unknown" or pod.reason in _AWAY:
        node = f"node {pod.node} was lost" if pod.node else "its node was lost"
        return End(causes.LOST, _with("was lost", pod.message or node), code, number, at)
    if pod.phase != "Failed":
        return None
    if pod.reason == "DeadlineExceeded":
        return End(causes.TIMEOUT, _with("was over its time", pod.message), code, number, at)
    if pod.ended is None:  # the kubelet would not have it, or nobody knows
        words = pod.message or pod.reason
        return End(causes.INTERNAL, _with(f"was refused by node {pod.node}", words), at=at)
    if pod.ended.reason == "OOMKilled":
        limit = _limit(pod, pod.ended.container)
        words = f"out of memory{f', with a limit of {limit}' if limit else ''}"
        return End(causes.OUT_OF_MEMORY, f"was killed by SIGKILL: {words}", None, 9, at)
    if pod.ended.reason == "ContainerStatusUnknown":
        return End(causes.LOST, _with("was lost", f"node {pod.node} went away"), code, number, at)
    if pod.ended.reason in _STARTLESS:
        words = pod.ended.message.rpartition("unable to start container process: ")[2]
        words = words.removesuffix(": unknown")
        return End(causes.ENVIRONMENT, _with("could not start", words), code, None, at)
    if number is not None:
        return End(causes.USER_ERROR, f"was killed by {signal_name(number)}", None, number, at)
    return End(causes.USER_ERROR, f"failed with exit code {code}", code, None, at)


_WORDS = {causes.PREEMPTED: "preempted", causes.EVICTED: "evicted", causes.LOST: "lost"}


def taken_by(pod: PodFacts) -> tuple[str, str] | None:
    """(cause, words) of a pod that somebody takes or took away."""
    if pod.reason == "Evicted":
        return causes.EVICTED, pod.message
    if pod.reason in ("Preempting", "Preempted"):
        return causes.PREEMPTED, pod.message
    target = pod.condition("DisruptionTarget")
    if target is not None and target.is_true:
        cause = _TAKEN.get(target.reason, causes.EVICTED)
        return cause, target.message.removeprefix("volcano: ")
    ready = pod.condition("Ready")
    if ready is not None and ready.reason == "Evict":  # Volcano's own mark
        return causes.PREEMPTED, ready.message
    return None


def stuck(pod: PodFacts) -> str:
    """What keeps its container from starting, in words."""
    held = pod.blocked
    if held is None:
        return ""
    said = " ".join(held.message.split())
    if held.reason == "InvalidImageName":
        return f"{held.image!r} is no name of an image"
    if held.reason == "ErrImageNeverPull":
        return f"image {held.image} is not on node {pod.node}, and its pull policy is Never"
    if held.reason in NO_IMAGE:
        return f"image {held.image} cannot be pulled ({held.reason}){_after(_pulled(said))}"
    return f"{said or held.reason}"


def _pulled(said: str) -> str:
    """The end of a chain of wrapped errors is what happened."""
    if said.startswith("Back-off pulling image"):
        said = said.partition(": ")[2] if ": " in said else ""
    parts = [part.strip() for part in said.split(": ") if part.strip()]
    return ": ".join(parts[-2:])[:300]


def _after(words: str) -> str:
    return f": {words}" if words else ""


def condition(given: Mapping[str, Any]) -> Condition:
    """Of a pod, a PodGroup, a node or a claim."""
    return Condition(
        str(given.get("type", "")),
        given.get("status") == "True",
        given.get("reason") or "",
        given.get("message") or "",
        when(given.get("lastTransitionTime")),
    )


def claims(spec: Mapping[str, Any]) -> tuple[str, ...]:
    named = (one.get("persistentVolumeClaim") or {} for one in spec.get("volumes") or ())
    return tuple(one["claimName"] for one in named if one.get("claimName"))


# --- parts


def _member(name: str, known: Mapping[str, str]) -> tuple[str, int]:
    role = known.get(volcano.ROLE_LABEL) or known.get(volcano.VOLCANO_TASK) or ""
    index = _whole(known.get(volcano.VOLCANO_INDEX))
    if index is None:
        index = _whole(known.get(_INDEX))
    if index is None and known.get(volcano.VOLCANO_JOB):
        index = _whole(name.rpartition("-")[2])
    return role, index or 0


def _whole(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


_States = list[tuple[str, str, Mapping[str, Any]]]


def _ended(states: _States) -> Ended | None:
    """The container that failed first, or else the last to end, if none runs any more."""
    over = [
        Ended(
            name,
            int(one["terminated"].get("exitCode") or 0),
            one["terminated"].get("reason") or "",
            when(one["terminated"].get("startedAt")),
            when(one["terminated"].get("finishedAt")),
            one["terminated"].get("message") or "",
        )
        for name, _, one in states
        if one.get("terminated")
    ]
    failed = [one for one in over if one.code]
    if failed:
        return min(failed, key=lambda one: one.finished or 0.0)
    return over[-1] if over and len(over) == len(states) else None


def _left(ended: Ended | None) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """What the container wrote to its termination log: our agent's note, or lines of a log."""
    if ended is None or not ended.message:
        return {}, ()
    try:
        note = json.loads(ended.message)
    except ValueError:
        return {}, tuple(ended.message.strip().splitlines()[-20:])
    return (note, ()) if isinstance(note, dict) else ({}, (ended.message,))


def _started(states: _States) -> float | None:
    times = [
        when((one.get("running") or one.get("terminated") or {}).get("startedAt"))
        for _, _, one in states
    ]
    found = [time for time in times if time]
    return max(found) if found else None


def _blocked(states: _States, spec: Mapping[str, Any]) -> Blocked | None:
    """Images in a status may be resolved names; people know them as they wrote them."""
    written = {
        one["name"]: one.get("image") or ""
        for kind in ("initContainers", "containers")
        for one in spec.get(kind) or ()
    }
    for name, image, state in states:
        waits = state.get("waiting") or {}
        reason = waits.get("reason") or ""
        if reason in NO_IMAGE or reason in UNMADE:
            said = waits.get("message") or ""
            return Blocked(name, written.get(name) or image, reason, said)
    return None


def _limit(pod: PodFacts, container: str) -> str:
    for one in pod.spec.get("containers") or ():
        if one["name"] == container:
            limits = quantities.vector((one.get("resources") or {}).get("limits"))
            return quantities.piece("memory", limits["memory"]) if "memory" in limits else ""
    return ""


def _with(how: str, words: str) -> str:
    words = " ".join(words.split())
    if words:
        words = words[0].lower() + words[1:] if words[1:2].islower() else words
    return f"{how}: {words.rstrip('. ')}" if words else how
