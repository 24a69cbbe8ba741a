"""What to do now: start, preempt, refuse, grow, shrink. Changes nothing that matters.

One pass in the policy's order. A job that breaks a cap is held and stands in nobody's way. One
that fits throughout its time starts. One that does not is blocked: it may make room, and it gets a
planned start that nobody behind it can delay; where something never ends, what it can have is set
aside and what it lacks is closed to those behind it.
"""

from collections.abc import Iterator
from math import inf, ulp

from dromon.sched.aside import set_aside
from dromon.sched.caps import Cap
from dromon.sched.cluster import Cluster
from dromon.sched.decisions import Decision, Grow, Preempt, Refuse, Shrink, Start
from dromon.sched.entered import Entered
from dromon.sched.growth import grow
from dromon.sched.hope import Hope
from dromon.sched.job import QUEUED, Job, Seat, Shape
from dromon.sched.later import Later
from dromon.sched.look import Look
from dromon.sched.order import FairOrder, OneLine
from dromon.sched.outright import outright
from dromon.sched.place import Turning, place_now
from dromon.sched.plan import Plan
from dromon.sched.policies import PRIORITY, REPACK
from dromon.sched.preempt import Outlook, Step, coming_room, give_way, lacking
from dromon.sched.queues import Queue
from dromon.sched.reserved import owners
from dromon.sched.walk import PLANNED, LeafWalk, is_shut, most_members

__all__ = ["Decision", "Grow", "Preempt", "Refuse", "Shrink", "Start", "decide", "dry_preempt"]


Alike = set[tuple[str, int, Shape, bool]]  # users, priorities, shapes, whether preemptible


def decide(cluster: Cluster, now: float, seed: int) -> tuple[Decision, ...]:
    if not cluster.numbers:
        return ()  # nobody can be refused before it is known what there is
    cluster.review()
    if cluster.policy.preemption == REPACK:
        from dromon.sched.policies.repack import repack

        return tuple(repack(cluster, cluster.policy, now, seed))
    found = outright(cluster, now)
    if found is not None:
        return found
    passage = Pass(cluster, now, seed)
    try:
        passage.run()
    finally:
        passage.undo()
    return tuple(passage.decisions)


def dry_preempt(cluster: Cluster, id: str, now: float, seed: int = 0) -> tuple[Decision, ...]:
    """Who would have to go if this waiting job were first in its queue and were let."""
    job = cluster.jobs.get(id)
    if job is None or job.state != QUEUED or id in cluster.refused or not cluster.nodes:
        return ()
    cluster.review()
    passage = Pass(cluster, now, seed)
    try:
        passage.look(job, passage.order.walk(cluster.accounts.tree[job.queue]), True)
    finally:
        passage.undo()
    return tuple(d for d in passage.decisions if isinstance(d, Preempt | Shrink))


