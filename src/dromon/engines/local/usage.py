"""What jobs held and for how long, from the journal: for budgets, decay and the report. Values."""

from collections.abc import Iterable, Iterator, Mapping

from dromon.engines.local.jobs import Job
from dromon.engines.local.journal import Spell
from dromon.sched.asks import Placement


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
