"""Which cap of a queue a job would break by starting, and what that cap counts.

Knows one queue, its users and amounts; which queues are asked, and what holds in all of them, is
the accounts' to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from dromon.sched.asks import CPUS, GPUS, MEMORY
from dromon.sched.job import Demand, Job
from dromon.sched.queues import Queue
from dromon.sched.rules import ROOT
from dromon.sched.usage import Ledger, window_end
from dromon.units import counted, format_size

JOBS: Final = "jobs"


@dataclass(frozen=True, slots=True)
class Cap:
    """`counts`: a resource or JOBS, of all who run in this queue and those below it (of one user,
    if it names one); "": it is not lifted by anybody's end."""

    text: str
    queue: str = ROOT
    user: str | None = None
    counts: str = ""
    until: float = inf  # a budget begins anew then


def queue_cap(
    queue: Queue, user: str, asked: Demand, now: float, jobs: int, coming: Sequence[Job]
) -> Cap | None:
    rule, name = queue.rule, queue.name
    if not rule.is_open:
        return Cap(f"{_called(queue)} is drained", name)
    if queue.limit:
        over = beyond(queue.limit, with_those(queue.usage, coming), asked)
        if over is not None:
            text = f"{_called(queue)} may have {so_much(over, queue.limit)} at once"
            return Cap(text, name, counts=over)
    running = queue.running + len(coming)
    if jobs and rule.max_running is not None and running + jobs > rule.max_running:
        text = f"{_called(queue)} may run {counted(rule.max_running, 'job')} at once"
        return Cap(text, name, counts=JOBS)
    member = queue.members.get(user)
    coming = [other for other in coming if other.user == user] if coming else coming
    if queue.user_limit:
        usage = with_those(member.usage if member else {}, coming)
        over = beyond(queue.user_limit, usage, asked)
        if over is not None:
            limit = so_much(over, queue.user_limit)
            text = f"{user or 'one user'} may have {limit} at once in {_called(queue)}"
            return Cap(text, name, user, over)
    most = rule.user_max_running
    running = (member.running if member else 0) + len(coming)
    if jobs and most is not None and running + jobs > most:
        text = f"{user or 'one user'} may run {counted(most, 'job')} at once in {_called(queue)}"
        return Cap(text, name, user, JOBS)
    if GPUS in asked:
        for ledger in queue.ledgers:
            if ledger.is_spent(now):
                return spent(_called(queue), ledger, now)
        for ledger in member.ledgers if member else ():
            if ledger.is_spent(now):
                return spent(user or "this user", ledger, now, f" in {_called(queue)}")
    return None


def spent(who: str, ledger: Ledger, now: float, where: str = "") -> Cap:
    hours = counted(ledger.limit / 3_600_000, "GPU-hour")
    text = f"{who} has used its {hours} of this {ledger.per}{where}"
    return Cap(text, until=window_end(now, ledger.per) if ledger.limit else inf)


def beyond(limit: dict[str, float], usage: Demand, asked: Demand) -> str | None:
    """The first resource of which so much more would be too much."""
    for resource, most in limit.items():
        more = asked.get(resource)
        if more and usage.get(resource, 0) + more > most:
            return resource
    return None


def over_limit(limit: dict[str, float], usage: Demand, asked: Demand) -> str | None:
    """The same, in words: how much there may be of it."""
    resource = beyond(limit, usage, asked)
    return None if resource is None else so_much(resource, limit)


def so_much(resource: str, of: dict[str, float]) -> str:
    if resource == MEMORY:
        return f"{format_size(of[resource])} of memory"
    return counted(of[resource] / 1000, word(resource))


def word(resource: str) -> str:
    """Of one of it."""
    if resource == CPUS:
        return "CPU"
    return "GPU" if resource == GPUS else f"{resource[5:]} GPU"


def with_those(usage: Demand, coming: Sequence[Job]) -> Demand:
    if not coming:
        return usage
    usage = dict(usage)
    for job in coming:
        add_to(usage, job.shape.demand, 1)
    return usage


def add_to(sums: Demand, more: Demand, sign: int) -> None:
    for resource, amount in more.items():
        sums[resource] = sums.get(resource, 0) + sign * amount


def _called(queue: Queue) -> str:
    return "the cluster" if queue.name == ROOT else f"queue {queue.name}"
