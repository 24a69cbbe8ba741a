"""All that bears on an application that waits, as values, and how it is gathered.

RPC has the application, its peers and the nodes; the web pages have the limits of the queue and
what is still asked for. Where the pages are closed to us, those two are missing and everything
else is there. What it all means is ``why``'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dromon.engines.yarn import amounts
from dromon.engines.yarn.am.asks import ANY, Size
from dromon.engines.yarn.manager import Manager
from dromon.engines.yarn.pages import PageFailed, each
from dromon.engines.yarn.reports import NOTHING, ApplicationId, Node, Queue, Report

LIVING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")


@dataclass(frozen=True)
class Ask:
    """Containers of one size that are still to come. ``places``: hosts it insists on, if any."""

    size: Size
    count: int = 1
    label: str = ""
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """A queue of the CapacityScheduler in one partition, and one user's part of it."""

    guaranteed: Size
    maximum: Size
    used: Size
    masters: Size  # what ApplicationMasters use
    masters_limit: Size
    user_masters: Size
    user_masters_limit: Size
    user_used: Size
    user_limit: Size | None  # None: no limit of its own


@dataclass(frozen=True)
class Situation:
    report: Report
    attempt_state: str = ""  # of the ApplicationMaster; empty before there is one
    asks: tuple[Ask, ...] = ()
    limits: Mapping[str, Limits] | None = None  # by label; None: not to be had
    queue: Queue | None = None
    queues: tuple[Queue, ...] = ()  # where applications may be, its own included
    nodes: tuple[Node, ...] = ()
    shared_labels: frozenset[str] = frozenset()  # whose nodes take others when they idle
    peers: tuple[Report, ...] = ()  # all other living applications, the eldest first
    asking: frozenset[str] = frozenset()  # of the peers, those that want containers too
    preempts: bool = False  # does the cluster take containers from queues over their share?


def gather(manager: Manager, app: ApplicationId) -> Situation:
    report = manager.report(app)
    if report.is_terminal:
        return Situation(report)
    attempts = manager.attempts(app)
    peers = [one for one in manager.reports(states=LIVING) if one.id != app]
    queues = tuple(one for one in manager.queues().walk() if not one.children)
    own = next((one for one in queues if report.queue in (one.path, one.name)), None)
    labels = manager.labels()
    nodes = tuple(manager.nodes())
    asks = _asks(manager, report)
    if any(node.used.vcores > node.total.vcores for node in nodes):
        # Its scheduler counts memory alone: no lack of cores keeps anybody waiting.
        asks = tuple(replace(ask, size=replace(ask.size, vcores=0)) for ask in asks)
    preempts = manager.cluster.effective("yarn.resourcemanager.scheduler.monitor.enable")
    return Situation(
        report=report,
        attempt_state=attempts[-1].state if attempts else "",
        asks=asks,
        limits=_limits(manager, report),
        queue=own,
        queues=queues,
        nodes=nodes,
        shared_labels=frozenset(name for name, exclusive in labels.items() if not exclusive),
        peers=tuple(sorted(peers, key=lambda one: (one.submitted, one.id))),
        asking=_asking(manager, peers),
        preempts=preempts.lower() == "true",
    )


# --- what is still to come


def _asks(manager: Manager, report: Report) -> tuple[Ask, ...]:
    try:
        page = manager.cluster.pages.rest(f"/apps/{report.id}")
        return asks_of(page)
    except PageFailed:
        left = amounts.less(report.needed, report.used)
        return (Ask(left),) if left.memory or left.vcores else ()


def _asking(manager: Manager, peers: list[Report]) -> frozenset[str]:
    """The peers that want more than they have. Reports do not count what is asked by label."""
    try:
        page = manager.cluster.pages.rest("/apps", states="ACCEPTED,RUNNING")
        apps = each(_dict(_dict(page).get("apps")).get("app"))
        return frozenset(str(app.get("id")) for app in apps if asks_of({"app": app}))
    except PageFailed:
        return frozenset(p.id for p in peers if p.needed.memory > p.used.memory)


