"""How a job stands, from what Volcano, its pods and its coordinator say. Pure.

1. While Volcano (or Kubernetes, of a plain Job) has not ended it, it is not over: its room is
   not free.
2. Of everything else the coordinator knows best: live, in its record, or in what it left in the
   first pod when that ended.
3. Where it never spoke, the pods say who failed first and how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dromon.engines.base import JobStatus, MemberStatus
from dromon.engines.kubernetes import pods as podfacts
from dromon.engines.kubernetes import quantities, volcano
from dromon.engines.kubernetes.pods import End, PodFacts, when
from dromon.lifecycle import states, wording
from dromon.lifecycle import verdict as causes
from dromon.lifecycle.verdict import Exit, Verdict
from dromon.units import parse_duration

Object = Mapping[str, Any]
Standing = Mapping[str, Any]  # what the coordinator told last

PENDING, RUNNING, RESTARTING = "Pending", "Running", "Restarting"
COMPLETING, TERMINATING, ABORTING = "Completing", "Terminating", "Aborting"
NUMBER, PRIORITY = "dromon.io/number", "dromon.io/priority"  # annotations, where there are any
TERM = volcano.RELEASED - 128
_BY_CODE = {
    0: (states.SUCCEEDED, causes.SUCCESS),
    volcano.FEWER: (states.SUCCEEDED, causes.SUCCESS),
    volcano.TIME_OVER: (states.FAILED, causes.TIMEOUT),
    volcano.STOPPED: (states.STOPPED, causes.STOPPED),
}


def status(
    job: Object,
    pods: Iterable[Object],
    live: Standing | None,
    record: Standing | None,
    on: str,
    priorities: Mapping[str, int] | None = None,
) -> JobStatus:
    """`live` is the coordinator's answer now, `record` what it left behind; `priorities` the
    values of priority classes, for jobs without pods."""
    return of_facts(job, podfacts.newest(pods), live, record, on, priorities or {})


def of_facts(
    job: Object,
    found: Mapping[str, PodFacts],
    live: Standing | None,
    record: Standing | None,
    on: str,
    priorities: Mapping[str, int],
) -> JobStatus:
    """The same, of pods that were read already."""
    meta, spec = job["metadata"], job.get("spec") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    id = labels.get(volcano.JOB_LABEL) or meta["name"]
    order = ranks(job)
    told = standing(found, order, live, record)
    state, verdict, ended = _outcome(job, found, told)
    return JobStatus(
        id=id,
        number=int(notes.get(NUMBER) or 0),
        name=labels.get(volcano.NAME_LABEL) or id.rpartition("-")[0] or id,
        state=state,
        engine="kubernetes",
        queue=spec.get("queue") or "default",
        priority=_priority(job, found, priorities),
        submitted=submitted(job),
        started=told.get("started") or (_first_start(found) if ended is not None else None),
        ended=ended,
        attempt=int(told.get("attempt") or 0),
        user=labels.get(volcano.USER_LABEL) or "",
        verdict=None if verdict is None else verdict.to_json(),
        members=_members(order, found, told),
        resources=_held(found),
        on=on,
    )


def is_plain(job: Object) -> bool:
    """A Job of Kubernetes' own, not of Volcano's. Those of a list do not say their kind."""
    return "tasks" not in (job.get("spec") or {})


def phase(job: Object) -> str:
    """Of a Volcano Job as it says; of a plain one what Volcano would say."""
    status = job.get("status") or {}
    if not is_plain(job):
        return str((status.get("state") or {}).get("phase") or "")
    true = {c["type"] for c in status.get("conditions") or () if c.get("status") == "True"}
    if "Complete" in true:
        return volcano.COMPLETED
    if "Failed" in true:
        return volcano.FAILED
    if true & {"FailureTarget", "SuccessCriteriaMet"}:
        return COMPLETING
    if (job.get("spec") or {}).get("suspend"):  # how a plain job is stopped
        return TERMINATING if status.get("active") else volcano.TERMINATED
    return RUNNING if status.get("ready") else PENDING if status else ""


def class_of(job: Object) -> str:
    """Its priority class; a plain Job's is that of its pod."""
    spec = job.get("spec") or {}
    own = ((spec.get("template") or {}).get("spec") or {}) if is_plain(job) else spec
    return str(own.get("priorityClassName") or "")


