"""Why a job waits, in one sentence: `explain(gather(api, namespace, job), now)`. Pure.

1. The reasons are tried in the order of CASES, the hardest first: what can never end by itself,
   then what the job's own pods say, then limits, then room, then the order of the queue.
2. Where Volcano says nothing, or only "not enough resources", the arithmetic is our own.
3. ``unblock`` says what has to happen; ``holders`` are jobs, or owners of pods that are no job's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dromon.engines.base import Waiting
from dromon.engines.kubernetes import limits, peers, status, stuck, volcano
from dromon.engines.kubernetes import pods as podfacts
from dromon.engines.kubernetes.situation import ROOT, Situation
from dromon.lifecycle import states
from dromon.lifecycle import verdict as causes
from dromon.units import format_duration

PATIENCE = 10.0  # seconds Volcano may take for its next step before we wonder
RECENT = 60.0  # seconds between an eviction and what Volcano makes of it
# What Volcano says of every gang that is not placed, and what tells nobody anything.
_NOISE = re.compile(
    r"\d+/\d+ tasks in gang unschedulable: |pod group is (?:not )?ready(?:, \d+ \w+)*"
    r"|Pending: \d+ Unschedulable|\.? ?Origin reason is \S+:"
    r"|Pod \S+ can possibly be assigned to .*"
)
_COUNTS = re.compile(r"ready.*?, (\d+) Pending.*?, (\d+) minAvailable")
_GONE = {causes.PREEMPTED: "preempted", causes.EVICTED: "evicted", causes.LOST: "lost"}


def explain(situation: Situation, now: float) -> Waiting:
    for case in CASES:
        found = case(situation, now)
        if found is not None:
            return _after_preemption(situation, found)
    return Waiting("it is about to start", "about to start")


def _after_preemption(s: Situation, found: Waiting) -> Waiting:
    taken = _taken(s) if found.reason == "resources" else ""
    return found._replace(sentence=f"{taken}; {found.sentence}") if taken else found


def of_gang(standing: Mapping[str, Any], now: float) -> Waiting | None:
    """What the gang itself waits for, as its coordinator says; None: the cluster knows better."""
    if standing.get("trouble"):
        return Waiting(str(standing["trouble"]), "resources")
    state = standing.get("state")
    if state == states.RESTARTING:
        at = standing.get("retry_at")
        after = f" for {format_duration(at - now)}" if at and at > now else ""
        return Waiting(f"waits{after} before it tries again", "backoff")
    if state in (states.QUEUED, states.STARTING):
        absent = [m["member"] for m in standing.get("members") or () if not m.get("connected")]
        whom = f": {stuck.members(absent)} are not there yet" if len(absent) > 1 else ""
        whom = f": {absent[0]} is not there yet" if len(absent) == 1 else whom
        return Waiting(f"its members are on their way to the barrier{whom}", "barrier")
    return None


# --- where it stands at all


def ended(s: Situation, now: float) -> Waiting | None:
    phase = status.phase(s.job)
    if phase in volcano.ENDED:
        return Waiting(f"it has ended ({phase.lower()})", "unknown")
    if phase == volcano.ABORTED:
        return Waiting(
            "it was suspended from outside and holds nothing",
            "unknown",
            unblock=("somebody resumes it (a Command ResumeJob, `vcctl job resume`)",),
        )
    if s.job["metadata"].get("deletionTimestamp"):
        return Waiting("it is being deleted", "stopping")
    if phase in (status.TERMINATING, status.COMPLETING):
        return Waiting(f"it ends{_left(s)}", "stopping")
    return None


def untaken(s: Situation, now: float) -> Waiting | None:
    """Volcano's controllers have not looked at it yet, or fail to."""
    if status.phase(s.job) or s.pods:
        return None
    said = next((e for e in s.events if e.is_warning and e.name == s.job["metadata"]["name"]), None)
    if said is not None:
        return Waiting(f"Volcano cannot take it in: {said.message}", "impossible")
    age = now - status.submitted(s.job)
    if age < PATIENCE:
        return Waiting("Volcano is taking it in", "preparing")
    return Waiting(
        f"Volcano has not taken it in for {format_duration(age)}",
        "unknown",
        unblock=("Volcano's controllers run again: whoever runs the cluster knows",),
    )


