"""Why an application waits, in words: `explain(gather(manager, app))`. Pure; nothing is asked here.

1. What YARN says itself (its diagnostics name the limit that was hit) is believed first.
2. Else the reasons are tried from the hardest to the softest: one that can never end, a limit
   of the user, of the queue, no room on any node, and at last that it is about to start.
3. ``holders`` and names in the sentence are jobs of Dromon where they are, applications where not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dromon.engines.base import Waiting
from dromon.engines.yarn import amounts
from dromon.engines.yarn.reports import NOTHING, YOUNG, Node, Report
from dromon.engines.yarn.situation import Ask, Limits, Situation, gather
from dromon.lifecycle import states

__all__ = ["Situation", "explain", "gather", "of_gang"]

TAG = "dromon:"
SHOWN = 3  # holders named in a sentence; all of them are in ``holders``
_STARTING = frozenset({"ALLOCATED_SAVING", "ALLOCATED", "LAUNCHED"})


def explain(situation: Situation) -> Waiting:
    report = situation.report
    if report.is_terminal:
        return Waiting(f"it has ended ({report.state.lower()})", "unknown")
    if report.state in YOUNG:
        return Waiting("the ResourceManager is still taking it in", "preparing")
    if report.state == "ACCEPTED":
        return _accepted(situation)
    for ask in situation.asks:
        count = f"{ask.count} containers" if ask.count != 1 else "1 container"
        found = _held_back(situation, ask, f"waits for {count} of {ask.size}")
        if found is not None:
            return found._replace(position=_place_in_line(situation))
    if situation.asks:
        total = sum(ask.count for ask in situation.asks)
        return Waiting(
            f"waits for {total} more containers: there is room, the next beats bring them",
            "about to start",
        )
    return Waiting(f"runs, with {report.containers} containers", "running")


def of_gang(standing: Mapping[str, Any]) -> Waiting | None:
    """What the gang itself waits for; None: YARN knows better, or it does not wait."""
    if standing["trouble"]:
        return Waiting(standing["trouble"], "resources")
    if standing["state"] == states.RESTARTING:
        return Waiting("waits before it tries again", "backoff")
    if standing["fenced"]:
        lost = ", ".join(standing["fenced"])
        return Waiting(
            f"{lost}: its node was lost; it is replaced once it is certain that it has ended",
            "backoff",
        )
    missing = sum(standing["missing"].values())
    if standing["state"] in (states.QUEUED, states.STARTING) and not missing:
        return Waiting("its members are on their way to the barrier", "barrier")
    return None


# --- before the ApplicationMaster runs


def _accepted(situation: Situation) -> Waiting:
    report = situation.report
    again = f" (attempt {report.attempt})" if report.attempt > 1 else ""
    subject = f"waits for its ApplicationMaster{again}"
    if situation.attempt_state in _STARTING:
        return Waiting(f"its ApplicationMaster{again} starts and has not reported yet",
                       "about to start")  # fmt: skip
    if "not yet activated" in report.diagnostics:
        found = _not_activated(situation, subject)
        return found._replace(position=_position(situation))
    for ask in situation.asks:
        held = _held_back(situation, ask, subject)
        if held is not None:
            return held
    words = _words(report.diagnostics)
    return Waiting(f"{subject}: {words}" if words else f"{subject}: its turn is next",
                   "about to start" if situation.asks else "unknown")  # fmt: skip


def _not_activated(situation: Situation, subject: str) -> Waiting:
    """The scheduler holds it back before it looks for a node: limits on ApplicationMasters."""
    report, said = situation.report, situation.report.diagnostics
    ask = (
        situation.asks[0]
        if situation.asks
        else Ask(amounts.figure(said, "AM Resource Request") or NOTHING)
    )
    limits = _limits(situation, ask)
    queue = _short(report.queue)
    masters = [peer for peer in situation.peers if _same(peer.queue, report.queue)]
    masters = [peer for peer in masters if peer.containers]
    if "Queue's AM resource limit" in said:
        limit = amounts.figure(said, "Queue Resource Limit for AM") or limits.masters_limit
        used = amounts.figure(said, "Queue AM Resource Usage") or limits.masters
        kinds = amounts.short(ask.size, used, limit)
        sentence = (
            f"{subject}: the masters of queue {queue} may use {amounts.told(limit, kinds)} and use"
            f" {amounts.told(used, kinds)}{_who(masters)}; it starts when {_ends(masters)}"
        )
    elif "User's AM resource limit" in said:
        masters = [peer for peer in masters if peer.user == report.user]
        limit = (
            amounts.figure(said, "User AM Resource Limit of the queue") or limits.user_masters_limit
        )
        used = limits.user_masters
        kinds = amounts.short(ask.size, used, limit)
        sentence = (
            f"{subject}: the masters of {report.user} in queue {queue} may use"
            f" {amounts.told(limit, kinds)} and use {amounts.told(used, kinds)}{_who(masters)};"
            f" it starts when {_ends(masters)}"
        )
    else:
        return Waiting(f"{subject}: {_words(said)}", "order")
    return Waiting(sentence, "resources", None, _names(masters), unblock=_elsewhere(situation, ask))


def _position(situation: Situation) -> int:
    """Its place among those of its queue that are not activated: higher priority, then age."""
    report = situation.report
    ahead = [
        peer
        for peer in situation.peers
        if _same(peer.queue, report.queue)
        and peer.state in ("SUBMITTED", "ACCEPTED")
        and not peer.containers
        and (-peer.priority, peer.submitted, peer.id)
        < (-report.priority, report.submitted, report.id)
    ]
    return len(ahead) + 1


def _place_in_line(situation: Situation) -> int:
    """Its place among those of its queue that want more than they have."""
    report = situation.report
    ahead = [
        peer
        for peer in _of_queue(situation)
        if (peer.id in situation.asking or not peer.containers)
        and (-peer.priority, peer.submitted, peer.id)
        < (-report.priority, report.submitted, report.id)
    ]
    return len(ahead) + 1


# --- containers that do not come


def _held_back(situation: Situation, ask: Ask, subject: str) -> Waiting | None:
    nodes = _suitable(situation, ask)
    impossible = _impossible(situation, ask, nodes)
    if impossible:
        return Waiting(f"{subject}: {impossible}", "impossible")
    limits = (situation.limits or {}).get(ask.label)
    limited = _limited(situation, ask, limits, subject) if limits else None
    if limited is not None:
        return limited
    if situation.report.reserved_containers:
        count = situation.report.reserved_containers
        kept = f"{situation.report.reserved} on {count} nodes" if count > 1 else "a node"
        return Waiting(f"{subject}: YARN keeps {kept} free for it until there is room", "resources")
    return _no_room(situation, ask, nodes, limits, subject)


def _suitable(situation: Situation, ask: Ask) -> list[Node]:
    """Nodes that run and may take it: of its label, or of one that is shared."""
    return [
        node
        for node in situation.nodes
        if node.is_usable
        and (not ask.places or node.id in ask.places or node.id.rpartition(":")[0] in ask.places)
        and (
            ask.label in (node.labels or ("",))
            or (not ask.label and situation.shared_labels.issuperset(node.labels))
        )
    ]


def _impossible(situation: Situation, ask: Ask, nodes: list[Node]) -> str:
    """What has to change on the cluster first, or nothing."""
    if not any(node.is_usable for node in situation.nodes):
        return "no node of the cluster is running"
    if not nodes:
        if ask.places:
            return f"it insists on {', '.join(ask.places)}, and no such node is running"
        if ask.label:
            return f"no running node has the label {ask.label}"
        return "every running node is reserved for a label, and it asks for none"
    if not any(amounts.fits(ask.size, node.total) for node in nodes):
        largest = max(nodes, key=lambda node: amounts.nearness(ask.size, node.total))
        return f"no node is large enough; {largest.id} has {largest.total}"
    return ""


def _limited(situation: Situation, ask: Ask, limits: Limits, subject: str) -> Waiting | None:
    report = situation.report
    queue = _short(report.queue)
    if limits.user_limit is not None and amounts.over(limits.user_used, limits.user_limit):
        own = [peer for peer in _of_queue(situation) if peer.user == report.user]
        limit = f"{limits.user_limit.memory} MB, {amounts.cores(max(limits.user_limit.vcores, 1))}"
        sentence = (
            f"{subject}: {report.user} may use {limit} of queue {queue} and uses"
            f" {limits.user_used}{_who(own) or ', all of it here'}"
        )
    elif kinds := amounts.short(ask.size, limits.used, limits.maximum):
        own = _of_queue(situation)
        most, used = (amounts.told(size, kinds) for size in (limits.maximum, limits.used))
        whose = f"{_who(own)}; it goes on when {_ends(own)}" if own else ", all of it its own"
        sentence = f"{subject}: queue {queue} may grow to {most} and uses {used}{whose}"
    else:
        return None
    # All that is still to come, since none of it begins before.
    whole = amounts.times(ask.size, ask.count)
    missing = amounts.missing(amounts.total(limits.used, whole), limits.maximum)
    ways = _elsewhere(situation, ask)
    return Waiting(sentence, "resources", None, _names(own), missing, ways)


def _no_room(
    situation: Situation, ask: Ask, nodes: list[Node], limits: Limits | None, subject: str
) -> Waiting | None:
    free = {node.id: amounts.less(node.total, node.used) for node in nodes}
    if any(amounts.fits(ask.size, room) for room in free.values()):
        return None
    best = max(free, key=lambda name: amounts.nearness(ask.size, free[name]))
    own = situation.report.id
    holders = [peer for peer in situation.peers if peer.containers and peer.id != own]
    if ask.size.others:  # whoever has some of what is rare comes first
        rare = [peer for peer in holders if any(k in peer.used.others for k in ask.size.others)]
        holders = rare or holders
    holders.sort(key=lambda peer: (-sum(peer.used.others.values()), -peer.used.memory))
    ways = []
    if (
        limits
        and amounts.fits(amounts.total(limits.used, ask.size), limits.guaranteed)
        and situation.preempts
    ):
        ways.append("its queue is below its share: YARN takes containers from other queues for it")
    sentence = (
        f"{subject}: no node has room for {ask.size}; the most is free on {best}, {free[best]}"
        f"{_who(holders)}"
    )
    missing = amounts.missing(ask.size, free[best])
    return Waiting(sentence, "resources", None, _names(holders), missing, tuple(ways))


# --- names


def _limits(situation: Situation, ask: Ask) -> Limits:
    found = (situation.limits or {}).get(ask.label)
    return found or Limits(*(NOTHING,) * 8, user_limit=None)


def _of_queue(situation: Situation) -> list[Report]:
    own = situation.report
    found = [peer for peer in situation.peers if _same(peer.queue, own.queue) and peer.containers]
    return sorted(found, key=lambda peer: -peer.used.memory)


def _elsewhere(situation: Situation, ask: Ask) -> tuple[str, ...]:
    """Queues it could go to instead."""
    own = situation.report.queue
    open_ones = [
        queue
        for queue in situation.queues
        if not _same(queue.path, own)
        and queue.state == "RUNNING"
        and queue.may_submit
        and queue.used < 0.9
        and (not ask.label or {"*", ask.label} & set(queue.labels))
    ]
    return tuple(
        f"queue {queue.name} would take it: {queue.used:.0%} of its share is in use"
        for queue in open_ones[:SHOWN]
    )


def _names(reports: Iterable[Report]) -> tuple[str, ...]:
    return tuple(_name(report) for report in reports)


def _name(report: Report) -> str:
    return next((tag[len(TAG) :] for tag in report.tags if tag.startswith(TAG)), report.id)


def _who(holders: list[Report]) -> str:
    if not holders:
        return ""
    named = [f"{_name(peer)} of {peer.user}, {peer.used}" for peer in holders[:SHOWN]]
    more = [f"{len(holders) - SHOWN} more"] if len(holders) > SHOWN else []
    return f" ({'; '.join(named + more)})"


def _ends(holders: list[Report]) -> str:
    return "that one ends" if len(holders) == 1 else "one of them ends"


def _short(queue: str) -> str:
    return queue.removeprefix("root.")


def _same(a: str, b: str) -> bool:
    """One may be a path (root.research) and the other a bare name."""
    if "." in a and "." in b:
        return a == b
    return a.rpartition(".")[2] == b.rpartition(".")[2]


def _words(diagnostics: str) -> str:
    """YARN's own sentence, without its date and details."""
    text = re.sub(r"^\[[^]]*\]\s*", "", diagnostics.strip())
    return re.split(r"\s+(?:Details|Last Node)\b", text)[0].strip().rstrip(".:;")
