"""Who goes before all others because GPUs are reserved for it now: what is reserved is used by
its owner first, whatever is planned for afterwards. What others may not have is in `plan`."""

from collections.abc import Iterator

from dromon.sched.asks import GPUS
from dromon.sched.cluster import Cluster
from dromon.sched.job import Job
from dromon.sched.plan import NOBODY, Plan
from dromon.sched.rules import Reservation


def owners(cluster: Cluster, plan: Plan, seen: set[str]) -> Iterator[Job]:
    """Waiting jobs that fit into what is left of their reservation: the highest class first, then
    in submit order. What is left is asked for anew each time, for the last one may have started."""
    under_way = [r for r in plan.reservations if r.start <= plan.now]
    while under_way:
        best: Job | None = None
        left = [r.gpus * 1000 - 1000 * plan.in_use(r, plan.now, NOBODY) for r in under_way]
        for line in cluster.lines.values():
            job = next((job for job in line.jobs if job.id not in seen), None)
            if job is None or (best is not None and best < job):
                continue
            if any(
                0 < job.shape.demand.get(GPUS, 0) <= free and _is_for(cluster, r, job)
                for r, free in zip(under_way, left, strict=True)
            ):
                best = job
        if best is None:
            return
        seen.add(best.id)
        yield best


def _is_for(cluster: Cluster, reservation: Reservation, job: Job) -> bool:
    kind = reservation.kind
    return cluster.is_reserved_for(reservation, job) and all(
        kind in (None, role.kind) for role in job.shape.roles if role.gpus or role.part
    )