def no_queue(s: Situation, now: float) -> Waiting | None:
    name = peers.queue_name(s)
    if not s.queues or peers.all_bound(s):
        return None
    if s.queue is None:
        others = sorted(queue.name for queue in s.queues if queue.name != ROOT)
        there = f"; there are {stuck.members(others)}" if others else ""
        return Waiting(f"there is no queue {name}{there}", "impossible",
                       unblock=(f"queue {name} is made", "the job goes to another"))  # fmt: skip
    for queue in peers.line(s):
        if queue.state in ("Closed", "Closing"):
            word = "closed" if queue.state == "Closed" else "being closed"
            return Waiting(
                f"queue {queue.name} is {word} and takes nothing in",
                "impossible",
                unblock=(f"queue {queue.name} is opened", *peers.elsewhere(s)),
            )
    return None


def ending(s: Situation, now: float) -> Waiting | None:
    """Its pods are taken away, or have failed, before it gets new ones."""
    phase = status.phase(s.job)
    going = [p for p in s.pods.values() if p.phase == "Failed" or (p.deleted and not p.is_over)]
    if phase not in (status.RESTARTING, status.ABORTING) and not going:
        return None
    if phase == status.ABORTING:
        return Waiting(f"it is being suspended{_left(s)}", "stopping")
    return Waiting(f"{_reason(s)}; the gang begins anew once all have ended{_left(s)}", "backoff")


def _reason(s: Situation) -> str:
    if taken := _taken(s):
        return taken
    for member, pod in s.pods.items():
        taken_by = podfacts.taken_by(pod)
        if taken_by is not None:
            return f"{member} was {_GONE[taken_by[0]]}"
    ends = [(member, end) for member, pod in s.pods.items() if (end := podfacts.end(pod))]
    own = [one for one in ends if not (status.was_told(one[1]) or s.pods[one[0]].deleted)]
    if own:
        member, first = min(own, key=lambda one: one[1].at)
        return f"{member} {first.how}"
    return "a pod was lost"


def _taken(s: Situation) -> str:
    """Whether it was preempted since it last ran. The pods that were marked may be gone; Volcano's
    event is left, and only that tells preemption from reclaim."""
    said = s.said("Evict")
    since = status.phase_since(s.job) or 0.0
    if said is not None and said.at > since - RECENT:
        if said.message.endswith("reclaim"):
            return "its room was taken back for another queue"
        return f"it was preempted{_for_whom(s)}"
    marks = [podfacts.taken_by(pod) for pod in s.pods.values()]
    if any(mark is not None and mark[0] == causes.PREEMPTED for mark in marks):
        return f"it was preempted{_for_whom(s)}"
    return ""


def _for_whom(s: Situation) -> str:
    above = [
        peer
        for peer in s.peers
        if peer.lives and peer.priority > s.priority and peer.queue == peers.queue_name(s)
    ]
    return f" for {above[-1].name}, whose priority is higher" if above else ""


def _left(s: Situation) -> str:
    there = [pod for pod in s.pods.values() if pod.deleted is not None and not pod.is_over]
    return f" ({peers.count(len(there), 'pod')} left)" if there else ""


# --- what is left


def promised(s: Situation, now: float) -> Waiting | None:
    """Volcano has chosen its nodes and waits until whoever is on them has ended."""
    if s.group is None or peers.all_bound(s):
        return None
    if not any("Pipelined" in c.message for c in s.group.conditions if c.is_true):
        return None
    going = [peer.name for peer in s.peers if peer.ending]
    if not going:
        return None
    return Waiting(
        f"room is being made for it: {stuck.members(going)} must end first",
        "about to start", peers.position(s), tuple(going),
    )  # fmt: skip


def young(s: Situation, now: float) -> Waiting | None:
    """There is room, and Volcano has only just heard of it."""
    if peers.all_bound(s) or status.is_plain(s.job):
        return None
    if s.nodes is None and _volcanos_words(s):  # whether there is room, only Volcano knows
        return None
    since = max(s.group.created if s.group else 0.0, status.phase_since(s.job) or 0.0)
    if now - (since or status.submitted(s.job)) >= PATIENCE:
        return None
    return Waiting("Volcano is about to place it", "about to start", peers.position(s))


