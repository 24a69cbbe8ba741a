"""The scheduler again: slow, and meant to be seen to be right. Lists and sorted(); whatever can be
worked out is worked out anew.

Takes the events that `dromon.sched.cluster.Cluster` takes and gives the decisions that `decide`
gives. It shares values with it (asks, events, decisions, rules) and no line that decides. Here is
what is known; `books` says who may have how much, `room` where and when there is room, `round`
decides.

Left out, and in no scenario that `scenarios.comparable` gives:
- members above `min`: `checks` (`gang_is_whole`, `stays_at_min`, `caps_hold`) and the property
  `nobody_goes_in_vain` say what holds of them, `test_decide` and `test_queues` in which order;
- reservations: `checks.what_is_reserved_stays_free`, `everybody_gets_a_turn`, `test_reserved`;
- the past: of budgets `checks.caps_hold` and `everybody_gets_a_turn`, of `half_life`
  `test_usage_past`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from dromon.sched import events
from dromon.sched.asks import Ask, Placement
from dromon.sched.rules import ROOT, QueueRule, Rules, UserRule
from reference.room import empty, place

QUEUED, RUNNING, STOPPING = "queued", "running", "stopping"
Amounts = Counter  # so much of each resource; of what is not named, nothing


def amounts(ask: Ask, members: Iterable[str]) -> Amounts:
    """What these members ask for. A kind of GPU counts where it is asked for."""
    sum = Amounts()
    for member in members:
        role = next(r for r in ask if r.role == member.rpartition("-")[0])
        sum.update({"cpus": role.cpus, "memory": role.memory or 0, "gpus": role.gpus})
        if role.gpu_kind is not None:
            sum[f"gpus.{role.gpu_kind}"] += role.gpus
    return sum


def over(used: Amounts, most: Any, asked: Amounts) -> bool:
    """Whether it is too much of anything that is asked for."""
    return any(used[r] > limit + 1e-9 for r, limit in most.items() if asked[r])


def most(limit: float | None) -> float:
    return inf if limit is None else limit


@dataclass(eq=False)
class Job:
    told: events.JobSubmitted
    is_turned_away: bool  # judged when it was submitted
    state: str = QUEUED
    placement: Placement = field(default_factory=dict)
    since: float = 0.0
    number: int = 0  # a later start has a higher one
    saved: float = -inf  # the last checkpoint
    stop_at: float = inf
    is_favoured: bool = False  # room is being made for it
    gave_way_to: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.told, name)

    @property
    def demand(self) -> Amounts:
        return amounts(self.ask, [m for role in self.ask for m in role.members(0, role.min)])


class Slow:
    def __init__(self) -> None:
        self.rules = Rules()
        self.nodes: dict[str, events.NodeJoined] = {}
        self.drained: set[str] = set()
        self.outside: set[tuple[str, str]] = set()  # devices that others have
        self.jobs: dict[str, Job] = {}
        self.starts = 0

    def apply(self, event: Any) -> None:
        match event:
            case events.NodeJoined():
                self.nodes[event.name] = event
            case events.NodeLeft(name=name):
                self.nodes.pop(name, None)
                self.drained.discard(name)
                self.outside = {spot for spot in self.outside if spot[0] != name}
            case events.NodeDrained():
                self.drained |= {event.name} & self.nodes.keys()
            case events.NodeOpened():
                self.drained.discard(event.name)
            case events.GpuHeld():
                self.outside |= {(event.node, event.device)} if event.node in self.nodes else set()
            case events.GpuFreed():
                self.outside.discard((event.node, event.device))
            case events.RulesChanged():
                self.rules = event.rules
            case events.JobSubmitted():
                self.jobs[event.id] = Job(event, self.turns_away(event))
            case _:
                self.job_event(self.jobs[event.id], event)

    def job_event(self, job: Job, event: Any) -> None:
        match event:
            case events.JobStarted():
                self.starts += 1
                job.state, job.number, job.since = RUNNING, self.starts, event.time
                job.placement, job.is_favoured = event.placement, False
            case events.JobStopping():
                job.state, job.stop_at = STOPPING, event.time + job.stop_grace
                job.gave_way_to.add(event.for_job)
                self.jobs[event.for_job].is_favoured = True
            case events.JobReleased():
                job.state, job.placement = QUEUED, {}
            case events.JobEnded():
                del self.jobs[job.id]
            case events.JobCheckpointed():
                job.saved = event.time

    def waiting(self) -> list[Job]:
        return [j for j in self.jobs.values() if j.state == QUEUED and not self.refuses(j)]

    def placed(self) -> list[Job]:
        return [j for j in self.jobs.values() if j.state != QUEUED]

    def queue(self, name: str) -> QueueRule:
        return next((q for q in self.rules.queues if q.name == name), QueueRule(name))

    def user(self, name: str) -> UserRule:
        return next((u for u in self.rules.users if u.name == name), UserRule(name))

    def path(self, name: str) -> list[QueueRule]:
        """From this queue up, without root."""
        rule = self.queue(name)
        return [rule] if rule.parent == ROOT else [rule, *self.path(rule.parent)]

    def is_in(self, job: Any, queue: str) -> bool:
        return queue in (ROOT, *(rule.name for rule in self.path(job.queue)))

    def children(self, name: str) -> list[QueueRule]:
        """Where there are no rules, root has the queues that jobs name."""
        known = [q for q in self.rules.queues if q.parent == name]
        names = {q.name for q in self.rules.queues}  # if any, who waits in another is refused
        theirs = {j.queue for j in self.jobs.values() if not names or j.state != QUEUED}
        return known + [QueueRule(q) for q in sorted(theirs - names) if name == ROOT]

    def duration(self, job: Job) -> float:
        """As long as it may run: what it said, or what its queue allows."""
        longest = [q.max_duration for q in self.path(job.queue) if q.max_duration is not None]
        return min(longest, default=inf) if job.max_duration is None else job.max_duration

    def turns_away(self, job: events.JobSubmitted) -> bool:
        """At the door: its queue, or one above, is closed or full."""
        waiting = self.waiting()
        for rule in self.path(job.queue):
            there = [j for j in waiting if self.is_in(j, rule.name)]
            mine = [j for j in there if j.user == job.user]
            is_full = len(there) >= most(rule.max_queued)
            if not rule.is_open or is_full or len(mine) >= most(rule.user_max_queued):
                return True
        return False

    def refuses(self, job: Job) -> bool:
        """Rule 1: it can never run."""
        queues, need = self.rules.queues, job.demand
        return (
            job.is_turned_away
            or (bool(queues) and job.queue not in [q.name for q in queues])
            or any(q.parent == job.queue for q in queues)
            or over(need, self.user(job.user).limit, need)
            or any(role.gpus > 1 and role.gpus != int(role.gpus) for role in job.ask)
            or (bool(self.nodes) and place(empty(self.nodes), job.ask) is None)
            or any(
                over(need, rule.limit, need)
                or over(need, rule.user_limit, need)
                or (job.max_duration or 0.0) > most(rule.max_duration)
                or not (rule.non_preemptible or job.preemptible)
                for rule in self.path(job.queue)
            )
        )
