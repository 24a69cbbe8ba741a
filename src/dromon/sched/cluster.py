"""What is known about nodes and jobs, indexed. `apply` is the only way in; nothing decides here."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from dromon.sched import events
from dromon.sched.accounts import Accounts
from dromon.sched.admit import at_the_door, is_welcome, never
from dromon.sched.asks import Ask
from dromon.sched.floor import Floor
from dromon.sched.job import FOREVER, QUEUED, RUNNING, STOPPING, Job, Shape
from dromon.sched.node import Node
from dromon.sched.placers import PLACERS, BestFit, Placer
from dromon.sched.policies import NONE, POLICIES, Policy
from dromon.sched.queues import Line, Queue
from dromon.sched.rules import Rules
from dromon.sched.scores import ScoreBook
from dromon.sched.usage import take_over

if TYPE_CHECKING:
    from dromon.sched.policies.repack import Ranking

__all__ = ["QUEUED", "RUNNING", "STOPPING", "Cluster", "Job", "Node"]


class Cluster(Floor):
    def __init__(
        self, rules: Rules | None = None, policy: Policy | None = None, placer: Placer | None = None
    ) -> None:
        super().__init__(rules or Rules())
        self.promised: dict[str, Job] = {}  # those for whom room is being made
        self.refused: dict[str, str] = {}  # waiting, but can never run -> why
        self.endless: set[str] = set()  # jobs of which nobody knows when they end
        self.shapes: dict[tuple[object, ...], Shape] = {}  # by the keys of their roles
        self._own_policy, self._own_placer = policy, placer
        self.scores = ScoreBook({}, BestFit(), self.index)
        self.ranking: Ranking | None = None  # kept by `policies.repack`
        self._choose()
        self._starts = 0

    @property
    def lines(self) -> dict[tuple[str, str, int, Shape], Line]:
        return self.accounts.lines

    def _choose(self) -> None:
        self.policy = self._own_policy or POLICIES[self.rules.policy]()
        self.placer = self._own_placer or PLACERS[self.rules.placement]()
        rules, policy = self.rules, self.policy
        # Nothing but who is first in fair order decides who starts: see `outright`.
        self.is_plain = (
            policy.is_fair and policy.backfills and policy.preemption == NONE
            and self.placer.name == "bestfit" and not rules.reservations and not rules.half_life
        )  # fmt: skip
        self.scores = ScoreBook(self.numbers, self.placer, self.index)

    def apply(self, event: events.Event) -> None:
        """Take note. What speaks of unknown jobs or nodes, or is old, changes nothing."""
        if self._tentative and type(event) is not events.JobStarted:
            self.settle()
        _APPLY[type(event)](self, event)

    def waiting(self) -> Iterator[Job]:
        for line in self.lines.values():
            yield from line.jobs

    def shape(self, ask: Ask) -> Shape:
        key = ask[0].key() if len(ask) == 1 else tuple([role.key() for role in ask])
        found = self.shapes.get(key)
        if found is None:
            if len(self.shapes) > 10_000:  # those that nobody has are as good as new
                used = {job.shape for job in self.jobs.values()}
                self.shapes = {k: s for k, s in self.shapes.items() if s in used}
            found = self.shapes[key] = Shape(ask, len(self.shapes))
        return found

    def position(self, id: str, now: float = 0.0) -> int | None:
        """1 for the first of its queue, in the order in which its jobs are looked at."""
        job = self.jobs.get(id)
        if job is None or job.state != QUEUED or id in self.refused:
            return None
        leaf = self.accounts.tree[job.queue]
        mine = self._rank(leaf, job, now)
        return 1 + sum(
            self._rank(leaf, other, now) < mine
            for member in leaf.members.values()
            for other in member.jobs
        )

    def _rank(self, leaf: Queue, job: Job, now: float) -> tuple[float, float, int, str]:
        risen = job.risen(leaf.rule.aging, now) if leaf.rule.aging else 0
        return (-job.priority - risen, leaf.members[job.user].share, job.seq, job.id)

    def wakes(self, now: float) -> float | None:
        """When deciding again could give something though nothing happens until then."""
        from dromon.sched.wakes import wakes

        return wakes(self, now)

    # ---- rules ----------------------------------------------------------------------------------

    def _rules_changed(self, event: events.RulesChanged) -> None:
        waiting = list(self.waiting())
        for job in waiting:
            self._accounts.dequeue(job)
        old, holders = self._accounts, self.holders()
        self.rules = event.rules
        self._accounts = Accounts(self.rules)
        self._accounts.set_total(old.total)
        for job in self._jobs.values():
            job.member = None
        # Budgets that are new count what runs from when it started, in their window.
        for job in sorted(holders, key=lambda job: (job.started, job.id)):
            self._accounts.charge(job, job.held, 1, min(job.started, event.time), 1)
            self.expect(job)
            self.touch(job)
        self._take_over(old)
        for job in waiting:
            self.expect(job)
            self._accounts.enqueue(job)
        self._choose()
        self._is_reviewed = False

    def _take_over(self, old: Accounts) -> None:
        """What was used stays used, where the new rules count it in the same way."""
        for name, queue in self._accounts.tree.items():
            before = old.tree.get(name)
            if before is None:
                continue
            pairs = [(queue.ledgers, before.ledgers)]
            for user, member in before.members.items():
                mine = queue.member(user, self.rules.half_life)
                pairs.append((mine.ledgers, member.ledgers))
                if mine.past is not None and member.past is not None:
                    mine.past.sums, mine.past.last = dict(member.past.sums), member.past.last
            if queue.past is not None and before.past is not None:
                queue.past.sums, queue.past.last = dict(before.past.sums), before.past.last
            for new, olds in pairs:
                take_over(new, olds)
        for (user, priority), earlier in old.ledgers.items():
            self._accounts.user_ledgers(user, priority or 0)
            take_over(self._accounts.ledgers.get((user, priority), []), earlier)
        self._accounts.refresh(0.0)

    def _used(self, event: events.Used) -> None:
        self._accounts.remember(event)

    # ---- jobs -----------------------------------------------------------------------------------

    def _job_submitted(self, event: events.JobSubmitted) -> None:
        if event.id in self._jobs:
            return
        job = self.make(event)
        self._jobs[job.id] = job
        self.expect(job)
        accounts = self._accounts
        if is_welcome(self, accounts, job):
            accounts.enqueue(job)
            return
        job.verdict = None if event.accepted else at_the_door(accounts, job)
        self._enter(job)

    def make(self, event: events.JobSubmitted) -> Job:
        return Job(
            event.id, event.seq, event.time, self.shape(tuple(event.ask)), event.priority,
            event.preemptible, event.user, event.queue, event.max_duration, event.stop_grace,
            event.checkpointed, event.elastic,
        )  # fmt: skip

    def _enter(self, job: Job) -> None:
        why = never(self, job)
        if why is None:
            self._accounts.enqueue(job)
        else:
            self._refuse(job, why)

    def _refuse(self, job: Job, why: str) -> None:
        self.refused[job.id] = why
        job.member = None  # its queue may be gone when it comes back

    def expect(self, job: Job) -> None:
        """How long planning takes it to last, and when to end."""
        duration = job.max_duration
        if duration is None:
            queue = self._accounts.tree.get(job.queue)
            duration = FOREVER if queue is None else queue.longest
        if duration == FOREVER:
            job.duration = FOREVER
            self.endless.add(job.id)
        else:
            job.duration = duration
            if self.endless:
                self.endless.discard(job.id)
        if job.state == RUNNING:
            job.end = job.started + job.duration

    def _job_started(self, event: events.JobStarted) -> None:
        if self._tentative:
            if self._confirm(event):
                return
            self.settle()
        job = self._jobs.get(event.id)
        if job is None or job.state != QUEUED:
            return
        if job.id in self.refused:
            del self.refused[job.id]
        else:
            self._accounts.dequeue(job)
        self.promised.pop(job.id, None)
        self._starts += 1
        job.start = self._starts
        self.occupy(job, event.placement, event.time)

    def _confirm(self, event: events.JobStarted) -> bool:
        """Is it what was decided? Then it is entered already."""
        found = self._tentative.get(event.id)
        if found is None or found[1] is not event.placement or found[2] != event.time:
            return False
        del self._tentative[event.id]
        job = found[0]
        job.state, job.placement = RUNNING, event.placement
        self._accounts.dequeue(job)
        self.promised.pop(job.id, None)
        self._starts += 1
        job.start = self._starts
        return True

    def _job_stopping(self, event: events.JobStopping) -> None:
        job = self._jobs.get(event.id)
        if job is None or job.state != RUNNING:
            return
        self.stopping.add(job.id)
        self.elastic.pop(job.id, None)
        job.state = STOPPING
        job.end = event.time + job.stop_grace
        self.touch(job)
        if event.for_job:
            job.for_job = event.for_job
            job.gave_way_to |= {event.for_job}
            self._promise(event.for_job)

    def _promise(self, id: str) -> None:
        waits = self._jobs.get(id)
        if waits is not None and waits.state == QUEUED and id not in self.refused:
            self.promised[id] = waits

    def _job_released(self, event: events.JobReleased) -> None:
        job = self._jobs.get(event.id)
        if job is None or job.state == QUEUED:
            return
        job.executed = job.attained(event.time) if event.executed is None else event.executed
        self.vacate(job, event.time)
        job.state, job.start, job.for_job, job.end = QUEUED, 0, "", FOREVER
        self._enter(job)

    def _job_ended(self, event: events.JobEnded) -> None:
        job = self._jobs.pop(event.id, None)
        if job is None:
            return
        if self.promised:
            self.promised.pop(job.id, None)
        if self.endless:
            self.endless.discard(job.id)
        if job.state != QUEUED:
            self.vacate(job, event.time)
        elif self.refused.pop(job.id, None) is None:
            self._accounts.dequeue(job)
        self._accounts.left(job)

    def _job_checkpointed(self, event: events.JobCheckpointed) -> None:
        job = self._jobs.get(event.id)
        if job is not None:
            job.checkpointed = event.time

    def _job_grown(self, event: events.JobGrown) -> None:
        job = self._jobs.get(event.id)
        if job is None or job.state == QUEUED:
            return
        fresh = {m: share for m, share in event.placement.items() if m not in job.placement}
        self.add_members(job, fresh, event.time)

    def _job_shrinking(self, event: events.JobShrinking) -> None:
        job = self._jobs.get(event.id)
        if job is not None and job.state == RUNNING:
            job.going |= set(event.members) & job.placement.keys()
            if job.going:
                self.shrinking.add(job.id)
                self.touch(job)
            if event.for_job:
                self._promise(event.for_job)

    def _job_shrunk(self, event: events.JobShrunk) -> None:
        job = self._jobs.get(event.id)
        if job is not None and job.state != QUEUED:
            self.drop_members(job, event.members, event.time)

    # ---- what can never run ---------------------------------------------------------------------

    def review(self) -> None:
        """After nodes or rules have changed: who can never run is not who it was."""
        if self._tentative:
            self.settle()
        if self._is_reviewed:
            return
        self._is_reviewed = True
        for job in list(self.waiting()):
            why = never(self, job)
            if why is not None:
                self._accounts.dequeue(job)
                self._refuse(job, why)
        for id in list(self.refused):
            why = never(self, self._jobs[id])
            if why is None:
                del self.refused[id]
                self._accounts.enqueue(self._jobs[id])
            else:
                self.refused[id] = why


_APPLY: Final[dict[type, Callable[[Cluster, Any], None]]] = {
    events.NodeJoined: Cluster._node_joined,
    events.NodeLeft: Cluster._node_left,
    events.NodeDrained: Cluster._node_drained,
    events.NodeOpened: Cluster._node_opened,
    events.GpuHeld: Cluster._gpu_held,
    events.GpuFreed: Cluster._gpu_freed,
    events.RulesChanged: Cluster._rules_changed,
    events.Used: Cluster._used,
    events.JobSubmitted: Cluster._job_submitted,
    events.JobStarted: Cluster._job_started,
    events.JobStopping: Cluster._job_stopping,
    events.JobReleased: Cluster._job_released,
    events.JobEnded: Cluster._job_ended,
    events.JobCheckpointed: Cluster._job_checkpointed,
    events.JobGrown: Cluster._job_grown,
    events.JobShrinking: Cluster._job_shrinking,
    events.JobShrunk: Cluster._job_shrunk,
}
