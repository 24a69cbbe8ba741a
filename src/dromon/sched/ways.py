"""What would let a waiting job start: each way is tried, and undone, before it is named."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from dromon.sched import events
from dromon.sched.admit import at_the_door, never, other_queues
from dromon.sched.asks import CPUS, GPUS, MEMORY, RoleAsk, Waiting, Way
from dromon.sched.cluster import Cluster
from dromon.sched.job import QUEUED, Job
from dromon.sched.placement import quantity
from dromon.units import format_duration

TRIED: Final = 3  # holders whose end is tried one by one


def ways_out(cluster: Cluster, job: Job, waiting: Waiting, now: float, seed: int) -> Waiting:
    ways = tuple(_ways(cluster, job, waiting, now, seed))
    return replace(waiting, unblock=tuple(way.text for way in ways), ways=ways)


def _ways(cluster: Cluster, job: Job, waiting: Waiting, now: float, seed: int) -> Iterator[Way]:
    for holder in waiting.holders[:TRIED]:
        if holder in cluster.jobs and starts(cluster, job, now, seed, ended=(holder,)):
            yield Way("stop", holder, f"dromon stop {holder}")
    for way, event in _other_asks(cluster, job, now):
        if starts(cluster, job, now, seed, event):
            yield way
    for way, event in _higher(cluster, job, now):
        if starts(cluster, job, now, seed, event):
            yield way
            break


def _other_asks(
    cluster: Cluster, job: Job, now: float
) -> Iterator[tuple[Way, events.JobSubmitted]]:
    """The same job submitted anew: asking for less, for shorter, elsewhere, or with more weight."""
    event = resubmitted(cluster, job, now)
    for dimension in (GPUS, CPUS, MEMORY):
        asked = max((_amount(role, dimension) for role in job.ask), default=0.0)
        for less in _steps(dimension, asked):
            roles = tuple(_with_at_most(role, dimension, less) for role in job.ask)
            text = f"ask for at most {quantity(dimension, less, job.ask)} per member"
            yield Way(dimension, less, text), replace(event, ask=roles)
    most = max((role.min for role in job.ask), default=0)
    for least in sorted({1, most // 2} - {0, most}, reverse=True):
        roles = tuple(replace(role, min=min(role.min, least)) for role in job.ask)
        text = f"lower `min` to {least}, so that fewer members may begin"
        yield Way("min", least, text), replace(event, ask=roles)
    for seconds in (3600.0, 600.0):
        if job.duration > seconds:
            text = f"ask for a max_duration of {format_duration(seconds)}"
            yield Way("duration", seconds, text), replace(event, max_duration=seconds)
    if not job.preemptible:
        text = "let it give way to others: `preemptible: true`"
        yield Way("preemptible", 1, text), replace(event, preemptible=True)
    for queue in other_queues(cluster, job):
        way = Way("queue", queue.name, f"submit it to queue {queue.name}")
        yield way, replace(event, queue=queue.name)


def _higher(cluster: Cluster, job: Job, now: float) -> Iterator[tuple[Way, events.JobSubmitted]]:
    """The same job in each higher class that is open to everybody, the lowest first."""
    event, classes = resubmitted(cluster, job, now), cluster.rules.priorities
    for each in sorted(classes, key=lambda each: each.value):
        if each.value > job.priority and each.for_all:
            way = Way("priority", each.value, f"submit it with priority {each.name}")
            yield way, replace(event, priority=each.value)
    if not classes:
        higher = max([other.priority for other in cluster.jobs.values()], default=0) + 1
        way = Way("priority", higher, "submit it with a higher priority")
        yield way, replace(event, priority=higher)


def resubmitted(cluster: Cluster, job: Job, now: float) -> events.JobSubmitted:
    """It comes after all others then."""
    seq = 1 + max(other.seq for other in cluster.jobs.values())
    return events.JobSubmitted(
        job.id, seq, now, job.ask, job.priority, job.preemptible, job.user, job.queue,
        job.max_duration, job.stop_grace, None, job.elastic,
    )  # fmt: skip


def starts(
    cluster: Cluster, job: Job, now: float, seed: int,
    instead: events.JobSubmitted | None = None, ended: tuple[str, ...] = (),
) -> bool:  # fmt: skip
    """Would it start at once, had those ended, or had it asked for that instead?"""
    if instead is not None:
        return _would(cluster, job, instead, now, seed)
    gone = [cluster.jobs[id] for id in ended]
    if any(other.state == QUEUED for other in gone):
        for other in gone:
            cluster.accounts.dequeue(other)
        try:
            return _is_started(cluster, job.id, now, seed)
        finally:
            for other in gone:
                cluster.accounts.enqueue(other)
    with_them = [cluster.suspend(other, now) for other in gone]
    try:
        return _is_started(cluster, job.id, now, seed)
    finally:
        for resume in with_them:
            resume()


def _would(cluster: Cluster, job: Job, event: events.JobSubmitted, now: float, seed: int) -> bool:
    other = cluster.make(event)
    cluster.expect(other)
    cluster.accounts.dequeue(job)
    if at_the_door(cluster.accounts, other) is not None or never(cluster, other) is not None:
        cluster.accounts.enqueue(job)
        return False
    cluster.jobs[job.id] = other
    cluster.accounts.enqueue(other)
    promised = cluster.promised.pop(job.id, None)
    try:
        return _is_started(cluster, job.id, now, seed)
    finally:
        cluster.accounts.dequeue(other)
        cluster.accounts.left(other)
        cluster.jobs[job.id] = job
        cluster.accounts.enqueue(job)
        if promised is not None:
            cluster.promised[job.id] = promised


def _is_started(cluster: Cluster, id: str, now: float, seed: int) -> bool:
    from dromon.sched.decide import Start, decide

    found = any(isinstance(d, Start) and d.job == id for d in decide(cluster, now, seed))
    cluster.settle()  # before anything is put back beside what was started on trial
    return found


def _amount(role: RoleAsk, dimension: str) -> float:
    return {GPUS: role.gpus, CPUS: role.cpus, MEMORY: float(role.memory or 0)}[dimension]


def _steps(dimension: str, asked: float) -> list[float]:
    if dimension == GPUS:
        return sorted(
            {float(n) for n in (asked - 1, asked // 2, 1) if 1 <= n < asked}, reverse=True
        )
    return [asked / 2] if asked else []


def _with_at_most(role: RoleAsk, dimension: str, most: float) -> RoleAsk:
    if dimension == GPUS:
        return replace(role, gpus=min(role.gpus, most))
    if dimension == CPUS:
        return replace(role, cpus=min(role.cpus, most))
    return role if role.memory is None else replace(role, memory=min(role.memory, int(most)))
