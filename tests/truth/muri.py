"""Muri's own model of time, and its order of Tiresias, plugged into `sim` through its public hooks.

What its published figures rest on: work is iterations x iteration time x 1.015; at every event each
running job pays for a start, whether it was restarted or not, but its end is foreseen without that;
ends that lie within a billionth of each other are one event (not so for Tiresias).
"""

from collections.abc import Iterator
from math import ceil

from dromon.sched.cluster import Cluster
from dromon.sched.job import RUNNING, Job
from dromon.sched.policies import REPACK
from dromon.sim import TraceJob

MODELS = ("vgg16", "vgg19", "resnet18", "shufflenet_v2_x1_0", "bert", "gpt2", "a2c", "dqn")
SECONDS = {  # GPUs -> what a start of each model costs
    1: (7, 7, 4, 4, 10, 10, 38, 5),
    2: (7, 7, 5, 4, 10, 10, 39, 5),
    4: (8, 8, 5, 5, 10, 10, 39, 6),
    8: (9, 9, 7, 5, 10, 10, 46, 6),
    16: (9, 10, 7, 7, 10, 10, 46, 8),
    32: (10, 10, 7, 8, 10, 10, 46, 8),
}
STARTS = {(gpus, m): s for gpus, row in SECONDS.items() for m, s in zip(MODELS, row, strict=True)}
UNKNOWN = 10


class MuriCosts:
    every_event = True

    def __init__(self, together: float = 1e-9) -> None:
        self.together = together
        self.left: dict[str, float] = {}  # job -> work left, where it has run

    def work(self, job: TraceJob) -> float:
        return job.duration * 1.015

    def span(self, job: TraceJob, left: float) -> float:
        return left

    def done(self, job: TraceJob, span: float) -> float:
        done = max(span - STARTS.get((int(job.gpus), job.model), UNKNOWN), 0.0)
        self.left[job.id] = self.left.get(job.id, self.work(job)) - done
        return done


class MuriShortest:
    """SRTF, or SRSF with `by_service`: it knows what work is left, starts paid for."""

    preemption, is_fair, changes_in_time, backfills = REPACK, False, True, False

    def __init__(self, costs: MuriCosts, by_service: bool) -> None:
        self.name = "srsf" if by_service else "srtf"
        self._left = costs.left
        self._by_service = by_service

    def key(self, job: Job, now: float) -> tuple[float, ...]:
        left = self._left.get(job.id, job.duration)
        return (left * job.gpus if self._by_service else left,)


class MuriTiresias:
    """Three queues by GPU-seconds; who waits goes to its queue's tail after each event; a job goes
    down one queue at an event at which it has had its limit, and never comes up."""

    name, preemption, is_fair, changes_in_time, backfills = "tiresias", REPACK, False, True, False
    limits = (3250, 7200)

    def __init__(self) -> None:
        self.queues: list[list[str]] = [[], [], []]
        self.level: dict[str, int] = {}
        self.executed: dict[str, float] = {}
        self.last = 0.0

    def key(self, job: Job, now: float) -> tuple[float, ...]:
        raise AssertionError("it ranks by itself")

    def rank(self, cluster: Cluster, now: float) -> Iterator[Job]:
        jobs = cluster.jobs
        for number, queue in enumerate(self.queues):
            there = [id for id in queue if id in jobs]
            runs = [id for id in there if jobs[id].state == RUNNING]
            self.queues[number] = runs + [id for id in there if jobs[id].state != RUNNING]
        for job in sorted(cluster.holders(), key=lambda job: job.seq):
            self._age(job, now - self.last)
        for id in sorted(jobs.keys() - self.level.keys(), key=int):
            self.level[id], self.executed[id] = 0, 0.0
            self.queues[0].append(id)
        self.last = now
        return (jobs[id] for queue in self.queues for id in queue)

    def _age(self, job: Job, span: float) -> None:
        self.executed[job.id] += span
        level = self.level[job.id]
        if level < 2 and self.executed[job.id] * job.gpus >= self.limits[level]:
            self.queues[level].remove(job.id)
            self.queues[level + 1].append(job.id)
            self.level[job.id] = level + 1

    def wakes(self, running: list[Job], now: float) -> float | None:
        """The next time somebody has had his limit; whole seconds, as it is written there."""
        return min(
            (
                ceil(self.limits[self.level[job.id]] / job.gpus) - self.executed[job.id] + now
                for job in running
                if self.level[job.id] < 2
            ),
            default=None,
        )