def phase_since(job: Object) -> float | None:
    status = job.get("status") or {}
    if (found := (status.get("state") or {}).get("lastTransitionTime")) is not None:
        return when(found)
    times = [when(c.get("lastTransitionTime")) for c in status.get("conditions") or ()]
    return max((time for time in times if time), default=when(status.get("completionTime")))


def submitted(job: Object) -> float:
    noted = (job["metadata"].get("annotations") or {}).get(volcano.SUBMITTED) or ""
    try:
        return float(noted)
    except ValueError:
        return when(noted) or when(job["metadata"].get("creationTimestamp")) or 0.0


def ranks(job: Object) -> dict[str, int]:
    """Its members in rank order: by task, as they stand in the job, then by index."""
    spec = job.get("spec") or {}
    if "tasks" in spec:
        names = [
            f"{role}-{index}"
            for role, replicas in ((role_of(t), int(t.get("replicas", 1))) for t in spec["tasks"])
            for index in range(replicas)
        ]
    else:
        role = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        names = [f"{role[volcano.ROLE_LABEL]}-0"] if volcano.ROLE_LABEL in role else []
    return {name: rank for rank, name in enumerate(names)}


def member_of(pod: Object) -> str:
    return podfacts.facts(pod).member


def role_of(task: Object) -> str:
    labels = ((task.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(volcano.ROLE_LABEL) or task.get("name") or "")


def standing(
    found: Mapping[str, PodFacts],
    ranks: Mapping[str, int],
    live: Standing | None,
    record: Standing | None,
) -> Standing:
    """The best there is of what the coordinator told, empty if it told nothing. What says how
    the job ended comes before what only says how it went."""
    first = next(iter(ranks), "")
    note = found[first].note if first in found else {}
    spoken = [one for one in (live, record, note) if one]
    final = [one for one in spoken if states.is_terminal(str(one.get("state", "")))]
    best = next(iter(final or spoken), {})
    fuller = next((one for one in spoken if one.get("members")), {})
    return {**fuller, **best}


# --- the job


def _outcome(
    job: Object, found: Mapping[str, PodFacts], told: Standing
) -> tuple[str, Verdict | None, float | None]:
    now = phase(job)
    state = str(told.get("state", ""))
    if now in volcano.ENDED:
        ended = phase_since(job) or submitted(job)
        if told.get("verdict") and states.is_terminal(state):
            return state, Verdict.from_json(told["verdict"]), ended
        return *_without_word(job, now, found, told, ended), ended
    if states.is_terminal(state) or now in (TERMINATING, COMPLETING):
        return states.STOPPING, None, None
    if job["metadata"].get("deletionTimestamp"):
        return states.STOPPING, None, None
    if now in (RESTARTING, ABORTING):
        return states.RESTARTING, None, None
    if now == volcano.ABORTED:
        return states.QUEUED, None, None
    if now in (PENDING, "") and not any(p.is_bound and p.deleted is None for p in found.values()):
        return states.QUEUED, None, None
    first = found.get(next(iter(ranks(job)), ""))
    if state in ("", states.QUEUED, states.PREPARING):
        return states.STARTING, None, None
    if first is None or first.phase != "Running":
        return states.STARTING, None, None  # what is told was told by the pod before this one
    if first.deleted is not None:  # nobody knows yet but its kubelet, or not even that
        return states.RESTARTING, None, None
    return state, None, None


def _without_word(
    job: Object, now: str, found: Mapping[str, PodFacts], told: Standing, ended: float
) -> tuple[str, Verdict]:
    """The coordinator could not say how it ended: it never ran, or was gone too fast."""
    attempt = int(told.get("attempt") or 0)
    first = found.get(next(iter(ranks(job)), ""))
    code = first.ended.code if first is not None and first.ended is not None else None
    if now == volcano.COMPLETED:
        count = len(found) or len(ranks(job))
        return states.SUCCEEDED, wording.succeeded(attempt, count, count, 0)
    if code in _BY_CODE and code in volcano.RESERVED:
        state, cause = _BY_CODE[code]
        if cause == causes.SUCCESS:
            return state, Verdict(cause, "all members that came succeeded", attempt=attempt)
        if cause == causes.STOPPED:
            return state, wording.stopped(attempt, "", started=True)
        return state, Verdict(cause, "over its max_duration", attempt=attempt)
    if (trouble := (job["metadata"].get("annotations") or {}).get(volcano.TROUBLE)) is not None:
        return states.FAILED, Verdict(causes.ENVIRONMENT, str(trouble), attempt=attempt)
    failed = first_failure(job, found, attempt)
    if failed is not None:
        return states.FAILED, failed
    if now == volcano.TERMINATED:
        waited = _waited_too_long(job, ended)
        if waited:
            return states.FAILED, wording.waited_too_long(attempt, f"pending:{waited}")
        ran = _first_start(found) is not None or bool(told.get("started"))
        return states.STOPPED, wording.stopped(attempt, "", started=ran)
    words = _words(job)
    message = f"Volcano gave it up: {words}" if words else "Volcano gave it up and does not say why"
    return states.FAILED, Verdict(
        causes.INTERNAL, message, attempt=attempt, hint="`dromon show` has what Kubernetes says."
    )


def first_failure(job: Object, found: Mapping[str, PodFacts], attempt: int) -> Verdict | None:
    """The verdict on the pod that failed first. Pods that were told to end fail after it."""
    ends = [(member, end) for member, pod in found.items() if (end := podfacts.end(pod))]
    own = [one for one in ends if not was_told(one[1])] or ends
    if not own:
        return _never_started(job, found, attempt)
    order = ranks(job)
    member, end = min(own, key=lambda one: (one[1].at, order.get(one[0], 0)))
    who = wording.Who(member, order.get(member), attempt, alone=len(order) < 2)
    exit = found[member].note.get("exit")
    if isinstance(exit, dict) and end.cause == causes.USER_ERROR:
        return wording.failed(who, Exit.from_json(exit))
    verdict = who.verdict(end.cause, f"{who} {end.how}")
    lines = found[member].last_lines
    return Verdict(**{**verdict.__dict__, "code": end.code, "signal": end.signal,
                      "last_lines": lines})  # fmt: skip


def was_told(end: End) -> bool:
    return end.cause == causes.USER_ERROR and end.signal == TERM


def _never_started(job: Object, found: Mapping[str, PodFacts], attempt: int) -> Verdict | None:
    for member, pod in found.items():
        if pod.blocked is not None:
            order = ranks(job)
            who = wording.Who(member, order.get(member), attempt, alone=len(order) < 2)
            return who.verdict(causes.ENVIRONMENT, f"{who} could not start: {podfacts.stuck(pod)}")
    return None


def _waited_too_long(job: Object, ended: float) -> str:
    """The timeout of a policy for pending pods that had passed when the job was ended."""
    limit = pending_limit(job)
    return limit if limit and ended - submitted(job) >= parse_duration(limit) else ""


def pending_limit(job: Object) -> str:
    """How long its pods may be pending, as Volcano was told; "" without end."""
    for policy in (job.get("spec") or {}).get("policies") or ():
        events = policy.get("events") or [policy.get("event")]
        limit = str(policy.get("timeout") or "")
        if "PodPending" in events and limit:
            try:
                parse_duration(limit)
            except ValueError:
                continue
            return limit
    return ""


def _words(job: Object) -> str:
    status = job.get("status") or {}
    said = status.get("state") or {}
    for one in reversed(status.get("conditions") or []):
        if one.get("type") == "Failed":
            said = one
    return ": ".join(part for part in (said.get("reason"), said.get("message")) if part)


def _priority(job: Object, found: Mapping[str, PodFacts], classes: Mapping[str, int]) -> int:
    noted = (job["metadata"].get("annotations") or {}).get(PRIORITY)
    if noted is not None:
        return int(noted)
    got = next((one.priority for one in found.values() if one.priority is not None), None)
    return classes.get(class_of(job), 0) if got is None else got


def _first_start(found: Mapping[str, PodFacts]) -> float | None:
    return min((one.started for one in found.values() if one.started), default=None)


def _held(found: Mapping[str, PodFacts]) -> dict[str, float]:
    names = {"cpu": "cpus"}
    times = Counter(map(id, found.values()))
    one_of: dict[str, PodFacts] = {}  # the pods of a role ask for the same
    counts: Counter[str] = Counter()
    for one in _apart(found):
        if one.is_bound:
            one_of[one.role] = one
            counts[one.role] += times[id(one)]
    held = quantities.total(
        quantities.times(one.asks, counts[role]) for role, one in one_of.items()
    )
    return quantities.total(
        {"gpus" if quantities.is_gpu(kind) else names.get(kind, kind): amount}
        for kind, amount in held.items()
    )


# --- its members


def _members(
    order: Mapping[str, int], found: Mapping[str, PodFacts], told: Standing
) -> tuple[MemberStatus, ...]:
    known = [one for one in told.get("members") or () if one.get("member")]
    if known:
        return tuple(_told(one, found.get(one["member"])) for one in known)
    # Where pods are only counted, one stands for many.
    seen = {
        id(pod): (int(pod.note.get("run") or 1), _state(pod), _exit(pod))
        for pod in _apart(found)
    }  # fmt: skip
    made = []
    for member, pod in sorted(found.items(), key=lambda one: order.get(one[0], len(order))):
        run, state, exit = seen[id(pod)]
        made.append(MemberStatus(member, run, order.get(member), state, pod.node, 0, (), 0, exit))
    return tuple(made)


def _apart(found: Mapping[str, PodFacts]) -> Iterable[PodFacts]:
    """Each of them once."""
    return {id(pod): pod for pod in found.values()}.values()


def _told(one: Mapping[str, Any], pod: PodFacts | None) -> MemberStatus:
    exit = one.get("exit")
    if exit is None and pod is not None and pod.is_over:
        exit = _exit(pod)
    state = one.get("state") or states.LAUNCHED
    if pod is not None and pod.deleted is not None and _is_lost(pod):
        state = states.GONE  # whoever told it was on that node, or has not missed it yet
    return MemberStatus(
        member=one["member"],
        run=int(one.get("run") or 1),
        rank=one.get("rank"),
        state=state,
        host=(pod.node if pod is not None else "") or one.get("node") or one.get("host") or "",
        pid=int(one.get("pid") or 0),
        memory=int(one.get("memory") or 0),
        exit=exit,
    )


def _is_lost(pod: PodFacts) -> bool:
    """With its node."""
    taken = podfacts.taken_by(pod)
    return taken is not None and taken[0] == causes.LOST


def _state(pod: PodFacts) -> str:
    end = podfacts.end(pod)
    if end is not None:
        return states.GONE if end.cause in podfacts.AWAY else states.BROKEN
    if pod.phase == "Succeeded":
        return states.DONE
    return states.ENDING if pod.deleted is not None else states.LAUNCHED


def _exit(pod: PodFacts) -> Mapping[str, Any] | None:
    exit = pod.note.get("exit")
    if isinstance(exit, dict):
        return exit
    end = podfacts.end(pod)
    if end is not None and pod.ended is not None:
        found = Exit(
            end.code, end.signal, end.cause, end.how, pod.last_lines,
            pod.ended.started or 0.0, pod.ended.finished or 0.0,
        )  # fmt: skip
        return found.to_json()
    return None
