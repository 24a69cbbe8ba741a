"""The tree of queues, with what each queue and user holds, and the lines of those who wait.

A line is the waiting jobs of one user in one queue, of one priority and one shape, in submit
order: where its first job does not fit, none does, so nobody looks at the others.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Mapping
from math import inf
from operator import attrgetter
from typing import Final

from dromon.sched.crowd import Crowd
from dromon.sched.job import NOTHING, Demand, Job, Shape
from dromon.sched.rules import ROOT, Amounts, QueueRule, Rules
from dromon.sched.turns import NOBODY, Party, Turns
from dromon.sched.usage import Ledger, Past, share_of, shares_of

FEW: Final = 64
NEAR: Final = 8  # so far it is quicker to look one by one
_SEQ: Final = attrgetter("seq")


def scaled(amounts: Amounts) -> dict[str, float]:
    """As the room counts: thousandths, and bytes."""
    return {r: amount if r == "memory" else amount * 1000 for r, amount in amounts.items()}


def place_in(jobs: list[Job], job: Job) -> int:
    """Where it is: near the beginning, most often."""
    for at, other in enumerate(jobs):
        if other is job:
            return at
        if at == NEAR:
            break
    if jobs[0].priority == jobs[-1].priority:
        at = bisect_left(jobs, job.seq, NEAR, key=_SEQ)
        if jobs[at] is job:
            return at
    return bisect_left(jobs, job)


class Line(Crowd):
    """Jobs that wait, in order; how long each is taken to last beside it."""

    __slots__ = ("durations", "jobs", "priority", "shape", "user")

    def __init__(self, shape: Shape, priority: int, user: str, whole: Crowd) -> None:
        super().__init__(whole)
        self.shape = shape
        self.priority = priority
        self.user = user
        self.jobs: list[Job] = []
        self.durations = array("d")

    def add(self, job: Job) -> None:
        jobs, duration = self.jobs, job.duration
        if not jobs or jobs[-1].seq < job.seq:
            jobs.append(job)
            self.durations.append(duration)
        else:
            at = bisect_left(jobs, job)
            jobs.insert(at, job)
            self.durations.insert(at, duration)
        self.join(duration)

    def remove(self, job: Job) -> None:
        at = place_in(self.jobs, job)
        del self.jobs[at]
        self.leave(self.durations.pop(at))

    def _seek(self) -> float:
        return min(self.durations, default=inf)

    def next_below(self, at: int, limit: float) -> int:
        """The first from there on that is shorter; -1: none."""
        if self.shortest() < limit:
            durations = self.durations
            for index, duration in enumerate(durations[at:] if at else durations, at):
                if duration < limit:
                    return index
        return -1


class Member(Party):
    """One user inside one queue; it takes turns with those whose first job is of the same
    priority."""

    __slots__ = (
        "jobs", "ledgers", "level", "lines", "name", "past", "queue", "queued", "running", "usage",
        "weight",
    )  # fmt: skip

    def __init__(self, name: str, queue: "Queue", weight: float) -> None:
        super().__init__()
        self.name = name
        self.queue = queue
        self.weight = weight
        self.usage: Demand = {}
        self.running = 0
        self.queued = 0
        self.level = 0  # that priority, when it was put where it is
        self.lines: dict[tuple[int, Shape], Line] = {}
        self.jobs: list[Job] = []  # that wait: by priority, then who came first
        self.ledgers: list[Ledger] = []
        self.past: Past | None = None

    def add(self, job: Job) -> bool:
        """Is it the first now?"""
        jobs = self.jobs
        if jobs and jobs[-1].seq < job.seq and jobs[-1].priority >= job.priority:
            jobs.append(job)
            return False
        insort(jobs, job)
        return jobs[0] is job

    def remove(self, job: Job) -> bool:
        """Was it the first?"""
        at = place_in(self.jobs, job)
        del self.jobs[at]
        return not at


class Queue(Party):
    """It takes turns with those under the same parent."""

    __slots__ = (
        "_ages", "_eldest", "_misplaced", "_turns", "above", "capped", "children", "deserved",
        "fixed", "guarantee", "has_caps", "has_door", "has_rare_caps", "is_over", "jobs", "keeps",
        "largest", "ledgers", "levels", "limit", "limits", "longest", "lower", "members", "name",
        "newest", "number", "order", "parent", "past", "path", "queued", "rule", "running",
        "shapes", "takes_firm", "usage", "user_limit", "weights",
    )  # fmt: skip

    def __init__(self, rule: QueueRule, parent: "Queue | None", number: int) -> None:
        super().__init__()
        self.name = rule.name
        self.parent = parent
        self.number = number
        self.children: dict[str, Queue] = {}
        self.path: tuple[Queue, ...] = (self, *(parent.path if parent else ()))
        self.above = self.path[1:]
        self.members: dict[str, Member] = {}
        self.levels: dict[int, int] = {}  # priority -> how many wait
        self.shapes: dict[Shape, Crowd] = {}  # shape -> who waits
        self.largest: Demand | None = None  # see `largest_demand`
        self.is_over = False  # holds more of something than it deserves
        self.lower: dict[int, int] = {}  # priority -> how many run that may be sent away
        self.jobs: dict[str, Job] = {}  # those that hold something
        self.usage: Demand = {}
        self.fixed: Demand = {}  # of it, by jobs that are not preemptible
        self.running = 0
        self.queued = 0
        self.deserved: dict[str, float] = {}
        # Who waits, in the order they came; may hold some who wait no more, and before the eldest
        # holds nobody else.
        self._ages: list[Job] = []
        self._eldest = 0
        self.newest = -1  # seq of who came last of all that ever were here
        self.order: Turns[Queue] = Turns()  # children
        self._turns: dict[int, Turns[Member]] = {}  # see `in_turn`
        self._misplaced: dict[Member, None] = {}
        self.past: Past | None = None
        self.weights: dict[str, float] = {}
        self.keeps: set[Shape] = set()  # which ask for no more than it and those above may have
        self.obey(rule)

    def obey(self, rule: QueueRule) -> None:
        self.rule = rule
        self.limit = scaled(rule.limit)
        self.user_limit = scaled(rule.user_limit)
        self.guarantee = scaled(rule.guarantee)
        self.ledgers = [Ledger(b.gpu_hours, b.per) for b in rule.budgets if b.of == "queue"]
        self.limits = [
            (resource, self.limit.get(resource, inf), self.user_limit.get(resource, inf))
            for resource in {**self.limit, **self.user_limit}
        ]
        self.has_rare_caps = bool(
            rule.budgets or rule.max_running is not None or rule.user_max_running is not None
            or not rule.is_open
        )  # fmt: skip
        # Then it is counted here what each user has, and how many of theirs wait.
        self.has_caps = bool(self.limits or self.has_rare_caps or rule.user_max_queued is not None)
        above = self.parent
        self.capped = tuple([queue for queue in self.path if queue.has_caps])  # own ones first
        self.has_door: bool = (
            not rule.is_open or rule.max_queued is not None or rule.user_max_queued is not None
            or (above is not None and above.has_door)
        )  # fmt: skip
        self.longest: float = min(
            inf if rule.max_duration is None else rule.max_duration,
            inf if above is None else above.longest,
        )  # that a job here may last
        self.takes_firm: bool = rule.non_preemptible and (above is None or above.takes_firm)

    @property
    def is_leaf(self) -> bool:
        return not self.children

    def member(self, user: str, half_life: float | None) -> Member:
        found = self.members.get(user)
        if found is None:
            found = self.members[user] = Member(user, self, self.weights.get(user, 1.0))
            found.ledgers = [
                Ledger(b.gpu_hours, b.per) for b in self.rule.budgets if b.of == "user"
            ]
            if half_life:
                found.past = Past(half_life)
        return found

    def largest_demand(self) -> Demand:
        """Of each resource, the most that anybody asks who waits here."""
        if self.largest is None:
            self.largest = {}
            for shape in self.shapes:
                for resource, amount in shape.demand.items():
                    if amount > self.largest.get(resource, 0):
                        self.largest[resource] = amount
        return self.largest

    def keeps_limits(self, user: str, asked: Demand) -> bool:
        """May the queue, and this user in it, have so much more?"""
        member = self.members.get(user)
        usage, own = self.usage, NOTHING if member is None else member.usage
        for resource, most, user_most in self.limits:
            more = asked.get(resource)
            if more and (
                usage.get(resource, 0) + more > most or own.get(resource, 0) + more > user_most
            ):
                return False
        return True

    def may_press(self, any_over: bool, less: Mapping[int, Demand]) -> bool:
        """Could somebody who waits here send others away: lesser ones of this queue, or those of
        a queue that holds more than it deserves? `less`: queue number -> what goes already."""
        if self.lower and self.levels and max(self.levels) > min(self.lower):
            return True
        return any_over and any(self._is_within(shape.demand, less) for shape in self.shapes)

    def _is_within(self, demand: Demand, less: Mapping[int, Demand]) -> bool:
        for queue in self.path:
            if queue.parent is not None:
                gone = less.get(queue.number, {})
                for resource, amount in demand.items():
                    deserved = queue.deserved.get(resource)
                    used = queue.usage.get(resource, 0) - gone.get(resource, 0)
                    if deserved is not None and used + amount > deserved:
                        return False
        return True

    def weigh(self, now: float) -> int:
        """What it holds has changed: its share, its place among the parent's children, and
        whether it is over what it deserves. 1 when it has come to be, -1 when it no longer is."""
        return self._weighs(share_of(self.usage, self.deserved), now)

    def weigh_with(self, member: Member, now: float) -> int:
        """The same, and what one of its users holds has changed."""
        share, own = shares_of(self.usage, member.usage, self.deserved)
        own = self._of_user(own, member, now)
        if own != member.share:
            member.share = own
            if member.jobs:
                self.put(member)
        return self._weighs(share, now)

    def _weighs(self, share: float, now: float) -> int:
        is_over = share > 1.0
        if self.past is not None:
            share += self.past.share(self.usage, self.deserved, now)
        if self.parent is None:
            return 0
        self.reorder(share)
        change = is_over - self.is_over
        self.is_over = is_over
        return change

    def user_share(self, member: Member, now: float) -> float:
        """Like the queue's, of what the queue deserves, by the user's weight."""
        return self._of_user(share_of(member.usage, self.deserved), member, now)

    def _of_user(self, share: float, member: Member, now: float) -> float:
        if member.past is not None:
            share += member.past.share(member.usage, self.deserved, now)
        weight = member.weight
        if weight == 1.0:
            return share
        return share / weight if weight > 0 else inf

    def runs(self, job: Job, jobs: int) -> None:
        """It has come to hold something (1), or no longer does (-1)."""
        if jobs > 0:
            self.jobs[job.id] = job
            if job.preemptible:
                self.lower[job.priority] = self.lower.get(job.priority, 0) + 1
        else:
            self.jobs.pop(job.id, None)
            if job.preemptible:
                count_down(self.lower, job.priority)

    def put(self, member: Member) -> None:
        """What a user waits for, or has, has changed: its place among the others, once somebody
        asks for it."""
        self._misplaced[member] = None

    def in_turn(self) -> dict[int, Turns[Member]]:
        """Users with somebody who waits, by the priority of their first; some priorities may have
        nobody left."""
        turns = self._turns
        for member in self._misplaced:
            level, age = member.level, NOBODY
            if member.jobs:
                first = member.jobs[0]
                level, age = first.priority, first.seq
            member.age = age
            if level != member.level:
                if member.equals is not None:
                    turns[member.level].take(member)
                member.level = level
            elif member.is_in_place():
                continue
            if level not in turns:
                turns[level] = Turns()
            turns[level].move(member)
        self._misplaced.clear()
        return turns

    def weigh_users(self, now: float) -> None:
        """With a half-life, shares change with time alone."""
        for member in self.members.values():
            if member.lines:
                member.share = self.user_share(member, now)
                self.put(member)

    def own_share(self, now: float) -> float:
        share = share_of(self.usage, self.deserved)
        if self.past is not None:
            share += self.past.share(self.usage, self.deserved, now)
        return share

    def reorder(self, share: float) -> None:
        """Its share is another."""
        if share != self.share:
            self.share = share
            if self.parent is not None:
                self.parent.order.put_off(self)

    def joined(self, job: Job) -> None:
        levels, ages, seq = self.levels, self._ages, job.seq
        levels[job.priority] = levels.get(job.priority, 0) + 1
        if seq > self.newest:
            self.newest = seq
            ages.append(job)
            if len(ages) > 2 * self.queued + FEW:
                self._ages = list({one.id: one for one in ages if one.waits}.values())
                self._eldest = 0
        else:
            insort(ages, job, self._eldest, key=_SEQ)
        if seq < self.age:
            self._has_aged(seq)

    def left(self, job: Job) -> None:
        """It waits no more."""
        count_down(self.levels, job.priority)
        if job.seq == self.age:
            ages, at = self._ages, self._eldest
            while at < len(ages) and not ages[at].waits:
                at += 1
            self._eldest = at
            self._has_aged(ages[at].seq if at < len(ages) else NOBODY)

    def _has_aged(self, age: int) -> None:
        """Somebody else has waited longest, here or below."""
        parent, was = self.parent, self.age
        self.age = age
        if parent is None:
            return
        parent.order.put_off(self)
        if parent.parent is None:
            return  # nobody goes before the root
        if age < parent.age:
            parent._has_aged(age)
        elif was == parent.age and age != was:
            parent._has_aged(min([child.age for child in parent.children.values()]))


def count_down(counts: dict[int, int], key: int) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]


def build(rules: Rules) -> dict[str, Queue]:
    """Name -> queue; a parent that no rule names hangs under the root."""
    root = Queue(QueueRule(ROOT, parent=""), None, 0)
    for rule in rules.queues:
        if rule.name == ROOT:
            root.obey(rule)
    tree = {ROOT: root}
    by_name = {rule.name: rule for rule in rules.queues if rule.name != ROOT}

    def hang(name: str, above: tuple[str, ...]) -> Queue:
        if name in tree:
            return tree[name]
        rule = by_name.get(name, QueueRule(name))
        is_circle = rule.parent == name or rule.parent in above
        parent = root if is_circle else hang(rule.parent, (*above, name))
        return add(tree, rule, parent)

    for name in by_name:
        hang(name, ())
    return tree


def add(tree: dict[str, Queue], rule: QueueRule, parent: Queue) -> Queue:
    number = 1 + max(queue.number for queue in tree.values())
    queue = tree[rule.name] = parent.children[rule.name] = Queue(rule, parent, number)
    return queue
