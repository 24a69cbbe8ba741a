"""The simulation: a trace's jobs, nodes, and the very `decide` that the live daemon asks.

Time jumps from event to event: a job comes, ends, has been stopped, has lost its patience, or the
scheduler wants to be asked again. All that happens at one time is told first; then it is decided.
What happened is written into an `Outcome`; nothing is summed up here.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide
from dromon.sched.decisions import Decision, Preempt, Refuse, Start
from dromon.sched.events import JobEnded, JobReleased, JobStarted, JobStopping, JobSubmitted
from dromon.sched.policies import REPACK
from dromon.sim.asking import Asks
from dromon.sim.costs import Costs
from dromon.sim.outcome import DROPPED, REFUSED, Outcome
from dromon.sim.trace import FOREVER, TraceJob

END, RELEASE, LEAVE = range(3)  # what a pending event is; at one time, in this order
STEP = 512  # events between two words about the progress


class Probe(Protocol):
    """Looks at the cluster after every event; for what cannot be told from jobs alone."""

    def look(self, cluster: Cluster, now: float, outcome: Outcome) -> None: ...


class Simulation:
    """One run. A job goes by its place in the trace here, and by its id in the scheduler."""

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        cluster: Cluster,
        asks: Asks,
        costs: Costs,
        *,
        patience: float | None = None,
        blind: bool = False,
        seed: int = 0,
    ) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self.costs = costs
        self.outcome = Outcome(jobs)
        self._asks = asks
        self._places = {job.id: place for place, job in enumerate(jobs)}
        self._patience = patience
        self._blind = blind
        self._seed = seed
        self._repacks = cluster.policy.preemption == REPACK
        self._pending: list[tuple[float, int, int, int]] = []  # time, what, job, its run
        self._runs: dict[int, int] = {}  # job -> how often it was stopped, where it was
        self._since: dict[int, float] = {}  # running job -> when this run began
        self._left: dict[int, float] = {}  # job -> work left, where it has run before
        self._may_wake = may_wake(cluster)
        self._wakes = FOREVER
        self._waiting = 0
        self._came = 0

    def through(
        self, probe: Probe | None = None, on_progress: Callable[[int], None] | None = None
    ) -> Outcome:
        """All of it. `on_progress` hears now and then how many jobs are over."""
        outcome, events = self.outcome, 0
        while (now := self._next()) < FOREVER:
            self._happen(now)
            self._decide(now)
            outcome.note(now)
            events += 1
            if probe is not None:
                probe.look(self.cluster, now, outcome)
            if on_progress is not None and not events % STEP:
                on_progress(outcome.ended)
        return outcome

    def _next(self) -> float:
        """When something happens next; FOREVER: nothing does."""
        now = self._pending[0][0] if self._pending else FOREVER
        if self._came < len(self.jobs):
            submit = self.jobs[self._came].submit
            if submit < now:
                now = submit
        return now if now < self._wakes else self._wakes

    # ---- what happens ---------------------------------------------------------------------------

    def _happen(self, now: float) -> None:
        pending, runs = self._pending, self._runs
        while pending and pending[0][0] <= now:
            _, what, place, run = heappop(pending)
            if what == LEAVE:
                self._leave(place, now)
            elif run != runs.get(place, 0):
                continue  # it was stopped meanwhile
            elif what == END:
                self._end(place, now)
            else:
                self._release(place, now)
        jobs = self.jobs
        while self._came < len(jobs) and jobs[self._came].submit <= now:
            self._submit(self._came, jobs[self._came], now)
            self._came += 1

    def _submit(self, place: int, job: TraceJob, now: float) -> None:
        longest = job.max_duration
        if longest is None and not self._blind and job.duration < FOREVER:
            longest = self.costs.work(job)
        self.cluster.apply(
            JobSubmitted(
                job.id, place, now, self._asks.of(job), job.priority, job.preemptible,
                job.user, job.queue, longest, job.stop_grace,
            )
        )  # fmt: skip
        self._waiting += 1
        if self._patience is not None:
            heappush(self._pending, (now + self._patience, LEAVE, place, 0))

    def _end(self, place: int, now: float) -> None:
        self.cluster.apply(JobEnded(self.jobs[place].id, now))
        self.outcome.finish(place, now, now - self._since.pop(place))

    def _release(self, place: int, now: float) -> None:
        """It has given way; what it did is safe."""
        ran = now - self._since.pop(place)
        left = self._left[place] = self._work_left(place, ran)
        done = self.costs.work(self.jobs[place]) - left
        self.cluster.apply(JobReleased(self.jobs[place].id, now, done))
        self.outcome.interrupt(place, ran)
        self._waiting += 1

    def _work_left(self, place: int, ran: float) -> float:
        """After so many more seconds."""
        job = self.jobs[place]
        return self._left.get(place, self.costs.work(job)) - self.costs.done(job, ran)

    def _leave(self, place: int, now: float) -> None:
        if place not in self._since and self.outcome.is_open(place):
            self.cluster.apply(JobEnded(self.jobs[place].id, now))
            self.outcome.close(place, DROPPED, now)
            self._waiting -= 1

    # ---- what is decided ------------------------------------------------------------------------

    def _decide(self, now: float) -> None:
        if not self._waiting and not self._repacks:
            return
        while self._carry_out(decide(self.cluster, now, self._seed), now) and not self._repacks:
            pass
        if self._may_wake:
            wakes = self.cluster.wakes(now)
            self._wakes = FOREVER if wakes is None else wakes

    def _carry_out(self, decisions: Sequence[Decision], now: float) -> bool:
        """True: somebody has gone at once, so that more may be possible now."""
        freed = False
        for decision in decisions:
            if type(decision) is Preempt:
                freed |= self._stop(self._places[decision.job], decision.for_job, now)
        for decision in decisions:
            if type(decision) is Start:
                self._start(self._places[decision.job], decision, now)
            elif type(decision) is Refuse:
                self.cluster.apply(JobEnded(decision.job, now))
                self.outcome.close(self._places[decision.job], REFUSED, now, decision.reason)
                self._waiting -= 1
        return freed

    def _stop(self, place: int, for_job: str, now: float) -> bool:
        self.cluster.apply(JobStopping(self.jobs[place].id, now, for_job))
        run = self._runs[place] = self._runs.get(place, 0) + 1  # the end foreseen will not come
        grace = self.jobs[place].stop_grace
        if grace and not self._repacks:
            heappush(self._pending, (now + grace, RELEASE, place, run))
            return False
        self._release(place, now)
        return True

    def _start(self, place: int, decision: Start, now: float) -> None:
        self.cluster.apply(JobStarted(decision.job, decision.placement, now))
        self._waiting -= 1
        self._since[place] = now
        self.outcome.start(place, now)
        self._foresee(place, now)

    def _foresee(self, place: int, now: float) -> None:
        """When it will end if nobody interrupts it."""
        job, left = self.jobs[place], self._left.get(place)
        span = self.costs.span(job, self.costs.work(job) if left is None else left)
        if span < FOREVER:
            heappush(self._pending, (now + span, END, place, self._runs.get(place, 0)))


def may_wake(cluster: Cluster) -> bool:
    """Could time alone ever change a decision? Where it cannot, nobody asks after every event."""
    rules = cluster.rules
    return (
        hasattr(cluster.policy, "wakes")
        or bool(rules.reservations or rules.min_run_time)
        or any(queue.budgets or queue.aging for queue in rules.queues)
        or any(user.budgets for user in rules.users)
        or any(each.user_budget for each in rules.priorities)
    )
