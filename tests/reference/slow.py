"""The scheduler again: slow, and meant to be seen to be right. Lists and sorted(), no index.

Takes the events that `dromon.sched.cluster.Cluster` takes and gives the decisions that `decide`
gives. It shares values with it (asks, events, decisions, rules) and no line that decides. Here is
what is known and what follows from it at once; `round` decides, `room` knows nodes and time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from math import inf, isinf
from typing import Any

from dromon.sched import events
from dromon.sched.asks import Ask, Placement
from dromon.sched.rules import ROOT, QueueRule, Rules, UserRule

QUEUED, RUNNING, STOPPING = "queued", "running", "stopping"
DAY = 86400.0


class TooClose(Exception):
    """Two shares differ by less than sums of floats can be trusted for."""


class Amounts(dict[str, float]):
    """So much of each resource; of what is not named, nothing."""

    def __missing__(self, resource: str) -> float:
        return 0.0

    def plus(self, other: Mapping[str, float], sign: float = 1) -> "Amounts":
        return Amounts({r: self[r] + sign * other.get(r, 0.0) for r in {*self, *other}})

    def breaks(self, limit: Mapping[str, float], asked: Mapping[str, float]) -> bool:
        """Whether it is over the limit in anything that is asked for."""
        return any(self[r] > most + 1e-9 for r, most in limit.items() if asked.get(r))


def amounts(ask: Ask, members: Iterable[str]) -> Amounts:
    """What these members ask for. A kind of GPU counts where it is asked for."""
    return _amounts(ask, tuple(members))


@lru_cache(maxsize=10_000)
def _amounts(ask: Ask, members: tuple[str, ...]) -> Amounts:
    thousandths = Amounts()
    for member in members:
        role = next(r for r in ask if r.role == member.rpartition("-")[0])
        one = {"cpus": round(role.cpus * 1000), "memory": (role.memory or 0) * 1000}
        one["gpus"] = round(role.gpus * 1000)
        if role.gpu_kind is not None:
            one[f"gpus.{role.gpu_kind}"] = one["gpus"]
        thousandths = thousandths.plus(one)
    return Amounts({r: of / 1000 for r, of in thousandths.items()})


def least_members(ask: Ask) -> list[str]:
    return [member for role in ask for member in role.members(0, role.min)]


@dataclass
class Job:
    told: events.JobSubmitted
    refusal: str | None = None  # judged when it was submitted
    state: str = QUEUED
    placement: Placement = field(default_factory=dict)
    since: float = 0.0
    number: int = 0  # a later start has a higher one
    saved: float = -inf  # the last checkpoint
    stop_at: float = inf
    leaving: set[str] = field(default_factory=set)  # members asked to go
    is_favoured: bool = False  # room is being made for it
    gave_way_to: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.told, name)

    @property
    def demand(self) -> Amounts:
        return amounts(self.ask, least_members(self.ask))


@dataclass
class Stay:
    """What a job held from one time to another, for budgets and for past usage."""

    job: Job
    amounts: Amounts
    begin: float
    end: float = inf


class Slow:
    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.nodes: dict[str, events.NodeJoined] = {}
        self.drained: set[str] = set()
        self.outside: set[tuple[str, str]] = set()
        self.jobs: dict[str, Job] = {}
        self.stays: list[Stay] = []
        self.starts = 0

    # ---- events ---------------------------------------------------------------------------------

    def apply(self, event: Any) -> None:
        match event:
            case events.NodeJoined(name=name):
                self.nodes[name] = event
            case events.NodeLeft(name=name):
                self.nodes.pop(name, None)
                self.drained.discard(name)
                self.outside = {spot for spot in self.outside if spot[0] != name}
            case events.NodeDrained(name=name):
                self.drained |= {name} & self.nodes.keys()
            case events.NodeOpened(name=name):
                self.drained.discard(name)
            case events.GpuHeld(node=node, device=device):
                if node in self.nodes:
                    self.outside.add((node, device))
            case events.GpuFreed(node=node, device=device):
                self.outside.discard((node, device))
            case events.RulesChanged(rules=rules):
                self.rules = rules
            case events.JobSubmitted(id=id):
                if id not in self.jobs:
                    job = self.jobs[id] = Job(event)
                    job.saved = -inf if event.checkpointed is None else event.checkpointed
                    job.refusal = None if event.accepted else self.turned_away(job)
            case _:
                if event.id in self.jobs:
                    self.job_event(self.jobs[event.id], event)

    def job_event(self, job: Job, event: Any) -> None:
        match event:
            case events.JobStarted() if job.state == QUEUED:
                self.starts += 1
                job.state, job.number, job.since = RUNNING, self.starts, event.time
                job.is_favoured = False
                self.now_holds(job, event.placement, event.time)
            case events.JobStopping() if job.state == RUNNING:
                job.state, job.stop_at = STOPPING, event.time + job.stop_grace
                self.makes_room_for(event.for_job)
                job.gave_way_to.add(event.for_job)
            case events.JobReleased() if job.state != QUEUED:
                job.state, job.stop_at, job.number = QUEUED, inf, 0
                self.now_holds(job, {}, event.time)
            case events.JobEnded():
                self.now_holds(job, {}, event.time)
                del self.jobs[job.id]
            case events.JobCheckpointed():
                job.saved = event.time
            case events.JobGrown() if job.state == RUNNING:
                self.now_holds(job, {**job.placement, **event.placement}, event.time)
            case events.JobShrinking() if job.state == RUNNING:
                job.leaving |= set(event.members)
                self.makes_room_for(event.for_job)
            case events.JobShrunk() if job.state != QUEUED:
                stays = {m: s for m, s in job.placement.items() if m not in event.members}
                self.now_holds(job, stays, event.time)

    def makes_room_for(self, id: str) -> None:
        if id in self.jobs and self.jobs[id].state == QUEUED:
            self.jobs[id].is_favoured = True

    def now_holds(self, job: Job, placement: Placement, time: float) -> None:
        for stay in self.stays:
            if stay.job is job and stay.end == inf:
                stay.end = time
        job.placement = dict(placement)
        job.leaving &= set(placement)
        if placement:
            self.stays.append(Stay(job, amounts(job.ask, placement), time))

    def turned_away(self, job: Job) -> str | None:
        """What is refused at the door, for a reason that may pass."""
        before = [j for j in self.waiting() if j is not job]
        for rule in self.path(job.queue):
            there = [j for j in before if rule in self.path(j.queue)]
            mine = [j for j in there if j.user == job.user]
            if not rule.is_open:
                return f"{rule.name} is closed"
            if rule.max_queued is not None and len(there) >= rule.max_queued:
                return f"{rule.name} is full"
            if rule.user_max_queued is not None and len(mine) >= rule.user_max_queued:
                return f"{job.user} has enough jobs waiting in {rule.name}"
        return None

    # ---- what follows ---------------------------------------------------------------------------

    def waiting(self) -> list[Job]:
        return [j for j in self.jobs.values() if j.state == QUEUED and j.refusal is None]

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

    def children(self, name: str) -> list[QueueRule]:
        known = [q for q in self.rules.queues if q.parent == name]
        if name == ROOT:
            names = {q.name for q in self.rules.queues}  # if any, who waits in another is refused
            theirs = {j.queue for j in self.jobs.values() if not names or j.state != QUEUED}
            known += [QueueRule(q) for q in sorted(theirs - names)]
        return known

    def duration(self, job: Job) -> float:
        """As long as it may run: what it said, or what its queue allows."""
        if job.max_duration is not None:
            return float(job.max_duration)
        return min((q.max_duration for q in self.path(job.queue) if q.max_duration), default=inf)

    def total(self) -> Amounts:
        """Of the open nodes."""
        total = Amounts()
        for name, node in self.nodes.items():
            if name not in self.drained:
                total = total.plus({"cpus": node.cpus, "memory": node.memory})
                for gpu in node.gpus:
                    total = total.plus({"gpus": 1, f"gpus.{gpu.kind}": 1})
        return Amounts({r: of for r, of in total.items() if of})

    def deserved(self, parent: str = ROOT, whole: Amounts | None = None) -> dict[str, Amounts]:
        """Rule 2. Of what is there, each queue's part."""
        whole = self.total() if whole is None else whole
        siblings = self.children(parent)
        parts = {rule.name: Amounts() for rule in siblings}
        for r in whole:
            for name, part in self.parts(siblings, r, whole[r]).items():
                parts[name][r] = part
        for rule in siblings:
            parts |= self.deserved(rule.name, parts[rule.name])
        return parts

    def parts(self, siblings: list[QueueRule], r: str, whole: float) -> dict[str, float]:
        """Of one resource: what was given to some, the rest by weight; nobody gets less than it
        was guaranteed, nor more than its limit."""
        most = {q.name: q.limit.get(r, inf) for q in siblings}
        least = {q.name: q.guarantee.get(r, 0.0) for q in siblings}
        given = {q.name: q.deserved[r] for q in siblings if q.deserved and r in q.deserved}
        given = {name: min(max(of, least[name]), most[name]) for name, of in given.items()}
        while True:
            others = [q for q in siblings if q.name not in given]
            rest = max(0.0, whole - sum(given.values()))
            weights = sum(q.weight for q in others)
            parts = {q.name: rest * q.weight / weights for q in others}
            short = {name: least[name] for name, part in parts.items() if part < least[name]}
            if not short:
                return given | {name: min(part, most[name]) for name, part in parts.items()}
            given |= {name: min(of, most[name]) for name, of in short.items()}

    def used(self, begin: float, now: float, **of: Any) -> float:
        """GPU-seconds between two times; of a queue, a user, a class."""
        queue = of.pop("queue", None)
        return sum(
            stay.amounts["gpus"] * max(0.0, min(stay.end, now) - max(stay.begin, begin))
            for stay in self.stays
            if all(getattr(stay.job, name) == value for name, value in of.items())
            and (queue is None or self.queue(queue) in self.path(stay.job.queue))
        )

    def decayed(self, now: float, queue: str, user: str | None = None) -> Amounts:
        """Rule 3. Past usage: half of it forgotten each half-life; what is used for ever comes to
        what is held."""
        past = Amounts()
        if self.rules.half_life is None:
            return past
        for stay in self.stays:
            is_mine = self.queue(queue) in self.path(stay.job.queue)
            if is_mine and user in (None, stay.job.user):
                times = (stay.begin, min(stay.end, now))
                begin, end = (2 ** -((now - t) / self.rules.half_life) for t in times)
                past = past.plus(stay.amounts, end - begin)
        return past


def window(per: str, now: float) -> float:
    """When the current day, week (from Monday) or month began, in UTC."""
    day = int(now // DAY)
    if per == "week":
        return (day - (day + 3) % 7) * DAY  # the first day of all was a Thursday
    if per == "month":
        while civil_day(day) != 1:
            day -= 1
    return day * DAY


def civil_day(day: int) -> int:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).day


def extra(job: Job) -> list[str]:
    """The members above `min`, in the order in which they came."""
    need = set(least_members(job.ask))
    return [member for member in job.placement if member not in need]


def ratio(used: float, part: float) -> float:
    return used / part if part else (inf if used else 0.0)


def least(options: list[tuple[float, Job]]) -> Job | None:
    """Of the smallest share; ties by submit order, then id."""
    shares = sorted({share for share, _ in options if not isinf(share)})
    for low, high in pairwise(shares):
        if high - low < 1e-9 * max(1.0, high):
            raise TooClose(low, high)
    best = min(options, key=lambda o: (o[0], o[1].seq, o[1].id), default=None)
    return best[1] if best else None
