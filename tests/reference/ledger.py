"""What is known and who may, in whole scenarios: the slow scheduler's books, and beside them what
it leaves out, which `checks` asks for: members above `min`, budgets, reservations."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

from dromon.sched import events
from dromon.sched.rules import ROOT, Budget, Reservation
from reference.books import Books
from reference.slow import Amounts, Job, Slow, amounts, over


@dataclass
class Stay:
    """What a job held from one time to another."""

    job: Job
    amounts: Amounts
    begin: float
    end: float = inf


Which = tuple[str, str | int, int]  # of whom it is: of a queue, its users, a user, a class; which


class Ledger(Slow):
    def __init__(self) -> None:
        super().__init__()
        self.stays: list[Stay] = []
        self.counted: dict[Which, tuple[str, int]] = {}  # budgets: per what, without which stays

    def apply(self, event: Any) -> None:
        super().apply(event)
        if isinstance(event, events.RulesChanged):
            before, over = self.counted, sum(stay.end < inf for stay in self.stays)
            self.stays.sort(key=lambda stay: stay.end == inf)  # those that are over first
            self.counted = {which: (b.per, over) for which, b in self.budgets()}
            self.counted |= {w: old for w, old in before.items()
                             if w in self.counted and self.counted[w][0] == old[0]}  # fmt: skip

    def budgets(self) -> list[tuple[Which, Budget]]:
        """A new one counts what still runs, from its start, and nothing that had ended."""
        found: list[tuple[Which, Budget]] = []
        for queue in self.rules.queues:
            for of in ("queue", "user"):
                mine = [b for b in queue.budgets if b.of == of]
                found += [((f"{of} of queue", queue.name, n), b) for n, b in enumerate(mine)]
        for user in self.rules.users:
            found += [(("user", user.name, n), b) for n, b in enumerate(user.budgets)]
        for level in self.rules.priorities:
            if level.user_budget is not None:
                found.append((("class", level.value, 0), Budget(level.user_budget)))
        return found

    def job_event(self, job: Job, event: Any) -> None:
        before = job.placement
        super().job_event(job, event)
        match event:
            case events.JobGrown():
                job.placement = {**before, **event.placement}
            case events.JobShrunk():
                job.placement = {m: s for m, s in before.items() if m not in event.members}
            case events.JobShrinking(for_job=id) if id in self.jobs:
                self.jobs[id].is_favoured = True
            case events.JobEnded():
                job.placement = {}
        if job.placement != before:
            for stay in self.stays:
                if stay.job is job:
                    stay.end = min(stay.end, event.time)
            self.stays.append(Stay(job, amounts(job.ask, job.placement), event.time))

    def is_for(self, r: Reservation, job: Job) -> bool:
        return r.user in (None, job.user) and (r.queue is None or self.is_in(job, r.queue))

    def reservations(self, now: float) -> list[Reservation]:
        """Without those that nobody used in time."""
        return [r for r in self.rules.reservations if now < r.end and not self.is_released(r, now)]

    def is_released(self, r: Reservation, now: float) -> bool:
        if r.release_after is None or now < r.start + r.release_after:
            return False
        return not any(
            s.amounts["gpus"] and s.begin < r.start + r.release_after and s.end > r.start
            for s in self.stays
            if self.is_for(r, s.job)
        )


class Page(Books):
    """At one time, with what is decided there so far."""

    slow: Ledger

    def cap(self, job: Job) -> str | None:
        is_spent = bool(job.demand["gpus"]) and self.has_spent(job)
        return super().cap(job) or ("budget" if is_spent else None)

    def holds_back(self, job: Job, more: Amounts) -> str | None:
        """Why it may not have more members."""
        if not all(rule.is_open for rule in self.slow.path(job.queue)):
            return "closed queue"
        if more["gpus"] and self.has_spent(job):
            return "budget"
        if over(self.usage(ROOT, job.user) + more, self.slow.user(job.user).limit, more):
            return "limit of the user"
        for rule in self.slow.path(job.queue):
            if over(self.usage(rule.name) + more, rule.limit, more):
                return f"limit of {rule.name}"
            if over(self.usage(rule.name, job.user) + more, rule.user_limit, more):
                return f"user_limit of {rule.name}"
        return None

    def has_spent(self, job: Job) -> bool:
        """Whether one of the budgets that count it is used up."""
        queues = [rule.name for rule in self.slow.path(job.queue)]
        mine: dict[str, Any] = {"user": job.user}
        for which, budget in self.slow.budgets():
            match which:
                case ("queue of queue", name, _) if name in queues:
                    used = self.used(which, str(name), {})
                case ("user of queue", name, _) if name in queues:
                    used = self.used(which, str(name), mine)
                case ("user", name, _) if name == job.user:
                    used = self.used(which, ROOT, mine)
                case ("class", value, _) if value == job.priority:
                    used = self.used(which, ROOT, mine | {"priority": value})
                case _:
                    continue
            if used >= budget.gpu_hours * 3600:
                return True
        return False

    def used(self, which: Which, queue: str, of: dict[str, Any]) -> float:
        """GPU-seconds of a queue since the day, week or month began."""
        per, over = self.slow.counted[which]
        begin = window(per, self.now)
        return sum(
            stay.amounts["gpus"] * max(0.0, min(stay.end, self.now) - max(stay.begin, begin))
            for stay in self.slow.stays[over:]
            if self.slow.is_in(stay.job, queue)
            and all(getattr(stay.job, name) == value for name, value in of.items())
        )


def window(per: str, now: float) -> float:
    """When the current day, week (from Monday) or month began, in UTC."""
    begin = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "week":
        begin -= timedelta(days=begin.weekday())
    if per == "month":
        begin = begin.replace(day=1)
    return begin.timestamp()
