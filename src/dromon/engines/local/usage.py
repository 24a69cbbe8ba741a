"""What jobs held and for how long, from the journal: for budgets, decay and the report. Values."""

from collections.abc import Iterable, Iterator, Mapping

from dromon.engines.local.jobs import Job
from dromon.engines.local.journal import Spell
from dromon.sched.asks import Placement

MONTH = 31 * 86400.0  # the longest window of a budget
FADED = 10  # half-lives after which use no longer counts
YEAR = 366 * 86400.0  # as far back as anybody asks for a report
AT_ONCE = float("inf")  # for when a job began to wait: it went on with another size, without


def counts(half_life: float | None) -> float:
    """Seconds after which what was used changes no decision any more."""
    return max(MONTH, FADED * (half_life or 0.0))


def kept(half_life: float | None) -> float:
    """Seconds after which it is forgotten."""
    return max(YEAR, counts(half_life))


def spell(job: Job, user: str, kinds: Mapping[str, str], now: float) -> Spell:
    """What this job has held since it was placed."""
    assert job.placement is not None
    held = amounts(job.placement, kinds)
    queue, priority = job.request["queue"], job.request["priority"]
    return Spell(job.id, job.placed, max(now, job.placed), job.since, user, queue, priority, held)


def amounts(placement: Placement, kinds: Mapping[str, str]) -> dict[str, float]:
    """What a placement comes to; `kinds` says of which kind a device is."""
    found: dict[str, float] = {"cpus": 0.0, "memory": 0.0, "gpus": 0.0}
    for seat in placement.values():
        found["cpus"] += seat.cpus
        found["memory"] += seat.memory or 0
        for device in seat.gpus:
            found["gpus"] += seat.part
            if kind := kinds.get(device):
                found[f"gpus.{kind}"] = found.get(f"gpus.{kind}", 0.0) + seat.part
    return {key: value for key, value in found.items() if value}


def under_way(
    jobs: Iterable[Job], user: str, kinds: Mapping[str, str], now: float
) -> Iterator[Spell]:
    """Those that have not ended yet, as if they ended now."""
    return (spell(job, user, kinds, now) for job in jobs if job.placement is not None)
