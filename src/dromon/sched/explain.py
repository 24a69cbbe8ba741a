"""Why one job waits, in a sentence and as data. Asked for one job; never run over the queue."""

from dromon.sched.asks import GPUS, Refusal, Waiting
from dromon.sched.cluster import QUEUED, STOPPING, Cluster, Job
from dromon.sched.decide import Look, walk
from dromon.sched.placement import available, figure, lacking, needs, quantity
from dromon.sched.preempt import make_room

SHOWN = 3  # names in a sentence; the data has all


def explain(cluster: Cluster, id: str, now: float, seed: int = 0) -> Waiting:
    job = cluster.jobs.get(id)
    if job is None:
        return Waiting(f"no job {id} is known here", "unknown")
    if job.state != QUEUED:
        word = "stopping" if job.state == STOPPING else "running"
        return Waiting(f"it is {word}", word)
    position = cluster.position(id)
    is_first_blocked = True
    for look in walk(cluster, seed):
        if look.job.id != id and not look.closed & job.uses:
            is_first_blocked = is_first_blocked and not look.is_blocked
        elif look.placement is not None:
            return Waiting("it is about to start", "about to start", position)
        elif look.refusal is not None:
            return _impossible(look.refusal)
        elif look.job.id != id:
            return _behind(cluster, job, look, position)
        else:
            victims = make_room(cluster, look.trial, job) if is_first_blocked else []
            return _short(cluster, look, position, tuple(victim.id for victim in victims))
    return Waiting("no node is there yet", "resources", position)


def _impossible(refusal: Refusal) -> Waiting:
    return Waiting(
        f"it can never run here: {refusal}",
        "impossible",
        unblock=("ask for less, or run it where there is more",),
    )


def _behind(cluster: Cluster, job: Job, ahead: Look, position: int | None) -> Waiting:
    """It may not pass a blocked job."""
    other = ahead.job
    first = _short(cluster, ahead, None, ())
    why = "came first" if other.priority == job.priority else "has a higher priority"
    return Waiting(
        sentence=f"{_place(position)}behind {other.id}, which {why} and {first.sentence}",
        reason="order",
        position=position,
        holders=(other.id, *first.holders),
        unblock=(f"dromon stop {other.id}", "submit it with a higher priority"),
    )


def _short(cluster: Cluster, look: Look, position: int | None, victims: tuple[str, ...]) -> Waiting:
    """What a job that does not fit is short of, and who has that."""
    job = look.job
    short = sorted(lacking(look.trial, job))
    needed, free = needs(job.ask), available(look.trial, job.ask)
    missing = {d: needed[d] - free[d] for d in short if needed[d] > free[d]}
    parts = [f"{quantity(d, needed[d], job.ask)} ({figure(d, free[d])} free)" for d in short]
    holders = _holders(cluster, job, set(short))
    outside = _outside(cluster) if GPUS in short else ()
    sentence = f"{_place(position)}waits for {' and '.join(parts)}"
    if not missing:
        sentence += ", which are free but not together"
    if victims:
        sentence += f"; {_names(victims)} will give way to it"
    elif holders or outside:
        sentence += f"; held by {_names((*holders, *outside))}"
    unblock = _unblock(job, holders, short, free)
    return Waiting(sentence, "resources", position, holders, missing, unblock)


def _holders(cluster: Cluster, job: Job, short: set[str]) -> tuple[str, ...]:
    """Jobs with shares of what is short, on nodes that this job could use; the last to start
    first, for they are likely to go on longest."""
    labels = {role.node_label for role in job.ask}
    useful = {n.name for n in cluster.nodes.values() if None in labels or labels & n.labels}
    found = [
        other
        for other in cluster.running()
        if other.uses & short and any(s.node in useful for s in other.placement.values())
    ]
    return tuple(other.id for other in sorted(found, key=lambda other: -other.start))


def _outside(cluster: Cluster) -> tuple[str, ...]:
    """Who holds devices without being one of our jobs."""
    return tuple(
        f"{by or 'somebody'} (GPU {device} of {node.name})"
        for node in cluster.nodes.values()
        for device, by in sorted(node.held.items())
    )


def _unblock(
    job: Job, holders: tuple[str, ...], short: list[str], free: dict[str, float]
) -> tuple[str, ...]:
    ways = [f"dromon stop {holder}" for holder in holders[:SHOWN]]
    members = sum(role.min for role in job.ask)
    for dimension in short:
        left = free[dimension] / max(1, members)
        if dimension == GPUS:
            left = left // 1
        if left > 0:
            ways.append(f"ask for at most {quantity(dimension, left, job.ask)} per member")
    if any(role.min > 1 for role in job.ask):
        ways.append("lower `min`, so that fewer members may begin")
    return tuple(ways)


def _place(position: int | None) -> str:
    return f"number {position} in the queue, " if position is not None else ""


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