class Pass(Entered):
    __deletable__ = ("hope", "later", "order")  # so that it can be compiled

    def __init__(self, cluster: Cluster, now: float, seed: int, sought: str | None = None) -> None:
        self.turn = Turning(cluster, seed)
        # Where it is about one job: stop there, and remember what was found.
        super().__init__(cluster, Plan(cluster, now, self.turn), now, sought)
        self.whole = self.plan
        self.look_found: Look | None = None
        self.later = Later(self.plan, self._jobs_of, self.as_before)
        self.shut: dict[Shape, float] = {}  # shape -> duration from which on it cannot start now
        self.accounts = cluster.accounts
        if cluster.rules.half_life:
            self.accounts.refresh(now)
        policy = cluster.policy
        self.may_preempt = policy.preemption == PRIORITY
        self.order: FairOrder | OneLine = (
            FairOrder(cluster, now, self.shut, self._passes_over, self._borrows)
            if policy.is_fair
            else OneLine(cluster, policy, now, self.shut)
        )  # fmt: skip
        self.blocked: list[Job] = []
        self.outlook: Outlook | None = None
        self.borrowing: set[str] = set()  # queues of blocked ones that would borrow, for ever
        self._held_back: set[str] = set()  # by a cap
        self.hope = Hope(self.plan, self.later, self.shut)
        self._is_only = False  # only one waits, and it is looked at
        self._is_ordered = False  # those who go before all others were looked at
        self._pressing: set[int] | None = None  # queues whose jobs may send others away

    def run(self) -> None:
        cluster = self.cluster
        # 1. What can never run is said, and stands in nobody's way.
        if cluster.refused:
            self.decisions += [Refuse(id, why) for id, why in cluster.refused.items()]
        # 2. Those for whom room is being made, then the others in order.
        for walk in self._walks():
            job = walk.next
            assert job is not None
            if self.sought == job.id:
                self.look(job, walk)
                if self.look_found is None:
                    continue  # it was put by
                return
            # 3. Start it, hold it, or plan it.
            if self._is_ordered and job.shape in self.shut and self._is_put_off(walk.leaf):
                job = self._pass_by(walk)
                if job is None:
                    continue
            self.look(job, walk)
            if self._is_only or not self._matters() or (self.started and self._is_alone()):
                break
        # 4. What nobody waits for goes to gangs that can use more.
        may_grow = self.may_grow or bool(cluster.elastic)
        if may_grow and not self.blocked and self.sought is None:
            grow(self)

    def undo(self) -> None:
        super().undo()
        # They know this pass in turn: nothing is to be left for the garbage collector to find.
        del self.hope, self.later, self.order

    def _walks(self) -> Iterator[LeafWalk]:
        tree, refused = self.accounts.tree, self.cluster.refused
        promised = list(self.cluster.promised.values())
        if promised:
            promised = [job for job in promised if job.id not in refused]
            promised.sort(key=lambda job: (job.seq, job.id))
        if not promised and len(self.accounts.lines) == 1 and (only := self._only()) is not None:
            walk = self.order.walk(tree[only.queue])
            walk.next = only
            self._is_only = True
            yield walk
            return
        for job in promised:
            walk = self.order.walk(tree[job.queue])
            walk.next, walk.cursor = job, None
            walk.seen.add(job.id)
            yield walk
        if self.plan.reservations:
            yield from self._owners()
        # Whoever asks for more devices than any node has free need not be tried.
        self.shut.update(self.accounts.larger(self.cluster.index.most))
        if not self._matters():
            return
        self._is_ordered = True
        while (found := self.order.next()) is not None:
            assert found.next is not None
            # Behind the last one that is planned only those matter who can start.
            if found.blocked < PLANNED and self._comes_later(found.next):
                self.order.put_by(found)
            else:
                yield found

    def _comes_later(self, job: Job) -> bool:
        """It would borrow, so those who stay within what their queues deserve come first: they
        would send it away again."""
        if not self.may_preempt or not self._is_ordered or self.order.is_last:
            return False
        return not self._outlook().is_within(job)

    def _borrows(self, leaf: Queue) -> bool:
        """Whoever waits there would borrow: it comes later."""
        return self.may_preempt and not self._outlook().may_be_within(leaf)

    def _owners(self) -> Iterator[LeafWalk]:
        """Until the first of them that cannot start: the others wait in the common order."""
        count = len(self.blocked)
        for job in owners(self.cluster, self.plan, set(self.cluster.promised)):
            walk = self.order.walk(self.accounts.tree[job.queue])
            walk.next, walk.cursor = job, None
            walk.seen.add(job.id)
            yield walk
            if len(self.blocked) > count:
                return

    def _matters(self) -> bool:
        """Could looking further still come to anything?"""
        if self.sought is not None or self.cluster.elastic:
            return True
        if self.may_preempt and self._may_press():
            return True
        return self.may_grow or self.hope.is_left()

    def _may_press(self) -> bool:
        """Is there a queue still to be looked at whose jobs could send others away?"""
        if not isinstance(self.order, FairOrder):
            return True
        pressing = self._pressing_queues()
        return bool(pressing) and not pressing <= self.order.done

    def _pressing_queues(self) -> set[int]:
        if self._pressing is None:
            over, less = self.accounts.over > 0, self._outlook().less
            self._pressing = {
                queue.number for queue in self.accounts.tree.values()
                if queue.shapes and queue.may_press(over, less)
            }  # fmt: skip
        return self._pressing

    def _outlook(self) -> Outlook:
        if self.outlook is None:
            self.outlook = Outlook(self.cluster)
        return self.outlook

    def look(self, job: Job, walk: LeafWalk, forced: bool = False) -> None:
        """Start it, hold it, or plan it."""
        self._choose_plan(job)
        self._look(job, walk, forced)
        if self.sought != job.id:
            self.plan = self.whole

    def _choose_plan(self, job: Job) -> None:
        """Beside what is kept for borrowers, where it need not wait for them."""
        self.plan = self.whole
        if self.borrowing and job.queue not in self.borrowing and self._outlook().is_within(job):
            self.plan = self.whole.without_borrowers()

    def _look(self, job: Job, walk: LeafWalk, forced: bool) -> None:
        plan = self.plan
        is_sought = self.sought == job.id
        closed = plan.closed & job.shape.uses
        if closed and not forced:
            if not walk.has_blocked or self._is_expected(job):
                if self.cap(job) is not None:
                    return self._held(job, walk, is_sought)
                if not walk.has_blocked:
                    walk.has_blocked = True
                    self._carry(job, self._make_room(job, True, closed))
                    closed = self.plan.closed & job.shape.uses
                if walk.blocked < PLANNED and self._keep_room(job, closed):
                    walk.blocked += 1
            self.blocked.append(job)
            if is_sought:
                self.look_found = Look(job, "closed", ahead=self.blocked[:-1])
            return walk.drop()
        cap = self.cap(job)
        if cap is not None:
            return self._held(job, walk, is_sought, cap)
        limit = self.shut.get(job.shape, inf)
        if job.duration < limit or limit == inf or self.borrowing:
            seats = place_now(plan, self.turn, job)
            if seats is not None and self.later.is_in_the_way(job):
                self.later.ask()
                seats = place_now(plan, self.turn, job)
            if seats is not None and walk.blocked >= PLANNED and self._comes_later(job):
                return self.order.put_by(walk)
            if seats is not None:
                was_any_over = self.accounts.over > 0
                self.start(job, seats)
                if self.accounts.over > 0 and not was_any_over:
                    self._pressing = None  # those within what they deserve may press from here on
                if is_sought:
                    self.look_found = Look(job, "starts")
                return walk.reorder()
            # What is reserved, or kept for borrowers, may be for others of the same shape.
            if not plan.reservations and not self.borrowing:
                self.shut[job.shape] = self._shut_from(job) if plan.bookings else 0.0
        self._block(job, walk, is_sought, forced)
        walk.advance()

    def cap(self, job: Job) -> Cap | None:
        """Which one holds it."""
        if self.outlook is None and not self.cluster.promised:
            return self.accounts.cap(job, self.now)
        return self.accounts.cap(job, self.now, coming=self._outlook().coming(job, self._held_back))

    def _shut_from(self, job: Job) -> float:
        """From which duration on nobody of its shape can start either."""
        role = job.shape.plain
        if role is None or not self.later.is_on():
            return job.duration
        until = self.later.until(job.shape, role)
        longer = until - self.now
        while self.now + longer <= until:
            longer += ulp(until)
        return min(job.duration, longer)

    def _held(self, job: Job, walk: LeafWalk, is_sought: bool, cap: Cap | None = None) -> None:
        """Nor may the others of its line start, for they ask as much."""
        self._held_back.add(job.id)
        if is_sought:
            self.look_found = Look(job, "held", cap=cap or self.cap(job))
        if self.accounts.has_guarantees and not job.preemptible:
            return walk.advance()  # of those behind it, some may be preemptible
        walk.drop()

    def _block(self, job: Job, walk: LeafWalk, is_sought: bool, forced: bool) -> None:
        is_first, walk.has_blocked = not walk.has_blocked, True
        ahead = list(self.blocked) if is_sought else []
        self.blocked.append(job)
        steps: list[Step] = []
        if walk.blocked < PLANNED:
            steps = self._make_room(job, is_first or forced, frozenset())
            self._carry(job, steps)
        planned = None
        if walk.blocked < PLANNED and (is_sought or not self._is_alone()):
            if self._keep_room(job, frozenset()):
                walk.blocked += 1
                planned = self.plan.planned[-1][1]
            elif self._may_wait(job):
                walk.blocked += 1
            elif (found := self._earliest(job)) is not None:
                walk.blocked += 1
                planned = found[0]
                self.plan.book(job, *found)
            else:
                self._close(job)
        if is_sought:
            victims = tuple(step[0].id for step in steps)
            self.look_found = Look(job, "blocked", planned=planned, ahead=ahead, victims=victims)

    def _is_put_off(self, leaf: Queue) -> bool:
        """Need nothing be done for a job there that cannot start but to keep its place, as long as
        its planned start is not needed?"""
        if self.cluster.elastic or self.sought is not None or not isinstance(self.order, FairOrder):
            return False
        if self.may_preempt and leaf.number in self._pressing_queues():
            return False
        return not (self.borrowing or self.plan.closed) and self.later.is_on()

    def _pass_by(self, walk: LeafWalk) -> Job | None:
        """Those at the head of a queue that cannot start now and are planned later; the first of
        whom that is not so."""
        shut, later = self.shut, self.later
        asks_nothing = later.asks_nothing()
        free: Alike = set()
        job = walk.next
        while job is not None:
            limit = shut.get(job.shape)
            if limit is None or job.duration < limit:
                return job
            if not self._is_free(job, free):
                self._held(job, walk, False)
                job = walk.peek()
                continue
            if walk.blocked < PLANNED:
                if asks_nothing:
                    later.put_off_freely(job)
                elif not self._may_wait(job):
                    return job
                walk.blocked += 1
            walk.has_blocked = True
            self.blocked.append(job)
            job = walk.pass_on()
            if job is not None and walk.blocked < PLANNED and self._comes_later(job):
                return None
        return None

    def _is_free(self, job: Job, free: Alike) -> bool:
        """No cap holds it. `free`: nor others like these, as was found before."""
        key = (job.user, job.priority, job.shape, job.preemptible)
        if key in free and not self._is_expected(job):
            return True
        if self.cap(job) is not None:
            return False
        free.add(key)
        return True

    def _may_wait(self, job: Job) -> bool:
        """Its planned start is not needed yet."""
        shape = job.shape
        if self.sought is not None or shape.plain is None:
            return False
        if not self.later.may_wait(shape, job.duration, shape.plain.min):
            return False
        self.later.put_off(job, shape.plain.min)
        return True

    def _passes_over(self, leaf: Queue) -> bool:
        """Nobody there could start, and none of its planned starts is needed yet."""
        shut = self.shut
        if not shut or not is_shut(leaf, shut) or self.may_grow or not self._is_put_off(leaf):
            return False
        if self.may_preempt and not self.order.is_last and not self._outlook().are_within(leaf):
            return False
        return self.later.passes_over(leaf, most_members(leaf, PLANNED))

    def _jobs_of(self, leaf: Queue) -> list[Job]:
        """Those to be planned of a queue that was passed over."""
        walk, found = self.order.walk(leaf), []
        free: Alike = set()
        job = walk.peek()
        while job is not None and walk.blocked < PLANNED:
            if not self._is_free(job, free):
                self._held(job, walk, False)
                job = walk.peek()
                continue
            found.append(job)
            walk.blocked += 1
            job = walk.pass_on()
        return found

    def _earliest(self, job: Job) -> tuple[float, list[Seat]] | None:
        if not self.cluster.policy.backfills:
            return None
        if self.plan is self.whole:
            return self.later.earliest(job)
        self.later.catch_up()
        return self.plan.earliest(job)

    def _is_expected(self, job: Job) -> bool:
        """Is room being made for it?"""
        if self.outlook is None:
            return job.id in self.cluster.promised
        return job.id in self.outlook.expected

    def _is_alone(self) -> bool:
        """Only one job waits: it cannot stand in anybody's way."""
        lines = self.accounts.lines
        return len(lines) == 1 and len(next(iter(lines.values())).jobs) == 1

    def _only(self) -> Job | None:
        """The only one who waits."""
        if not self._is_alone():
            return None
        return next(iter(self.accounts.lines.values())).jobs[0]

    # ---- what follows ---------------------------------------------------------------------------

    def _make_room(self, job: Job, is_first: bool, closed: frozenset[str]) -> list[Step]:
        if not self.may_preempt and not self.cluster.elastic:
            return []
        return give_way(
            self.plan, self.later, job, self._outlook(), is_first=is_first,
            may_preempt=self.may_preempt, closed=closed, untouchable=self.untouchable,
            coming=self._outlook().coming(job, self._held_back),
        )  # fmt: skip

    def _carry(self, job: Job, steps: list[Step]) -> None:
        """Say who goes; from here on they are expected to have gone after their grace."""
        if not steps:
            return
        if any(why == "elastic" for _, _, why in steps):
            self.later.catch_up()
        self.later.goes(len(self.stopped), sum(len(seats) for _, seats, _ in steps))
        self._pressing = None
        if job.id not in self.cluster.promised:
            self._outlook().expect(job)
        self.tell(job, steps)
        self.order.take_up()  # without those its queue holds less
        self._choose_plan(job)

    def _keep_room(self, job: Job, closed: frozenset[str]) -> bool:
        """What those leave who go for it is for nobody else, nor what it needs beside that."""
        if not self._is_expected(job):
            return False
        # Where those go who were told just now, `give_way` has looked for others.
        later = self.later if job.id in self.cluster.promised else None
        found = coming_room(self.plan, later, job, closed)
        if found is None:
            return False
        start, seats = found
        self.plan.book(job, start, seats, self.now)
        return True

    def _close(self, job: Job) -> None:
        """Nobody can know when it will start: keep what it may come to need, wherever it may come
        to be, and close what it lacks."""
        plan = self.plan
        short = lacking(plan, job)
        plans = [plan] if plan.other is None else [plan, plan.other]
        if not self._outlook().is_within(job):  # nobody within what is deserved waits for it
            self.borrowing.add(job.queue)
            plan.without_borrowers()
            plans = [plan]
        for each in plans:
            each.closed |= short
        if not self.borrowing:
            for shape in self.accounts.waiting_shapes:
                if shape.uses & short:
                    self.shut[shape] = 0.0
        if short == job.uses:
            return
        for node in self.cluster.nodes.values():
            for seat in set_aside(plan, node, job) if node.is_open else ():
                for each in plans:
                    each.keep(node, seat)
