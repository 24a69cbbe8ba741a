"""Members above `min` for elastic gangs, from what nobody waits for."""

from typing import Protocol

from dromon.sched.asks import Placement
from dromon.sched.board import placement_of
from dromon.sched.cluster import Cluster
from dromon.sched.decisions import Decision
from dromon.sched.job import RUNNING, Job, Seat
from dromon.sched.place import Turning, now_board, score_one
from dromon.sched.plan import Plan


class Growing(Protocol):
    """What growth needs of a pass that is through."""

    cluster: Cluster
    now: float
    plan: Plan
    turn: Turning
    started: list[tuple[Job, int]]
    decisions: list[Decision]

    def extend(self, job: Job, placement: Placement) -> None: ...


def grow(passage: Growing) -> None:
    """Running gangs first, the oldest first; then those that are only just starting."""
    starting = [job for job, _ in passage.started if job.shape.can_grow]
    fresh = {job.id for job in starting}
    running = [
        job for job in passage.cluster.elastic.values()
        if job.id not in fresh and job.state == RUNNING and not job.going
    ]  # fmt: skip
    running.sort(key=lambda job: job.start)
    for job in (*running, *starting):
        placement = _more(passage, job)
        if placement:
            passage.extend(job, placement)


def _more(passage: Growing, job: Job) -> Placement:
    cluster, plan = passage.cluster, passage.plan
    board = now_board(plan, passage.turn, job)
    seats: list[Seat] = []
    demand: dict[str, int] = {}
    for role in job.shape.roles:
        present = {m for m in job.placement if m.rpartition("-")[0] == role.name}
        apart = {
            cluster.nodes[job.placement[m].node].number for m in present
            if job.placement[m].node in cluster.nodes
        }  # fmt: skip
        for index in range(role.replicas):
            member = f"{role.name}-{index}"
            if member in present:
                continue
            more = {r: demand.get(r, 0) + x for r, x in job.shape.per_member[role.name].items()}
            wanted = {**demand, **more}
            if cluster.accounts.cap(job, passage.now, wanted, 0) is not None:
                break
            if cluster.placer.name == "bestfit":
                seat = board.add(role, member, apart)
            else:
                seat = score_one(plan, passage.turn, job, role, member, apart)
            if seat is None or not plan.respects(job, [*seats, seat], passage.now):
                break
            seats.append(seat)
            demand = wanted
    return placement_of(seats, job.shape, cluster.nodes)