def asks_of(page: Any) -> tuple[Ask, ...]:
    """The asks in the REST answer to ``/apps/{id}``."""
    requests = each(_dict(_dict(page).get("app")).get("resourceRequests"))
    named: dict[tuple[Any, Any], list[str]] = {}
    for one in requests:
        name = str(one.get("resourceName", ANY))
        if name != ANY and not name.startswith("/") and one.get("numContainers"):
            key = (one.get("priority"), one.get("allocationRequestId"))
            named.setdefault(key, []).append(name)
    found = []
    for one in requests:
        if one.get("resourceName", ANY) != ANY or not one.get("numContainers"):
            continue
        key = (one.get("priority"), one.get("allocationRequestId"))
        places = [] if one.get("relaxLocality", True) else named.get(key, [])
        label = str(one.get("nodeLabelExpression") or "")
        found.append(Ask(size(one.get("capability")), one["numContainers"], label, tuple(places)))
    return tuple(found)


# --- the limits of a queue


def _limits(manager: Manager, report: Report) -> dict[str, Limits] | None:
    try:
        page = manager.cluster.pages.rest("/scheduler")
    except PageFailed:
        return None
    return limits_of(page, report.queue, report.user)


def limits_of(page: Any, queue: str, user: str) -> dict[str, Limits] | None:
    """A queue in the REST answer to ``/scheduler``; None if it is not the CapacityScheduler's."""
    root = _dict(_dict(_dict(page).get("scheduler")).get("schedulerInfo"))
    if root.get("type") != "capacityScheduler":
        return None
    leaf = next(
        (one for one in _leaves(root) if queue in (one.get("queuePath"), one.get("queueName"))),
        None,
    )
    if leaf is None:
        return None
    users = each(_dict(leaf.get("users")).get("user"))
    me: Mapping[str, Any] = next((one for one in users if one.get("username") == user), {})
    mine = _by_partition(_dict(me.get("resources")).get("resourceUsagesByPartition"))
    usages = _by_partition(_dict(leaf.get("resources")).get("resourceUsagesByPartition"))
    capacities = _by_partition(_dict(leaf.get("capacities")).get("queueCapacitiesByPartition"))
    factor = float(leaf.get("userLimitFactor", -1))
    found = {}
    for label in capacities:
        capacity, usage, own = capacities[label], usages.get(label, {}), mine.get(label, {})
        guaranteed = size(capacity.get("effectiveMinResource"))
        user_limit = size(usage.get("userAmLimit"))
        found[label] = Limits(
            guaranteed=guaranteed,
            maximum=size(capacity.get("effectiveMaxResource")),
            used=size(usage.get("used")),
            masters=size(usage.get("amUsed")),
            masters_limit=size(usage.get("amLimit")),
            user_masters=size(own.get("amUsed")),
            user_masters_limit=user_limit if user_limit.memory else size(own.get("amLimit")),
            user_used=size(own.get("used")),
            user_limit=_times(guaranteed, factor) if factor >= 0 else None,
        )
    return found


def size(resource: Any) -> Size:
    """A resource in JSON."""
    resource = _dict(resource)
    kinds = each(_dict(resource.get("resourceInformations")).get("resourceInformation"))
    others = {
        one["name"]: int(one.get("value", 0))
        for one in kinds
        if one.get("name") not in (None, "memory-mb", "vcores") and int(one.get("value", 0)) > 0
    }
    if not resource:
        return NOTHING
    return Size(int(resource.get("memory", 0)), int(resource.get("vCores", 0)), others)


def _leaves(queue: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    children = each(_dict(queue.get("queues")).get("queue"))
    if not children:
        yield queue
    for child in children:
        yield from _leaves(child)


def _by_partition(value: Any) -> dict[str, Mapping[str, Any]]:
    return {str(one.get("partitionName") or ""): one for one in each(value)}


def _times(limit: Size, factor: float) -> Size:
    return Size(int(limit.memory * factor), int(limit.vcores * factor))


def _dict(value: Any) -> Mapping[str, Any]:
    """Empty things may be null, or an empty text."""
    return value if isinstance(value, dict) else {}
