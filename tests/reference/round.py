"""One decision of the slow scheduler. The numbers are those of the rules in docs/scheduling.md."""

from collections.abc import Iterator
from math import floor, inf
from typing import Any

from dromon.sched.asks import GPUS, Placement
from dromon.sched.decisions import Decision, Grow, Preempt, Refuse, Shrink, Start
from dromon.sched.rules import ROOT, Budget, Reservation
from reference.growth import grow
from reference.room import Hold, Room, Timeline, after, empty, lasting, place, set_aside, uses
from reference.slow import (
    RUNNING,
    STOPPING,
    Amounts,
    Job,
    Slow,
    amounts,
    extra,
    least,
    ratio,
    window,
)

PLANNED = 8  # of each leaf
Spots = frozenset[tuple[str, str]]  # (job, member)


def decide(slow: Slow, now: float, seed: int) -> tuple[Decision, ...]:
    return tuple(Round(slow, now, seed).run()) if slow.nodes else ()


class Round:
    def __init__(self, slow: Slow, now: float, seed: int) -> None:
        self.slow, self.now = slow, now
        self.deserved = slow.deserved()
        self.total = slow.total()
        # Who holds what, with those that this round starts.
        self.held: dict[str, frozenset[str]] = {j.id: frozenset(j.placement) for j in slow.placed()}
        self.favoured = {j.id for j in slow.waiting() if j.is_favoured}
        self.starts: dict[str, Placement] = {}
        self.looked: set[str] = set()
        self.refused: set[str] = set()
        self.blocked: list[Job] = []
        self.owners: set[str] = set()  # looked at first, for what is reserved for them
        self.is_past_owners = False  # one of these could not start
        self.touched: set[str] = set()  # those that go, or shrink; nobody twice in one round
        self.planned: list[str] = []  # the queues of those with a planned start
        self.closed: frozenset[str] = frozenset()
        self.turn = (seed, len(slow.nodes))
        self.line = Timeline(slow.nodes.values(), slow.drained, slow.outside)
        self.going: Spots = frozenset()  # about to be free
        for job in slow.placed():
            end = job.stop_at if job.state == STOPPING else job.since + slow.duration(job)
            for member, share in job.placement.items():
                until = after(now, -inf if member in job.leaving else end)
                self.line.holds.append(Hold(job.id, member, share, -inf, until))
                if job.state == STOPPING or member in job.leaving:
                    self.going |= {(job.id, member)}

    def queues(self, name: str) -> list[Any]:
        return [q for c in self.slow.children(name) for q in (c, *self.queues(c.name))]

    def run(self) -> Iterator[Decision]:
        for job in self.slow.jobs.values():
            reason = self.refusal(job) if job.state == "queued" else None
            if reason is not None:
                self.looked.add(job.id)
                self.refused.add(job.id)
                yield Refuse(job.id, reason)
        while (job := self.next_job()) is not None:
            self.looked.add(job.id)
            yield from self.look(job)
        grown = {} if self.blocked else grow(self)
        for id, placement in self.starts.items():
            yield Start(id, {**placement, **grown.pop(id, {})})
        for id, placement in grown.items():
            yield Grow(id, placement)

    def look(self, job: Job) -> Iterator[Decision]:
        if self.cap(job) is not None:
            return  # held: it stands in nobody's way
        found = self.earliest(job)
        if found is not None and found[0] == self.now:
            self.starts[job.id] = found[1]
            self.held[job.id] = frozenset(found[1])
            self.favoured.discard(job.id)
            self.keep(job, *found)
            return
        is_first = not any(other.queue == job.queue for other in self.blocked)
        is_shut_out = bool(uses(job.ask) & self.closed)
        self.blocked.append(job)
        self.is_past_owners |= job.id in self.owners
        if self.planned.count(job.queue) == PLANNED:
            return
        if self.is_coming(found):
            pass  # nobody more is sent away while those that go already make the room
        elif is_first or not is_shut_out:
            yield from self.make_room(job, is_first)
        found = self.earliest(job)
        if found is not None:
            self.planned.append(job.queue)
            self.keep(job, *found)
        elif not is_shut_out:
            self.close_to_others(job)

    # ---- order (2, 3, 4) ------------------------------------------------------------------------

    def next_job(self) -> Job | None:
        waiting = [j for j in self.slow.waiting() if j.id not in self.looked]
        first = [j for j in waiting if j.id in self.favoured]
        owners = [j for j in waiting if self.has_reserved(j)]
        if owners and not first and not self.is_past_owners:
            owner = min(owners, key=lambda j: (-j.priority, j.seq, j.id))
            self.owners.add(owner.id)
            return owner
        policy = self.slow.rules.policy
        if first or policy != "fair":
            keys: dict[str, Any] = {
                "fair": lambda j: (j.seq, j.id),
                "fifo": lambda j: (-j.priority, j.seq, j.id),
                "sjf": lambda j: (self.slow.duration(j), j.seq, j.id),
            }
            return min(first or waiting, key=keys["fair" if first else policy], default=None)
        return self.next_of(ROOT, waiting)

    def next_of(self, queue: str, waiting: list[Job]) -> Job | None:
        children = self.slow.children(queue)
        if not children:
            mine = [j for j in waiting if j.queue == queue]
            top = max((self.priority(j) for j in mine), default=0)
            return least([(self.share(queue, j.user), j) for j in mine if self.priority(j) == top])
        firsts = {c.name: self.next_of(c.name, waiting) for c in children}
        oldest = [(self.share(q), self.oldest(q)) for q, job in firsts.items() if job is not None]
        found = least(oldest)
        if found is None:
            return None
        return next(j for q, j in firsts.items() if j is not None and self.is_in(found, q))

    def oldest(self, queue: str) -> Job:
        """Who has waited longest there, looked at or not."""
        mine = [j for j in self.slow.waiting() if self.is_in(j, queue) and j.id not in self.refused]
        return min(mine, key=lambda j: j.seq)

    def priority(self, job: Job) -> int:
        aging = self.slow.queue(job.queue).aging or 0.0
        return int(job.priority + floor(aging * (self.now - job.time) / 3600))

    def share(self, queue: str, user: str | None = None) -> float:
        weight = self.slow.user(user).weight if user is not None else 1.0
        parts = (self.usage(queue, user), self.slow.decayed(self.now, queue, user))
        return sum(
            max((ratio(part[r], self.deserved[queue][r] * weight) for r in self.total), default=0)
            for part in parts
        )

    def usage(self, queue: str, user: str | None = None) -> Amounts:
        """What is held now, with what this round starts."""
        sum = Amounts()
        for id, members in self.held.items():
            job = self.slow.jobs[id]
            if user in (None, job.user) and self.is_in(job, queue):
                sum = sum.plus(amounts(job.ask, members))
        return sum

    def is_in(self, job: Job, queue: str) -> bool:
        return queue in (q.name for q in self.slow.path(job.queue))

    # ---- who may (5, 9, 11) ---------------------------------------------------------------------

    def cap(self, job: Job) -> str | None:
        """Which of the rules holds it, whatever is free."""
        slow, need, user = self.slow, job.demand, self.slow.user(job.user)
        running = [slow.jobs[id] for id in self.held]
        for rule in slow.path(job.queue):
            there = [j for j in running if self.is_in(j, rule.name)]
            mine = [j for j in there if j.user == job.user]
            if not rule.is_open:
                return f"closed queue {rule.name}"
            if self.usage(rule.name).plus(need).breaks(rule.limit, need):
                return f"limit of {rule.name}"
            if self.usage(rule.name, job.user).plus(need).breaks(rule.user_limit, need):
                return f"user_limit of {rule.name}"
            if rule.max_running is not None and len(there) >= rule.max_running:
                return f"max_running of {rule.name}"
            if rule.user_max_running is not None and len(mine) >= rule.user_max_running:
                return f"user_max_running of {rule.name}"
        mine = [j for j in running if j.user == job.user]
        everything = Amounts()
        for other in mine:
            everything = everything.plus(amounts(other.ask, self.held[other.id]))
        if everything.plus(need).breaks(user.limit, need):
            return f"limit of {job.user}"
        if need["gpus"] and self.has_spent(job):
            return "budget"
        return None if job.preemptible or self.leaves_guarantees(job) else "guarantees of others"

    def has_spent(self, job: Job) -> bool:
        """Whether one of the budgets that count it is used up."""
        mine = {"user": job.user}
        budgets = [(b, mine) for b in self.slow.user(job.user).budgets]
        for rule in self.slow.path(job.queue):
            of_queue = {"queue": rule.name}
            budgets += [(b, of_queue | (mine if b.of == "user" else {})) for b in rule.budgets]
        for level in self.slow.rules.priorities:
            if level.value == job.priority and level.user_budget is not None:
                budgets.append((Budget(level.user_budget), mine | {"priority": job.priority}))
        return any(
            self.slow.used(window(b.per, self.now), self.now, **of) >= b.gpu_hours * 3600
            for b, of in budgets
        )

    def leaves_guarantees(self, job: Job) -> bool:
        """What others were promised must stay within reach: free, preemptible or borrowed."""
        firm = Amounts()
        for queue in self.queues(ROOT):
            if not self.slow.children(queue.name):
                mine = Amounts(job.demand) if job.queue == queue.name else Amounts()
                for id, members in self.held.items():
                    other = self.slow.jobs[id]
                    if other.queue == queue.name and not other.preemptible:
                        mine = mine.plus(amounts(other.ask, members))
                part = self.deserved[queue.name]
                firm = firm.plus({r: min(mine[r], part[r]) for r in self.total})
        path = [q.name for q in self.slow.path(job.queue)]
        promised = Amounts()
        for name in (ROOT, *path[1:]):
            for sibling in self.slow.children(name):
                if sibling.name not in path:
                    promised = promised.plus(self.owed(sibling))
        asked = [r for r, of in job.demand.items() if of and promised[r]]
        return all(self.total[r] - firm[r] >= promised[r] - 1e-9 for r in asked)

    def owed(self, queue: Any) -> Amounts:
        usage, below = self.usage(queue.name), Amounts()
        for child in self.slow.children(queue.name):
            below = below.plus(self.owed(child))
        return Amounts({
            r: max(queue.guarantee.get(r, 0.0) - usage[r], below[r], 0.0) for r in self.total
        })  # fmt: skip

    def refusal(self, job: Job) -> str | None:
        if job.refusal is not None:
            return str(job.refusal)
        names = {q.name for q in self.slow.rules.queues}
        if names and job.queue not in names:
            return f"there is no queue {job.queue}"
        if any(q.parent == job.queue for q in self.slow.rules.queues):
            return f"{job.queue} has queues below it"
        need = job.demand
        for rule in self.slow.path(job.queue):
            if any(need.breaks(limit, need) for limit in (rule.limit, rule.user_limit)):
                return f"more than {rule.name} may have"
            if rule.max_duration is not None and (job.max_duration or 0.0) > rule.max_duration:
                return f"longer than {rule.name} allows"
            if not rule.non_preemptible and not job.preemptible:
                return f"{rule.name} takes only preemptible jobs"
        if need.breaks(self.slow.user(job.user).limit, need):
            return f"more than {job.user} may have"
        if any(role.gpus > 1 and role.gpus != int(role.gpus) for role in job.ask):
            return "a part of more than one GPU"
        if place(empty(self.slow.nodes.values()), job.ask) is None:
            return "it does not fit the empty cluster"
        return None

    # ---- where and when (6, 7, 10) --------------------------------------------------------------

    def earliest(self, job: Job) -> tuple[float, Placement] | None:
        over = {r.end for r in self.reservations() if r.end > self.now}
        for time in (self.now, *sorted({*self.line.ends(self.now), *over})):
            placement = self.fits(job, time)
            if placement is not None:
                return time, placement
        return None

    def fits(self, job: Job, time: float, without: Spots = frozenset()) -> Placement | None:
        until = lasting(self.now, time, self.slow.duration(job))
        placement = place(self.room(job, time, until, without), job.ask, self.turn)
        if placement is None or not self.leaves_reserved(job, placement, time, until, without):
            return None
        return placement

    def room(self, job: Job, time: float, until: float, without: Spots = frozenset()) -> Room:
        """All the time between the two. Of what is closed to it, only what `without` gives."""
        room = self.line.through(time, until, without)
        if self.closed & uses(job.ask):
            for name, shut in self.line.through(time, until).items():
                left = room[name]
                left.cpus -= shut.cpus if "cpus" in self.closed else 0
                left.memory -= shut.memory if "memory" in self.closed else 0
                if GPUS in self.closed:
                    left.gpus = {d: of - max(shut.gpus[d], 0) for d, of in left.gpus.items()}
        return room

    def keep(self, job: Job, time: float, placement: Placement) -> None:
        until = lasting(self.now, time, self.slow.duration(job))
        for member, share in placement.items():
            self.line.holds.append(Hold(job.id, member, share, time, until))

    def lacks(self, job: Job) -> frozenset[str]:
        """The dimensions that are too short; if each alone would do, all that it uses."""
        until = self.now + self.slow.duration(job)
        short = frozenset(
            d for d in uses(job.ask)
            if place(self.room(job, self.now, until), job.ask, dimensions=frozenset({d})) is None
        )  # fmt: skip
        return short or uses(job.ask)

    def close_to_others(self, job: Job) -> None:
        closed = self.lacks(job)
        if closed != uses(job.ask):
            room = self.room(job, self.now, self.now + self.slow.duration(job))
            for share in set_aside(room, empty(self.line.nodes), job.ask):
                self.line.holds.append(Hold("", "", share, self.now, inf))
        self.closed |= closed

    def reservations(self) -> list[Reservation]:
        """Without those that nobody used."""
        return [r for r in self.slow.rules.reservations if not self.is_released(r)]

    def is_released(self, r: Reservation) -> bool:
        if r.release_after is None or self.now < r.start + r.release_after:
            return False
        return not any(
            s.amounts["gpus"] and s.begin < r.start + r.release_after and s.end > r.start
            for s in self.slow.stays
            if self.is_for(r, s.job)
        )

    def is_for(self, r: Reservation, job: Job) -> bool:
        return r.user in (None, job.user) and (r.queue is None or self.is_in(job, r.queue))

    def has_reserved(self, job: Job) -> bool:
        """Whether it fits into what is left of a reservation for it that is under way."""
        kinds = {role.gpu_kind for role in job.ask if role.gpus}
        return any(
            r.start <= self.now < r.end and self.is_for(r, job)
            and (r.kind is None or kinds == {r.kind})
            and 0 < job.demand["gpus"] <= self.unused(r, self.now, frozenset())
            for r in self.reservations()
        )  # fmt: skip

    def leaves_reserved(
        self, job: Job, placement: Placement, begin: float, end: float, without: Spots
    ) -> bool:
        others = [r for r in self.reservations() if not self.is_for(r, job)]
        if not any(share.gpus for share in placement.values()):
            return True
        starts = {r.start for r in others if begin < r.start < end}
        for time in sorted({*self.line.times(begin, end), *starts}):
            room = self.line.at(time, without)
            for share in placement.values():
                room[share.node].change(share, -1)
            active = [r for r in others if r.start <= time < r.end]
            for r in active:
                alike = [o for o in active if r.kind in (None, o.kind)]
                owed = sum(self.unused(o, time, without) for o in alike)
                free = sum(
                    left.gpus[g.id] == 1000 and r.kind in (None, g.kind)
                    for left in room.values() for g in left.node.gpus
                )  # fmt: skip
                if free < owed:
                    return False
        return True

    def unused(self, r: Reservation, time: float, without: Spots) -> float:
        taken = 0.0
        for hold in self.line.holds:
            if (hold.job, hold.member) in without:
                continue
            job = self.slow.jobs.get(hold.job)
            node = self.slow.nodes.get(hold.share.node)
            if job and node and hold.begin <= time < hold.end and self.is_for(r, job):
                kinds = {g.id for g in node.gpus if r.kind in (None, g.kind)}
                taken += len(kinds & set(hold.share.gpus))
        return max(0.0, r.gpus - taken)

    # ---- who gives way (8) ----------------------------------------------------------------------

    def is_coming(self, found: tuple[float, Placement] | None) -> bool:
        """Whether its planned start waits for nothing but those that are going."""
        ends = [h.end for h in self.line.holds if (h.job, h.member) in self.going]
        return found is not None and found[0] <= max(ends, default=-inf)

    def make_room(self, job: Job, is_first: bool) -> Iterator[Decision]:
        if self.fits(job, self.now, self.going):
            return  # it is only waited for
        taken: list[Spots] = []
        for spots in self.give_way(job, is_first, taken):
            taken.append(spots)
            if self.fits(job, self.now, self.going.union(*taken)):
                break
        else:
            return
        for spots in taken[::-1]:
            fewer = [s for s in taken if s != spots]
            if self.fits(job, self.now, self.going.union(*fewer)):
                taken = fewer
        self.favoured.add(job.id)
        for spots in taken:
            self.going |= spots
            self.touched.add(min(spots)[0])
            victim = self.slow.jobs[min(spots)[0]]
            grace = 0.0 if spots < self.spots(victim) else victim.stop_grace
            self.line.let_go(spots, after(self.now, self.now + grace))
        yield from self.farewells(job, taken)

    def farewells(self, job: Job, taken: list[Spots]) -> Iterator[Decision]:
        shrinks: dict[str, list[str]] = {}
        for spots in taken:
            victim = self.slow.jobs[min(spots)[0]]
            if len(spots) == 1 and min(spots)[1] in extra(victim):
                shrinks.setdefault(victim.id, []).append(min(spots)[1])
            else:
                reason = "priority" if victim.queue == job.queue else "reclaim"
                yield Preempt(victim.id, job.id, reason)
        for id, members in shrinks.items():
            yield Shrink(id, tuple(members), job.id)

    def give_way(self, job: Job, is_first: bool, taken: list[Spots]) -> Iterator[Spots]:
        """Elastic members first, youngest gang first; then gangs, the cheapest first."""
        running = [j for j in self.slow.placed() if j.state == RUNNING]
        running = [j for j in running if j.id not in self.touched]
        for other in sorted((j for j in running if j.elastic), key=lambda j: -j.number):
            for member in extra(other)[::-1]:
                if (other.id, member) not in self.going:
                    yield frozenset({(other.id, member)})
        if self.slow.rules.policy == "sjf":
            return
        lacking, may_reclaim = self.lacks(job), self.may_reclaim(job)
        for victim in sorted(running, key=lambda j: (self.work_lost(j), -j.number, j.id)):
            spots = self.spots(victim)
            if spots <= self.going or victim.id in job.gave_way_to:
                continue
            if victim.queue == job.queue:
                may = is_first and victim.preemptible and victim.priority < job.priority
                may = may and self.now - victim.since >= self.slow.rules.min_run_time
            else:
                gone = self.going.union(*taken)
                may = may_reclaim and self.is_borrowed(job, victim, lacking, gone)
            if may:
                yield spots

    def spots(self, job: Job) -> Spots:
        return frozenset((job.id, member) for member in job.placement)

    def work_lost(self, job: Job) -> float:
        held = amounts(job.ask, job.placement)
        return (held["gpus"] or held["cpus"]) * (self.now - max(job.since, job.saved))

    def may_reclaim(self, job: Job) -> bool:
        """Whether its queue, and all above, stay within what they deserve with it counted."""
        for queue in self.slow.path(job.queue):
            usage = self.staying(queue.name, self.going).plus(self.promised(queue.name, job))
            if usage.breaks(self.deserved[queue.name], job.demand):
                return False
        return True

    def is_borrowed(self, job: Job, victim: Job, lacking: frozenset[str], gone: Spots) -> bool:
        """Whether its queue, where the two paths part, has too much of what the job lacks; and it
        holds some of what is lacking."""
        mine = {q.name for q in self.slow.path(job.queue)}
        theirs = [q.name for q in self.slow.path(victim.queue) if q.name not in mine]
        short = {r: of for r, of in job.demand.items() if r.partition(".")[0] in lacking}
        held = amounts(victim.ask, victim.placement)
        if not theirs or not any(held[r] for r in short):
            return False
        return self.staying(theirs[-1], gone).breaks(self.deserved[theirs[-1]], short)

    def staying(self, queue: str, gone: Spots) -> Amounts:
        """Usage without those that go."""
        sum = Amounts()
        for id, members in self.held.items():
            other = self.slow.jobs[id]
            if self.is_in(other, queue):
                sum = sum.plus(amounts(other.ask, [m for m in members if (id, m) not in gone]))
        return sum

    def promised(self, queue: str, job: Job) -> Amounts:
        """What those will have that room is made for, and this one."""
        sum = Amounts()
        for id in self.favoured | {job.id}:
            if self.is_in(self.slow.jobs[id], queue):
                sum = sum.plus(self.slow.jobs[id].demand)
        return sum
