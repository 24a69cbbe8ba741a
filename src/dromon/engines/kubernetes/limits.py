"""Why a gang is not placed: what its queues may use, and the room there is on nodes. Pure.

Volcano says of most of this nothing, or "not enough resources": the arithmetic is our own. Every
case is a ``(Situation, now) -> Waiting | None``; ``why`` tries them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dromon.engines.base import Waiting
from dromon.engines.kubernetes import peers, quantities, room, stuck
from dromon.engines.kubernetes.room import Fit, Shape
from dromon.engines.kubernetes.situation import Peer, Situation

PATIENCE = 10.0  # seconds until Volcano should have let a job in

# --- limits of queues


def above_capability(s: Situation, now: float) -> Waiting | None:
    """Volcano says nothing of this at all, and lets it wait forever."""
    wanted = peers.wanted(s)
    asks = room.gang(room.shapes(s.job))
    for queue in peers.line(s):
        missing = quantities.short(asks, queue.capability, absent=float("inf"))
        if wanted and missing:
            return Waiting(
                f"it needs {quantities.told(asks, missing)} together and queue {queue.name} may"
                f" never use more than {quantities.told(queue.capability, missing)}",
                "impossible",
                missing=missing,
                unblock=(
                    f"the capability of queue {queue.name} is raised",
                    "the job asks for less",
                    *peers.elsewhere(s),
                ),
            )
    return None


def at_capability(s: Situation, now: float) -> Waiting | None:
    wanted = peers.wanted(s)
    asks = room.gang(wanted)
    for queue in peers.line(s):
        used = peers.used(s, queue)
        missing = quantities.short(
            quantities.total((asks, used)), queue.capability, absent=float("inf")
        )
        missing = {kind: n for kind, n in missing.items() if asks.get(kind)}
        if not missing:
            continue
        holders = peers.holding(peers.of_queue(s, queue), missing)
        return Waiting(
            f"it needs {quantities.told(asks, missing)} and queue {queue.name} uses"
            f" {_has(used, missing)} of the"
            f" {quantities.told(queue.capability, missing)} it may{peers.who(s, holders, missing)}",
            "resources",
            peers.position(s),
            peers.names(holders),
            missing,
            (*peers.ends(s, holders), *peers.elsewhere(s)),
        )
    return None


def guaranteed(s: Situation, now: float) -> Waiting | None:
    """What is free is kept for other queues."""
    if s.nodes is None or s.queue is None:
        return None
    asks = room.gang(peers.wanted(s))
    total = quantities.total(node.total for node in s.nodes if node.is_ready and node.is_open)
    kept = [queue for queue in s.queues if queue.name != s.queue.name and queue.guarantee]
    limit = quantities.less(total, quantities.total(queue.guarantee for queue in kept))
    after = quantities.total((asks, peers.used(s, s.queue)))
    missing = {k: n for k, n in quantities.short(after, limit).items() if asks.get(k)}
    if not missing or not kept:
        return None
    return Waiting(
        f"it needs {quantities.told(asks, missing)}, and what is left is guaranteed to"
        f" {stuck.members([f'queue {queue.name}' for queue in kept])}",
        "resources",
        peers.position(s),
        missing=missing,
        unblock=tuple(f"the guarantee of queue {queue.name} is lowered" for queue in kept[:1]),
    )


# --- room on nodes


def impossible(s: Situation, now: float) -> Waiting | None:
    """Even an empty cluster could not hold it, were all its nodes up."""
    if s.nodes is None or not peers.wanted(s):
        return None
    wanted = room.shapes(s.job)
    nodes = [node._replace(is_ready=True, is_open=True) for node in s.nodes]
    for shape in wanted:
        good = room.suitable(shape, nodes)
        if not good:
            return Waiting(
                f"no node suits {shape.role}: {room.objections(shape, nodes) or 'there is none'}",
                "impossible",
                unblock=("a node gets the label or loses the taint", "the job asks for others"),
            )
        if not any(room.fits_one(shape, node.total) for node in good):
            best = min(good, key=lambda node: _lack(shape, node.total))
            missing = room.lacking(shape, best.total)
            return Waiting(
                f"a pod of {shape.role} needs {quantities.told(shape.asks, missing)} and no node"
                f" has that much; {best.name} has {_has(best.total, missing)}{_others(shape, s)}",
                "impossible",
                missing=missing,
                unblock=("the job asks for less", "a larger node is added"),
            )
    whole = room.fit(wanted, nodes, lambda node: node.total)
    if whole.shape is not None:
        shape = whole.shape
        return Waiting(
            f"it needs {_pods(shape, _scarce(shape, whole))} at once, and the whole cluster has"
            f" room for {whole.placed}{_others(shape, s)}",
            "impossible",
            missing=_times(shape, shape.least - whole.placed),
            unblock=("the job asks for less", "nodes are added"),
        )
    return None


def nodes_down(s: Situation, now: float) -> Waiting | None:
    """It would fit, were the nodes up that are not."""
    if s.nodes is None or not peers.wanted(s):
        return None
    found = room.fit(room.shapes(s.job), s.nodes, lambda node: node.total)
    shape = found.shape
    if shape is None:
        return None
    down = [node for node in s.nodes if not (node.is_ready and node.is_open)]
    names = stuck.members([node.name for node in down])
    return Waiting(
        f"it needs {_pods(shape, _scarce(shape, found))} at once, and the nodes that are up have"
        f" room for {found.placed}{_others(shape, s)}",
        "resources",
        peers.position(s),
        missing=_times(shape, shape.least - found.placed),
        unblock=(f"{names} {'comes' if len(down) == 1 else 'come'} back",),
    )


def _scarce(shape: Shape, found: Fit) -> list[str]:
    """The kinds of which there is not enough; all of them where nodes only cut it badly."""
    whole = quantities.total(found.room.values())
    lacking = quantities.short(quantities.times(shape.asks, shape.least), whole)
    return [kind for kind in shape.asks if kind in lacking] or [*shape.asks]


def no_room(s: Situation, now: float) -> Waiting | None:
    if s.nodes is None:
        return None
    found = room.fit(peers.wanted(s), s.nodes, lambda node: node.free)
    shape = found.shape
    if shape is None:
        return None
    short = {
        name: room.lacking(shape, have)
        for name, have in found.room.items()
        if room.lacking(shape, have)
    }
    nearest = min(short, key=lambda name: _lack(shape, found.room[name])) if short else ""
    missing = short.get(nearest) or _times(shape, shape.least - found.placed)
    kinds = sorted({kind for lack in short.values() for kind in lack} or missing)
    holders = peers.holding(peers.on_nodes(s, short or found.room), kinds)
    return Waiting(
        f"it needs {_pods(shape, kinds)} and {_there(found)}"
        f"{_best(found, nearest, missing)}{peers.who(s, holders, kinds)}{_others(shape, s)}",
        "resources",
        peers.position(s),
        peers.names(holders),
        missing,
        (*_making_room(s), *peers.ends(s, holders), *_preemption(s, holders, now)),
    )


def _there(found: Fit) -> str:
    if not found.placed:
        return "there is room for none"
    return f"there is room for {found.placed}"


def _best(found: Fit, nearest: str, missing: Mapping[str, float]) -> str:
    if not nearest:
        return ""
    have = {kind: found.room[nearest].get(kind, 0.0) for kind in missing}
    return f"; the nearest node, {nearest}, has {quantities.told(have)} free"


def _pods(shape: Shape, kinds: Iterable[str] | None = None) -> str:
    shown = [kind for kind in shape.asks if kind != "pods"]
    if kinds is not None:
        shown = [kind for kind in kinds if kind != "pods"] or shown
    each = " each" if shape.least > 1 else ""
    role = f" of {shape.role}" if shape.role else ""
    return (
        f"{peers.count(shape.least, 'pod')}{role} with {quantities.told(shape.asks, shown)}{each}"
    )


def _has(have: Mapping[str, float], kinds: Iterable[str]) -> str:
    return quantities.told({kind: have.get(kind, 0.0) for kind in kinds})


def _others(shape: Shape, s: Situation) -> str:
    """Nodes that are there and do not count."""
    said = room.objections(shape, s.nodes or ())
    return f" (not counted: {said})" if said else ""


def _lack(shape: Shape, have: Mapping[str, float]) -> float:
    """How far it is from fitting, in parts of what is asked for."""
    missing = room.lacking(shape, have)
    return sum(amount / shape.asks[kind] for kind, amount in missing.items())


def _times(shape: Shape, count: int) -> dict[str, float]:
    return {k: n for k, n in quantities.times(shape.asks, count).items() if k != "pods"}


def _making_room(s: Situation) -> tuple[str, ...]:
    going = [peer.name for peer in s.peers if peer.ending]
    return (f"{stuck.members(going)} is being ended right now",) if going else ()


def _preemption(s: Situation, holders: list[Peer], now: float) -> tuple[str, ...]:
    """Whoever may be preempted, and the trap in which nobody ever is."""
    below = [
        p for p in holders if p.phase and p.priority < s.priority and p.queue == peers.queue_name(s)
    ]
    if not below:
        return ()
    if s.group is not None and s.group.phase == "Pending" and now - s.group.created > PATIENCE:
        return (
            f"its priority is higher than that of {below[0].name}, but Volcano does not preempt"
            " for a job it has not let in (`dromon cluster lint volcano` finds why)",
        )
    return (f"its priority is higher than that of {below[0].name}, which may be preempted for it",)


CASES: tuple[stuck.Case, ...] = (
    impossible,
    above_capability,
    nodes_down,
    at_capability,
    no_room,
    guaranteed,
)
