"""Why one job waits, in a sentence and as data. Asked for one job; never run over the queue."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final

from dromon.sched.asks import GPUS, Waiting
from dromon.sched.board import State
from dromon.sched.caps import JOBS, Cap
from dromon.sched.cluster import QUEUED, STOPPING, Cluster, Job
from dromon.sched.decide import Pass
from dromon.sched.look import Look
from dromon.sched.placement import available, figure, needs, quantity
from dromon.sched.plan import Plan
from dromon.sched.preempt import lacking
from dromon.sched.ways import ways_out
from dromon.units import counted

SHOWN: Final = 3  # names in a sentence; the data has all


def explain(cluster: Cluster, id: str, now: float, seed: int = 0) -> Waiting:
    job = cluster.jobs.get(id)
    if job is None:
        return Waiting(f"no job {id} is known here", "unknown")
    if job.state != QUEUED:
        word = "stopping" if job.state == STOPPING else "running"
        return Waiting(f"it is {word}", word)
    cluster.review()
    position = cluster.position(id, now)
    if not cluster.nodes:
        return Waiting("no node is there yet", "resources", position)
    if id in cluster.refused:
        return _impossible(cluster.refused[id])
    passage = Pass(cluster, now, seed, sought=id)
    try:
        passage.run()
        look = passage.look_found
        if look is None:  # its line was passed over as a whole
            passage.look(job, passage.order.walk(cluster.accounts.tree[job.queue]))
            look = passage.look_found
        assert look is not None
        found = _tell(passage, look, position)
    finally:
        passage.undo()
    if found.start is not None and look.cap is not None:
        start = lifted(cluster, job, now)
        likely = None if start is None else max(start, found.start)
        found = replace(found, start=likely, sure="unknown" if likely is None else "likely")
    if found.reason in ("resources", "order", "reservation", "cap"):
        return ways_out(cluster, job, found, now, seed)
    return found


def _impossible(why: str) -> Waiting:
    return Waiting(
        f"it can never run here: {why}",
        "impossible",
        unblock=("ask for less, or run it where there is more",),
    )


def _tell(passage: Pass, look: Look, position: int | None) -> Waiting:
    job = look.job
    if look.found == "starts":
        return Waiting("it is about to start", "about to start", position, start=passage.now,
                       sure="planned")  # fmt: skip
    if look.cap is not None:
        return _held(passage, job, look.cap, position)
    ahead = _in_the_way(passage, look)
    if ahead is not None:
        return _behind(passage, job, ahead, position, look)
    return _short(passage, look, position)


def _held(passage: Pass, job: Job, cap: Cap, position: int | None) -> Waiting:
    """`start`: when there would be room for it, were there no cap."""
    holders = _named(_counted(passage.cluster, cap))
    sentence = f"{_place(position)}held: {cap.text}"
    if holders:
        sentence += f"; taken up by {_names(holders)}"
    found = None if passage.plan.closed & job.uses else passage.plan.earliest(job)
    start = None if found is None else found[0]
    return Waiting(sentence, "cap", position, holders, start=start)


def _counted(cluster: Cluster, cap: Cap) -> list[Job]:
    """Those that a cap counts."""
    if not cap.counts:
        return []
    return [
        job for job in cluster.holders()
        if cap.user in (None, job.user) and (cap.counts == JOBS or cap.counts in job.held)
        and any(queue.name == cap.queue for queue in cluster.accounts.tree[job.queue].path)
    ]  # fmt: skip


def lifted(cluster: Cluster, job: Job, now: float) -> float | None:
    """When no cap holds it any more, with those that run ending as expected; None: nobody knows."""
    at, resumes = now, list[Callable[[], None]]()
    try:
        while (cap := cluster.accounts.cap(job, at)) is not None:
            if at < cap.until < inf:
                at = cap.until
                continue
            other = min(_counted(cluster, cap), key=lambda each: each.end, default=None)
            if other is None or other.end == inf:
                return None
            at = max(at, other.end)
            resumes.append(cluster.suspend(other, now))
        return at
    finally:
        for resume in reversed(resumes):
            resume()


def _in_the_way(passage: Pass, look: Look) -> Job | None:
    """The first blocked job ahead that keeps what this one could have."""
    for other in look.ahead:
        if look.found == "closed" and other.uses & look.job.uses:
            return other
    if not look.ahead or look.job.uses.isdisjoint(u for o in look.ahead for u in o.uses):
        return None
    alone = Plan(passage.cluster, passage.now, passage.turn)
    from dromon.sched.place import place_now

    if place_now(alone, passage.turn, look.job) is not None:
        for other in look.ahead:
            if other.uses & look.job.uses:
                return other
    return None


def _behind(passage: Pass, job: Job, other: Job, position: int | None, look: Look) -> Waiting:
    """It may not pass a blocked job."""
    first = _short(passage, Look(other, "blocked"), None)
    if other.queue != job.queue:
        why = f"is of queue {other.queue}, which is owed more,"
    else:
        why = "came first" if other.priority == job.priority else "has a higher priority"
    start, sure = _estimate(passage, look)
    return Waiting(
        sentence=f"{_place(position)}behind {other.id}, which {why} and {first.sentence}",
        reason="order",
        position=position,
        holders=(other.id, *first.holders),
        missing={},
        start=start,
        sure=sure,
    )


def _short(passage: Pass, look: Look, position: int | None) -> Waiting:
    """What a job that does not fit is short of, and who has that."""
    job, cluster = look.job, passage.cluster
    plan = Plan(cluster, passage.now, passage.turn)
    reservation = None
    if plan.reservations:
        from dromon.sched.place import now_board

        seats = now_board(plan, passage.turn, job).place(job.shape)
        if seats is not None:
            reservation = plan.in_the_way(job, seats, passage.now)
    start, sure = _estimate(passage, look)
    if reservation is not None:
        gpus = counted(reservation.gpus, "GPU")
        text = f"{_place(position)}waits for reservation {reservation.id} of {gpus}"
        return Waiting(text, "reservation", position, start=start, sure=sure)
    short = sorted(lacking(plan, job))
    needed = needs(job.ask)
    free = available(cluster, job.ask, State.of)
    missing = {d: needed[d] - free[d] for d in short if needed[d] > free[d]}
    parts = [f"{quantity(d, needed[d], job.ask)} ({figure(d, free[d])} free)" for d in short]
    holders = _holders(cluster, job, set(short))
    outside = _outside(cluster) if GPUS in short else ()
    sentence = f"{_place(position)}waits for {' and '.join(parts)}"
    if not missing:
        sentence += ", which are free but not together"
    if look.victims:
        sentence += f"; {_names(look.victims)} will give way to it"
    elif holders or outside:
        sentence += f"; held by {_names((*holders, *outside))}"
    return Waiting(sentence, "resources", position, holders, missing, start=start, sure=sure)


def _estimate(passage: Pass, look: Look) -> tuple[float | None, str]:
    """When it is likely to start. What is planned, nobody can delay but by overrunning."""
    if look.planned is not None and look.planned < inf:
        return look.planned, "planned"
    job, plan = look.job, passage.plan
    if look.found != "blocked" or plan.closed & job.uses:
        return None, "unknown"
    found = plan.earliest(job)
    return (None, "unknown") if found is None else (found[0], "likely")


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
    return _named(found)


def _named(jobs: list[Job]) -> tuple[str, ...]:
    return tuple([job.id for job in sorted(jobs, key=lambda job: -job.start)])


def _outside(cluster: Cluster) -> tuple[str, ...]:
    """Who holds devices without being one of our jobs."""
    return tuple(
        f"{by or 'somebody'} (GPU {device} of {node.name})"
        for node in cluster.nodes.values()
        for device, by in sorted(node.held.items())
    )


def _place(position: int | None) -> str:
    return f"number {position} in the queue, " if position is not None else ""


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
