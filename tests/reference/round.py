"""One decision of the slow scheduler. The numbers are those of the rules in docs/scheduling.md."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise
from math import inf, isinf
from typing import Any

from dromon.sched.asks import CPUS, GPUS, MEMORY, Ask, Placement, Share
from dromon.sched.decisions import Decision, Preempt, Refuse, Start
from dromon.sched.rules import ROOT
from reference.books import Books
from reference.room import Hold, Room, after, empty, lasting, place, set_aside, through
from reference.slow import QUEUED, RUNNING, STOPPING, Amounts, Job, Slow, over

PLANNED = 8  # of each queue


class TooClose(Exception):
    """Two shares differ by less than sums of floats can be trusted for."""


def decide(slow: Slow, now: float, seed: int) -> tuple[Decision, ...]:
    return tuple(Round(slow, now, seed).run()) if slow.nodes else ()


class Round(Books):
    def __init__(self, slow: Slow, now: float, seed: int) -> None:
        super().__init__(slow, now)
        nodes = empty(slow.nodes, seed)
        self.nodes = {name: left for name, left in nodes.items() if name not in slow.drained}
        self.holds = [Hold("", Share(node, gpus=(d,)), -inf, inf) for node, d in slow.outside]
        for job in slow.placed():
            end = job.stop_at if job.state == STOPPING else job.since + slow.duration(job)
            self.keep(job, -inf, after(now, end), job.placement)
        self.going = {j.id for j in slow.placed() if j.state == STOPPING}
        self.waiting = slow.waiting()
        self.looked: list[Job] = []
        self.held_back: set[str] = set()
        self.favoured = {j.id for j in self.waiting if j.is_favoured}
        self.starts: dict[str, Placement] = {}
        self.blocked: list[str] = []  # the queues of those that are
        self.planned: list[str] = []  # and of those with a planned start
        self.closed: frozenset[str] = frozenset()  # what nobody behind may have
        # For those that would borrow: closed to their queues and to others that would.
        self.lent: frozenset[str] = frozenset()
        self.set_aside: list[Hold] = []
        self.borrowers: list[str] = []

    def keep(self, job: Job, begin: float, end: float, placement: Placement) -> None:
        self.holds += [Hold(job.id, share, begin, end) for share in placement.values()]

    def run(self) -> Iterator[Decision]:
        for job in self.slow.jobs.values():
            if job.state == QUEUED and job not in self.waiting:
                yield Refuse(job.id, "it can never run")
        while len(self.looked) < len(self.waiting):
            job = self.next_job([j for j in self.waiting if j not in self.looked])
            self.looked.append(job)
            yield from self.look(job)
        yield from (Start(id, placement) for id, placement in self.starts.items())

    def look(self, job: Job) -> Iterator[Decision]:
        if self.cap(job) is not None:
            self.held_back.add(job.id)
            return  # held: it stands in nobody's way
        found = self.earliest(job)
        if found is not None and found[0] == self.now:
            self.starts[job.id], self.held[job.id] = found[2], job.demand
            self.favoured.discard(job.id)
            self.keep(job, *found)
            return
        is_first, is_shut_out = job.queue not in self.blocked, bool(self.closed_to(job))
        self.blocked.append(job.queue)
        if self.planned.count(job.queue) == PLANNED:
            return
        if not self.is_coming(found) and (is_first or not is_shut_out):
            yield from self.make_room(job, is_first)
        found = self.kept(job) or self.earliest(job)
        if found is not None:
            self.planned.append(job.queue)
            self.keep(job, *found)
        elif not is_shut_out:
            self.close_to_others(job)

    def cap(self, job: Job) -> str | None:
        """With those counted for whom room is being made: nobody takes what a cap leaves them."""
        coming = [self.slow.jobs[id] for id in self.favoured - self.held_back - {job.id}]
        if job.id in self.favoured:
            coming = [j for j in coming if (j.seq, j.id) < (job.seq, job.id)]
        held, self.held = self.held, self.held | {j.id: j.demand for j in coming}
        cap, self.held = super().cap(job), held
        return cap or super().cap(job)

    # ---- order (2) ------------------------------------------------------------------------------

    def next_job(self, waiting: list[Job]) -> Job:
        first = [j for j in waiting if j.id in self.favoured]
        if first:
            return min(first, key=lambda j: (j.seq, j.id))
        if self.slow.rules.policy == "sjf":
            return min(waiting, key=lambda j: (self.slow.duration(j), j.seq, j.id))
        queues = sorted({j.queue for j in waiting})
        heads = {q: self.in_order([j for j in waiting if j.queue == q]) for q in queues}
        # Who would borrow comes after all who stay within what is theirs.
        now = [q for q, j in heads.items() if self.may_reclaim(j) or self.cannot_matter(j)]
        return self.in_order([j for j in waiting if j.queue in (now or queues)])

    def cannot_matter(self, job: Job) -> bool:
        """It cannot start, and no more of its queue are planned."""
        if self.planned.count(job.queue) < PLANNED:
            return False
        found = self.earliest(job)
        return self.cap(job) is not None or found is None or found[0] > self.now

    def in_order(self, waiting: list[Job]) -> Job:
        if self.slow.rules.policy == "fifo":
            return min(waiting, key=lambda j: (-j.priority, j.seq, j.id))
        queue = ROOT
        while children := self.slow.children(queue):
            queues = [c.name for c in children if any(self.slow.is_in(j, c.name) for j in waiting)]
            queue = least([(self.share(q), self.eldest(q), q) for q in queues])
        mine = [j for j in waiting if j.queue == queue]
        top = [j for j in mine if self.priority(j) == max(map(self.priority, mine))]
        return least([(self.share(queue, j.user), j, j) for j in top])

    def eldest(self, queue: str) -> Job:
        """Who has waited longest there, looked at or not."""
        return min((j for j in self.waiting if self.slow.is_in(j, queue)), key=lambda j: j.seq)

    # ---- where and when (4, 5) ------------------------------------------------------------------

    def earliest(self, job: Job) -> tuple[float, float, Placement] | None:
        """From when to when, and where."""
        for time in sorted({self.now, *(h.end for h in self.holds if self.now < h.end < inf)}):
            until = lasting(self.now, time, self.slow.duration(job))
            placement = place(self.room(job, time, until), job.ask)
            if placement is not None:
                return time, until, placement
        return None

    def kept(self, job: Job) -> tuple[float, float, Placement] | None:
        """If others go for it: what they leave, and what it needs beside that, from now on."""
        ends = [hold.end for hold in self.holds if hold.job in self.going]
        if job.id not in self.favoured or not ends:
            return None
        until = lasting(self.now, max(ends), self.slow.duration(job))
        placement = place(self.room_now(job, self.going), job.ask)
        return None if placement is None else (self.now, until, placement)

    def room(self, job: Job, begin: float, end: float, without: Collection[str] = ()) -> Room:
        """All the time between the two. Of what is closed to it, only what `without` gives."""
        holds = self.holds + ([] if self.is_let_past(job) else self.set_aside)
        room = through(self.nodes, [h for h in holds if h.job not in without], begin, end)
        closed = self.closed_to(job)
        if not closed:
            return room
        shut = through(self.nodes, holds, begin, end)
        for name, left in room.items():
            gpus = {d: of - max(shut[name].gpus[d], 0) for d, of in left.gpus.items()}
            room[name] = replace(
                left,
                cpus=left.cpus - max(0, shut[name].cpus) * (CPUS in closed),
                memory=left.memory - max(0, shut[name].memory) * (MEMORY in closed),
                gpus=gpus if GPUS in closed else left.gpus,
            )
        return room

    def room_now(self, job: Job, without: Collection[str] = ()) -> Room:
        return self.room(job, self.now, self.now + self.slow.duration(job), without)

    def fits_now(self, job: Job, without: Collection[str]) -> bool:
        return place(self.room_now(job, without), job.ask) is not None

    def lacks(self, job: Job) -> frozenset[str]:
        """The dimensions that are too short; if each alone would do, all that it uses."""
        room = self.room_now(job)
        return frozenset(d for d in uses(job) if place(room, only(d, job.ask)) is None) or uses(job)

    def close_to_others(self, job: Job) -> None:
        """Nobody knows when it will start: what it may need is set aside, what it lacks closed."""
        lacks, kept = self.lacks(job), list[Hold]()
        if lacks != uses(job):
            shares = set_aside(self.room_now(job), empty(self.slow.nodes), job.ask)
            kept = [Hold("", share, self.now, inf) for share in shares]
        if self.may_reclaim(job):
            self.holds, self.closed = self.holds + kept, self.closed | lacks
        else:
            self.set_aside, self.lent = self.set_aside + kept, self.lent | lacks
            self.borrowers.append(job.queue)

    def is_let_past(self, job: Job) -> bool:
        """Whether it need not wait for those that would borrow."""
        return job.queue not in self.borrowers and self.may_reclaim(job)

    def closed_to(self, job: Job) -> frozenset[str]:
        closed = self.closed if self.is_let_past(job) else self.closed | self.lent
        return closed & uses(job)

    # ---- who gives way (6) ----------------------------------------------------------------------

    def is_coming(self, found: tuple[float, float, Placement] | None) -> bool:
        """Whether its planned start waits for nothing but those that are going."""
        ends = [hold.end for hold in self.holds if hold.job in self.going]
        return found is not None and found[0] <= max(ends, default=-inf)

    def make_room(self, job: Job, is_first: bool) -> Iterator[Decision]:
        """The cheapest go until it fits; whoever turns out not to be needed is spared."""
        if self.fits_now(job, self.going):
            return  # it is only waited for
        gone, taken = set(self.going), []
        for victim in sorted(self.slow.placed(), key=self.cost):
            if self.may_go(victim, job, is_first, gone) and not self.fits_now(job, gone):
                gone.add(victim.id)
                taken.append(victim)
        if not self.fits_now(job, gone):
            return  # nobody goes in vain
        for victim in taken[::-1]:
            gone -= {victim.id} if self.fits_now(job, gone - {victim.id}) else set()
        if self.is_held_without(gone, job):
            return  # what they leave would be kept for others
        self.favoured.add(job.id)
        for victim in (v for v in taken if v.id in gone):
            self.going.add(victim.id)
            end = after(self.now, self.now + victim.stop_grace)
            self.holds = [replace(h, end=end) if h.job == victim.id else h for h in self.holds]
            yield Preempt(victim.id, job.id, "priority" if victim.queue == job.queue else "reclaim")

    def is_held_without(self, gone: Collection[str], job: Job) -> bool:
        held, self.held = self.held, {id: of for id, of in self.held.items() if id not in gone}
        cap, self.held = self.cap(job), held
        return cap is not None

    def cost(self, victim: Job) -> tuple[float, int]:
        """Work lost since it was last saved; of equals, the youngest goes first."""
        held = self.held[victim.id]
        lost = (held["gpus"] or held["cpus"]) * (self.now - max(victim.since, victim.saved))
        return lost, -victim.number

    def may_go(self, victim: Job, job: Job, is_first: bool, gone: Collection[str]) -> bool:
        is_spared = victim.state != RUNNING or victim.id in gone or victim.id in job.gave_way_to
        if is_spared or self.slow.rules.policy == "sjf":
            return False
        if victim.queue != job.queue:
            return self.may_reclaim(job) and self.is_borrowed(victim, job, gone)
        has_run = self.now - victim.since >= self.slow.rules.min_run_time
        is_lesser = self.priority(victim, victim.since) < job.priority
        return is_first and victim.preemptible and is_lesser and has_run

    def may_reclaim(self, job: Job) -> bool:
        """Whether its queue, and all above, stay within what they deserve with it counted, and
        with all that room is made for."""
        for queue in (rule.name for rule in self.slow.path(job.queue)):
            expected = [self.slow.jobs[id] for id in self.favoured | {job.id}]
            more = [j.demand for j in expected if self.slow.is_in(j, queue)]
            usage = sum(more, self.usage(queue, without=self.going))
            if over(usage, self.deserved[queue], job.demand):
                return False
        return True

    def is_borrowed(self, victim: Job, job: Job, gone: Collection[str]) -> bool:
        """Whether its queue, where the two paths part, has too much of what the job lacks; and it
        holds some of that."""
        theirs = [q for q in self.slow.path(victim.queue) if not self.slow.is_in(job, q.name)]
        lacks, top = self.lacks(job), theirs[-1].name
        short = Amounts({r: of for r, of in job.demand.items() if r.partition(".")[0] in lacks})
        is_over = over(self.usage(top, without=gone), self.deserved[top], short)
        return is_over and any(self.held[victim.id][r] for r in short)


def uses(job: Job) -> frozenset[str]:
    return frozenset(d for role in job.ask for d in role.uses)


def only(dimension: str, ask: Ask) -> Ask:
    """The same without the others."""
    none = {CPUS: 0.0, MEMORY: None, GPUS: 0}
    less: dict[str, Any] = {d: of for d, of in none.items() if d != dimension}
    return tuple(replace(role, **less) for role in ask)


def least(options: list[tuple[float, Job, Any]]) -> Any:
    """Of the smallest share; ties by submit order, then id."""
    for low, high in pairwise(sorted({share for share, _, _ in options if not isinf(share)})):
        if high - low < 1e-9 * max(1.0, high):
            raise TooClose(low, high)
    return min(options, key=lambda option: (option[0], option[1].seq, option[1].id))[2]
