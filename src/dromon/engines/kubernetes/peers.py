"""Who is beside a job in its queues and on the nodes, what they hold, what it still wants. Pure:
names and sums over a Situation, for the sentences of ``why`` and ``limits``."""

from __future__ import annotations

from collections.abc import Iterable

from dromon.engines.kubernetes import quantities, room, status
from dromon.engines.kubernetes.room import Shape
from dromon.engines.kubernetes.situation import ROOT, Peer, Queue, Situation

SHOWN = 3  # names in a sentence; all of them are in ``Waiting.holders``


def queue_name(s: Situation) -> str:
    return (s.job.get("spec") or {}).get("queue") or "default"


def line(s: Situation) -> list[Queue]:
    """Its queue and those above it."""
    by_name = {queue.name: queue for queue in s.queues}
    found: list[Queue] = []
    queue = s.queue
    while queue is not None and queue not in found:
        found.append(queue)
        queue = by_name.get(queue.parent)
    return found


def of_queue(s: Situation, queue: Queue) -> list[Peer]:
    """Those that use it, or a queue below it."""
    names, found = {queue.name}, 0
    while len(names) != found:
        found = len(names)
        names |= {one.name for one in s.queues if one.parent in names}
    return [peer for peer in s.peers if peer.queue in names and peer.held]


def used(s: Situation, queue: Queue) -> dict[str, float]:
    """By its pods; by its own count where pods of other namespaces are hidden."""
    if any("pods" in note for note in s.notes):
        return dict(queue.allocated)
    own = (pod.asks for pod in s.pods.values() if pod.is_bound)
    return quantities.total((*(peer.held for peer in of_queue(s, queue)), *own))


def wanted(s: Situation) -> list[Shape]:
    """What has no node yet, of what must be there together."""
    there: dict[str, int] = {}
    for pod in s.pods.values():
        if pod.node or pod.is_over:
            there[pod.role] = there.get(pod.role, 0) + 1
    return [shape for shape in room.shapes(s.job, there) if shape.least]


def all_bound(s: Situation) -> bool:
    return not wanted(s)


def holding(peers: Iterable[Peer], kinds: Iterable[str]) -> list[Peer]:
    """Those that hold some of it, who holds the most of the rarest first."""
    order = sorted(kinds, key=lambda kind: not quantities.is_gpu(kind))
    held = [peer for peer in peers if any(peer.held.get(kind) for kind in order)]
    return sorted(held, key=lambda peer: tuple(-peer.held.get(kind, 0.0) for kind in order))


def on_nodes(s: Situation, nodes: Iterable[str]) -> list[Peer]:
    """Everybody on these nodes, counted with what they hold there."""
    names = set(nodes)
    found = []
    for peer in s.peers:
        here = [held for node, held in peer.nodes.items() if node in names]
        if here:
            found.append(peer._replace(held=quantities.total(here)))
    return found


def names(peers: Iterable[Peer]) -> tuple[str, ...]:
    return tuple(peer.name for peer in peers)


def who(s: Situation, holders: list[Peer], kinds: Iterable[str]) -> str:
    if not holders:
        return ""
    kinds = list(kinds)
    named = [
        f"{peer.name}{_elsewhere_of(s, peer)} {quantities.told(peer.held, kinds)}"
        for peer in holders[:SHOWN]
    ]
    more = [f"{len(holders) - SHOWN} more"] if len(holders) > SHOWN else []
    return f"; held by {', '.join(named + more)}"


def _elsewhere_of(s: Situation, peer: Peer) -> str:
    return f" of namespace {peer.namespace}" if peer.namespace != s.namespace else ""


def ends(s: Situation, holders: list[Peer]) -> tuple[str, ...]:
    if not holders:
        return ()
    names = [peer.name for peer in holders[:SHOWN]]
    return (f"{' or '.join(names)} ends",)


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def ahead(s: Situation) -> list[Peer]:
    """Who waits in the same queue and goes first: by priority, then by age."""
    mine = (-s.priority, status.submitted(s.job), s.job["metadata"]["name"])
    waiting = [
        peer
        for peer in s.peers
        if peer.lives
        and peer.phase == status.PENDING
        and not peer.held
        and peer.queue == queue_name(s)
        and (-peer.priority, peer.created, peer.name) < mine
    ]
    return sorted(waiting, key=lambda peer: (-peer.priority, peer.created, peer.name))


def position(s: Situation) -> int:
    return len(ahead(s)) + 1


def elsewhere(s: Situation) -> tuple[str, ...]:
    """Queues that would take it."""
    asks = room.gang(room.shapes(s.job))
    parents = {queue.parent for queue in s.queues}
    free = [
        queue.name
        for queue in s.queues
        if queue.name not in (queue_name(s), ROOT)
        and queue.name not in parents
        and queue.state == "Open"
        and not quantities.short(
            quantities.total((asks, used(s, queue))), queue.capability, absent=float("inf")
        )
    ]
    return (f"it goes to queue {' or '.join(free[:SHOWN])}",) if free else ()
