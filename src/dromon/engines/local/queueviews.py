"""The queues as they stand, as plain data: what each may have, has, and who has it. Reads only."""

from collections.abc import Iterator, Mapping
from typing import Any

from dromon.sched.cluster import Cluster
from dromon.sched.queues import Queue
from dromon.sched.rules import ROOT

View = dict[str, Any]


def views(cluster: Cluster, now: float) -> list[View]:
    """Parents before their children, else by name; the first is "root", all there is, and has
    "total", with what is drained. Where nobody names queues, `default` is there, if empty."""
    root, *others = (_view(queue, now) for queue in _in_order(cluster.accounts.tree[ROOT]))
    return [{**root, "total": _total(cluster)}, *(others or [{**root, **_DEFAULT}])]


_DEFAULT = {"name": "default", "parent": ROOT}


def _total(cluster: Cluster) -> dict[str, float]:
    nodes = [node.total for node in cluster.nodes.values()]
    return {
        "cpus": sum(node.cpus for node in nodes) / 1000,
        "memory": sum(node.memory for node in nodes),
        "gpus": sum(len(node.gpus) for node in nodes),
    }


def _in_order(queue: Queue) -> Iterator[Queue]:
    yield queue
    for _, child in sorted(queue.children.items()):
        yield from _in_order(child)


def _view(queue: Queue, now: float) -> View:
    rule = queue.rule
    members = sorted(queue.members.values(), key=lambda member: member.name)
    return {
        "name": queue.name,
        "parent": queue.parent.name if queue.parent is not None else None,
        "open": rule.is_open,
        "weight": rule.weight,
        "deserved": plain(queue.deserved),
        "limit": dict(rule.limit),
        "guarantee": dict(rule.guarantee),
        "usage": plain(queue.usage),
        "share": _finite(queue.own_share(now)),
        "running": queue.running,
        "queued": queue.queued,
        "users": [
            {
                "name": member.name,
                "usage": plain(member.usage),
                "share": _finite(queue.user_share(member, now)),
                "running": member.running,
                "queued": member.queued,
            }
            for member in members
            if queue.is_leaf and (member.running or member.queued)
        ],
    }


def plain(amounts: Mapping[str, float]) -> dict[str, float]:
    """The scheduler counts in thousandths, but for memory; nobody else does."""
    return {r: v if r == "memory" else v / 1000 for r, v in amounts.items() if v}


def _finite(share: float) -> float | None:
    """None: it is owed nothing and has something."""
    return None if share == float("inf") else share
