"""When time alone could change a decision, so that nobody has to ask again and again."""

from collections.abc import Iterator
from math import floor

from dromon.sched.cluster import Cluster
from dromon.sched.job import RUNNING
from dromon.sched.usage import Ledger, window_end


def wakes(cluster: Cluster, now: float) -> float | None:
    """The next such time after now; None: never."""
    own = getattr(cluster.policy, "wakes", None)
    times = [] if own is None else [own(cluster.holders(), now)]
    if cluster.lines:
        times += [*_reservations(cluster), *_budgets(cluster, now), *_protections(cluster),
                  *_aging(cluster, now)]  # fmt: skip
    return min((time for time in times if time is not None and time > now), default=None)


def _reservations(cluster: Cluster) -> Iterator[float]:
    for reservation in cluster.rules.reservations:
        yield reservation.start
        yield reservation.end
        if reservation.release_after is not None:
            yield reservation.start + reservation.release_after


def _budgets(cluster: Cluster, now: float) -> Iterator[float]:
    """What is spent comes back when its window turns; whoever waits behind a job that a budget
    comes to hold need not wait for it."""
    accounts = cluster.accounts
    ledgers: list[Ledger] = [ledger for found in accounts.ledgers.values() for ledger in found]
    for queue in accounts.tree.values():
        ledgers += queue.ledgers
        for member in queue.members.values():
            ledgers += member.ledgers
    for ledger in ledgers:
        if ledger.is_spent(now) or ledger.rate > 0:
            yield min(window_end(now, ledger.per), ledger.spent_at(now))


def _protections(cluster: Cluster) -> Iterator[float]:
    """Somebody who may not be sent away yet will have run long enough."""
    least = cluster.rules.min_run_time
    if least:
        for queue in cluster.accounts.tree.values():
            highest = max(queue.levels, default=None)
            if highest is not None and any(priority < highest for priority in queue.lower):
                for job in queue.jobs.values():
                    if job.state == RUNNING and job.preemptible and job.priority < highest:
                        yield job.started + least


def _aging(cluster: Cluster, now: float) -> Iterator[float]:
    for queue in cluster.accounts.tree.values():
        step = 3600 / queue.rule.aging if queue.rule.aging else 0
        if step and len(queue.levels) > 1:
            for member in queue.members.values():
                for line in member.lines.values():
                    first = line.jobs[0].submitted
                    yield first + step * (floor((now - first) / step) + 1)