def ordered(s: Situation, now: float) -> Waiting | None:
    """There is room for it, and others are before it."""
    if peers.all_bound(s) or s.group is None:
        return None
    ahead = peers.ahead(s)
    if not ahead:
        return None
    first = ahead[0]
    why = "has a higher priority" if first.priority > s.priority else "came earlier"
    return Waiting(
        f"{first.name} is before it in queue {peers.queue_name(s)}: it {why}",
        "order",
        len(ahead) + 1,
        peers.names(ahead),
        unblock=(f"{first.name} gets its place, or is stopped",),
    )


def said_by_volcano(s: Situation, now: float) -> Waiting | None:
    """No reason of our own: its words, and what we could not look at."""
    if peers.all_bound(s):
        return None
    words = _volcanos_words(s)
    who = "Kubernetes" if status.is_plain(s.job) else "Volcano"
    if words:
        return Waiting(f"{who} says: {words}{_unseen(s)}", "resources", peers.position(s))
    counted = _counted(s)
    return Waiting(f"{counted}{_unseen(s)}", "resources", peers.position(s)) if counted else None


def _counted(s: Situation) -> str:
    """How many of its pods have no place; that is all Volcano tells of many gangs."""
    true = [c for c in s.group.conditions if c.is_true] if s.group is not None else []
    for one in sorted(true, key=lambda c: -(c.since or 0.0)):
        found = _COUNTS.search(one.message)
        if one.kind == "Unschedulable" and found:
            return (
                f"Volcano finds no node for {found[1]} of the {found[2]} pods that must start"
                " together, and does not say why"
            )
    return ""


def _volcanos_words(s: Situation) -> str:
    found = []
    if s.group is not None:
        true = [c for c in s.group.conditions if c.kind == "Unschedulable" and c.is_true]
        found += [c.message for c in sorted(true, key=lambda c: -(c.since or 0.0))]
        about = [e for e in s.events if e.name == s.group.name]
        found += [e.message for e in about if e.reason in ("Unschedulable", "FailedScheduling")]
    conditions = (pod.condition("PodScheduled") for pod in s.pods.values())
    found += [c.message for c in conditions if c is not None and not c.is_true]
    words = (_NOISE.sub("", text).strip(" ;,.") for text in found)
    return next(filter(None, words), "")


def silent(s: Situation, now: float) -> Waiting | None:
    if peers.all_bound(s):
        return None
    if s.group is None and status.is_plain(s.job):
        return None
    since = s.group.created if s.group is not None else status.submitted(s.job)
    age = now - since
    what = "let it in" if s.group is None or s.group.phase == "Pending" else "placed it"
    although = "" if s.nodes is None else " although there is room"
    return Waiting(
        f"Volcano has not {what} for {format_duration(age)}{although}, and does not say"
        f" why{_unseen(s)}",
        "unknown",
        peers.position(s),
        unblock=("Volcano's scheduler runs again, or its configuration is mended"
                 " (`dromon cluster lint volcano`)",),
    )  # fmt: skip


def _unseen(s: Situation) -> str:
    if not s.notes:
        return ""
    begins = "may not look at "
    hidden = [note.removeprefix(begins) for note in s.notes]
    last = f" and {hidden[-1]}" if len(hidden) > 1 else ""
    return f" (you {begins}{', '.join(hidden[:-1] or hidden)}{last})"


def running(s: Situation, now: float) -> Waiting | None:
    there = [pod for pod in s.pods.values() if pod.phase == "Running"]
    if not there:
        return None
    if len(there) == len(s.pods):
        return Waiting(f"runs, with {peers.count(len(there), 'pod')}", "running")
    late = [m for m, pod in s.pods.items() if pod.phase not in ("Running", "Succeeded")]
    return Waiting(f"waits for {stuck.members(late)}", "barrier") if late else None


CASES: tuple[stuck.Case, ...] = (
    ended, untaken, stuck.lost, ending,
    *stuck.AFTER,
    running,
    promised,
    no_queue, *stuck.BEFORE,
    *limits.CASES, stuck.over_quota,
    young, ordered, said_by_volcano, silent,
)  # fmt: skip
