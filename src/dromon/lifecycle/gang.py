"""One job's gang, from the queue to its verdict: events in, commands out.

The shell (the daemon, the ApplicationMaster, the agent of member 0) journals every event with its
time, calls `step`, and does what it is told; `Gang.replay` of that journal gives the same gang
again. Three duties are the shell's: (1) every Launch is answered by MemberReady, MemberExited or
MemberLost; (2) every StopMember is answered, in the end, by MemberExited or MemberLost, also when
no agent ever came; (3) a Tick comes at `wake_at`.

Deadlines pass only on a Tick, so that what happened while the shell was away is heard before it
is found to be too late. No clock, no I/O, no chance here.
"""

from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple, Type

from dromon.lifecycle import barrier, events, policy, states, wording
from dromon.lifecycle.attempt import Attempt
from dromon.lifecycle.duration import RunningTime
from dromon.lifecycle.events import Command, Event
from dromon.lifecycle.members import ImpossibleTransition, Members, MemberState
from dromon.lifecycle.plan import GangPlan
from dromon.lifecycle.verdict import Exit, Verdict


class Gang:
    def __init__(self, plan: GangPlan, *, prepared: bool = False) -> None:
        self.plan = plan
        self.state = states.QUEUED if prepared else states.PREPARING
        self.retries_used = 0
        self.verdict: Optional[Verdict] = None
        self.started: Optional[float] = None  # the first barrier opened
        self.ended: Optional[float] = None

        self._members = Members(plan)
        self._attempt = Attempt(plan, self._members, 0, 0.0, False)
        self._launched_at = 0.0
        self._queued_at: Optional[float] = None
        self._pendings = policy.pendings(plan)
        # A restart under way
        self._scope: Set[str] = set()  # to be launched again
        self._whole = False  # the whole gang: a new attempt
        self._requeue = False  # in a new place
        self.resized: List[str] = []  # the members of the next attempt, where they change
        self._due = 0.0
        self._quick_losses = 0
        # The end under way
        self._outcome: Optional[Tuple[str, Verdict]] = None
        self._blamed_at: Optional[float] = None  # when the blamed member ended, by its own record
        self._linger_until: Optional[float] = None
        self.time = RunningTime(plan.max_duration)

        self._out: List[Command] = []

    @classmethod
    def replay(
        cls, plan: GangPlan, history: Iterable[Tuple[float, Event]], *, prepared: bool = False
    ) -> "Gang":
        """The gang that heard all this. Its commands have been carried out already, or are owed
        again when the members next say where they are."""
        gang = cls(plan, prepared=prepared)
        for now, event in history:
            gang.step(event, now)
        return gang

    # ---- what one may ask -----------------------------------------------------------------------

    @property
    def is_terminal(self) -> bool:
        return states.is_terminal(self.state)

    @property
    def attempt(self) -> int:
        """0 before the first placement, then 1, 2, …"""
        return self._attempt.number

    @property
    def members(self) -> Dict[str, MemberState]:
        """Those placed now, or last, in rank order."""
        return self._members.now

    @property
    def world(self) -> barrier.Seats:
        """(member, rank, host, ports) by rank; empty until the attempt's barrier has opened."""
        return self._attempt.world

    @property
    def retry_at(self) -> Optional[float]:
        """When the back-off that runs now will be over."""
        return self._due if self.state == states.RESTARTING else None

    @property
    def gathers(self) -> bool:
        """Its members come to the barrier, and others still may."""
        return self.state == states.STARTING and not self._attempt.is_open

    @property
    def leaves(self) -> bool:
        """Its members are told to go, and its place will be free."""
        return self.state == states.STOPPING or self._requeue

    @property
    def going(self) -> Set[str]:
        """Those placed now who have no part in the next attempt."""
        return set(self.members).difference(self.resized) if self.resized else set()

    def overdue(self, now: float) -> List[str]:
        """Members that should have been killed by `now`: those who were to do it may hang."""
        return self._members.overdue(now)

    @property
    def wake_at(self) -> Optional[float]:
        """When the next Tick is wanted; a time in the past means now."""
        times: List[float] = []
        if self.state == states.QUEUED and self._pendings:
            since = self._queued_at
            times.append(0.0 if since is None else since + self._pendings[0][0])
        if self.state == states.STARTING:
            if self._attempt.may_open(self._attempt.patient_until):
                times.append(self._attempt.patient_until)
            if self._attempt.has(states.LAUNCHED):
                times.append(self._launched_at + policy.absence(self.plan))
        if self.state == states.RESTARTING and not self._members.live(self._scope):
            times.append(self._due)
        if self.state == states.STOPPING:
            if self._linger_until is not None:
                times.append(self._linger_until)
        elif self.time.deadline is not None:
            times.append(self.time.deadline)
        return min(times) if times else None

    # ---- the one entry --------------------------------------------------------------------------

    def step(self, event: Event, now: float) -> List[Command]:
        """Hear one event; what is to be done now, in this order."""
        if self.is_terminal:
            return []
        if self.state == states.QUEUED and self._queued_at is None:
            self._queued_at = now
        self._out = []
        for each in event.parts:
            handler = _HANDLERS.get(type(each))
            if handler is not None:
                handler(self, each, now)
        self._settle(now)
        return self._out

    def _settle(self, now: float) -> None:
        """Go on as far as what is known allows."""
        if self._whole and not self._members.are_live:
            self.time.ends(now)
        if self.state == states.RESTARTING:
            self._relaunch(now)
        if self.state == states.STARTING:
            self._gather(now)
        if self.state == states.STOPPING and self._outcome and not self._members.are_live:
            self._finish(*self._outcome, now)

    # ---- events ---------------------------------------------------------------------------------

    def _on_prepared(self, event: events.Prepared, now: float) -> None:
        if self.state == states.PREPARING:
            self._move(states.QUEUED)
            self._queued_at = now

    def _on_prepare_failed(self, event: events.PrepareFailed, now: float) -> None:
        if self.state in (states.PREPARING, states.QUEUED):
            self._finish(states.FAILED, wording.unprepared(event.cause, event.message), now)

    def _on_placed(self, event: events.Placed, now: float) -> None:
        names = self._members.known(event.members)
        if self.state == states.QUEUED and barrier.is_enough(self.plan, names):
            self._launch_all(names, now, event.is_all)
        elif self.gathers:
            self._launch([name for name in names if name not in self.members], now)

    def _on_ready(self, event: events.MemberReady, now: float) -> None:
        name, member = event.member, self._members.current(event.member, event.run)
        if member is None:
            return
        if member.state == states.ENDING:
            self._out.append(self._members.stop_again(name, now))
        elif name not in self._attempt.admitted:
            self._members.change(name, states.READY, host=event.host, ports=tuple(event.ports))
        elif member.state == states.READY:
            self._open((name,))

    def _on_started(self, event: events.MemberStarted, now: float) -> None:
        name, member = event.member, self._members.current(event.member, event.run)
        if member is None or name not in self._attempt.admitted:
            return
        if member.state == states.ENDING:
            self._members.change(name, states.ENDING, pid=event.pid)
            self._out.append(self._members.stop_again(name, now))
        else:
            self._members.change(name, states.UP, pid=event.pid)

    def _on_exited(self, event: events.MemberExited, now: float) -> None:
        name, member = event.member, self._members.current(event.member, event.run)
        if member is None:
            return
        exit = event.record
        kind = policy.kind_of(exit)
        if member.state == states.ENDING:
            self._blame_if_earlier(name, exit)
            self._members.change(name, states.DONE, exit=exit)
        elif not kind and name in self._attempt.admitted:
            self._members.change(name, states.DONE, exit=exit)
            self._on_success(name, now)
        else:
            # Without the world a member cannot have done its work, whatever its exit says.
            self._members.change(name, states.BROKEN, exit=exit)
            who = self._who(name)
            verdict = wording.failed(who, exit) if kind else wording.too_early(who)
            self._on_failure(name, kind or "member_failed", verdict, now, exit)

    def _on_taken(self, event: Any, now: float) -> None:
        name, member = event.member, self._members.current(event.member, event.run)
        if member is None:
            return
        self._members.change(name, states.GONE)
        if member.state != states.ENDING:
            kind = "member_lost" if isinstance(event, events.MemberLost) else "member_evicted"
            verdict = wording.taken(self._who(name), kind, event.message)
            self._on_failure(name, kind, verdict, now)

    def _on_stop(self, event: events.StopRequested, now: float) -> None:
        grace = self.plan.stop_grace if event.grace is None else event.grace
        verdict = wording.stopped(self.attempt, event.by, self.started is not None)
        if self.state in (states.PREPARING, states.QUEUED):
            self._finish(states.STOPPED, verdict, now)
        elif self.state != states.STOPPING:
            self._end(states.STOPPED, verdict)
        self._stop(self.members, "stop", grace, now)  # one that ends already may only do so sooner

    def _on_preempt(self, event: events.PreemptRequested, now: float) -> None:
        if self.state in (states.PREPARING, states.QUEUED):
            return
        most = self.plan.stop_grace
        grace = most if event.grace is None else min(most, event.grace)
        if self.state != states.STOPPING:
            self._restart(self.members, now, whole=True, requeue=True)
            self._due = now
        self._stop(self.members, "preempt", grace, now)

    def _on_resize(self, event: events.ResizeRequested, now: float) -> None:
        names = self._members.known(event.members)
        queued = self.state in (states.PREPARING, states.QUEUED)
        if queued or self.leaves or not barrier.is_enough(self.plan, names):
            return
        if self.gathers and self.members.keys() <= set(names):  # nobody has a seat yet
            return self._launch([name for name in names if name not in self.members], now)
        self.resized = names
        self._restart(self.members, now, whole=True)
        self._stop(self.members, "resize", self.plan.stop_grace, now)

    def _on_tick(self, event: events.Tick, now: float) -> None:
        deadline = self.time.deadline
        if self.state == states.QUEUED:
            self._leave_queue_when_overdue(now)
        elif self.state == states.STOPPING:
            if self._linger_until is not None and now >= self._linger_until:
                self._linger_until = None
                self._stop(self.members, "complete", self.plan.stop_grace, now)
        elif deadline is not None and now >= deadline:
            self._end(states.FAILED, wording.over_time(self.attempt, self.plan.max_duration))
            self._stop(self.members, "timeout", self.plan.stop_grace, now)
        elif self.state == states.STARTING and not self._attempt.may_open(now):
            self._give_up_absent(now)

    # ---- what the end of a member means ---------------------------------------------------------

    def _on_success(self, name: str, now: float) -> None:
        if self.state == states.STOPPING:
            return
        role = barrier.role_of(name)
        self._attempt.succeeded.add(name)
        self._answer_success(name, "exit_code:0", f"{self._who(name)} succeeded", now)
        asked = policy.action_for(self.plan, role, ("role_completed",))
        if asked and self._attempt.of_role(role) <= self._attempt.succeeded:
            self._answer_success(name, "role_completed", f"role {role} completed", now)
        self._complete_when_done(now)

    def _answer_success(self, name: str, key: str, what: str, now: float) -> None:
        action = policy.action_for(self.plan, barrier.role_of(name), (key,))
        if self.state == states.STOPPING:
            return
        if action == "complete_job":
            self._complete(what, now)
        elif action == "abort_job":
            self._fail(wording.by_policy(self._who(name), what, key), now)
        elif action.startswith("restart") and self.retries_used < self.plan.max_retries:
            # Counted like a failure, or a job could start over for ever; once the retries are
            # used up, the success is taken for what it is.
            self._retry(name, action, now)

    def _on_failure(
        self, name: str, kind: str, verdict: Verdict, now: float, exit: Optional[Exit] = None
    ) -> None:
        """A member ended, or is given up, against the job's will."""
        attempt = self._attempt
        if self.state == states.STOPPING or not attempt.takes_part(name):
            return  # nobody needs it any more; or it only waited for the next attempt
        attempt.first_failure = attempt.first_failure or verdict
        action = policy.action_for(self.plan, barrier.role_of(name), policy.keys_of(kind, exit))
        on_the_way = (states.LAUNCHED, states.READY)
        if action == "ignore" and (attempt.is_open or attempt.can_start(*on_the_way)):
            attempt.excused.add(name)
            self._complete_when_done(now)
        elif action == "complete_job":
            self._complete(verdict.message, now)
        elif not action.startswith("restart"):
            self._fail(verdict, now, exit)
        elif kind != "member_failed":  # a loss never uses a retry
            whole = action == "restart_job"
            due = now + self._pause_after_loss(now)
            self._restart(self._scope_of(name, action), due, whole=whole, requeue=whole)
            self._stop(self._scope, "failure", self.plan.stop_grace, now)
        elif self.retries_used < self.plan.max_retries:
            self._retry(name, action, now)
        else:
            self._fail(verdict, now, exit)

    def _blame_if_earlier(self, name: str, exit: Exit) -> None:
        """The first failure heard of need not be the first that happened: when one member dies,
        the others' broken connections may be reported sooner."""
        if self._blamed_at is None or exit.stopped or not 0 < exit.ended < self._blamed_at:
            return
        if policy.kind_of(exit) == "member_failed" and name in self._attempt.admitted:
            self._blamed_at = exit.ended
            self._outcome = (states.FAILED, wording.failed(self._who(name), exit))

    # ---- restarts -------------------------------------------------------------------------------

    def _retry(self, name: str, action: str, now: float) -> None:
        self.retries_used += 1
        due = now + policy.backoff(self.plan, self.retries_used)
        self._restart(self._scope_of(name, action), due, whole=action == "restart_job")
        self._stop(self._scope, "failure", self.plan.stop_grace, now)

    def _scope_of(self, name: str, action: str) -> Set[str]:
        if action == "restart_job":
            return set(self.members)
        return (
            {name} if action == "restart_member" else self._attempt.of_role(barrier.role_of(name))
        )

    def _restart(
        self, names: Iterable[str], due: float, *, whole: bool, requeue: bool = False
    ) -> None:
        """Plan it; `_relaunch` does it once these members have ended and `due` has come."""
        if self.state != states.RESTARTING:
            self._move(states.RESTARTING)
            self._due = due
        self._scope.update(names)
        self._attempt.starts_over(self._scope)
        self._due = max(self._due, due)
        self._whole = self._whole or whole
        self._requeue = self._requeue or requeue

    def _pause_after_loss(self, now: float) -> float:
        is_quick = self.time.of_attempt(now) < policy.QUICK_LOSS
        self._quick_losses = self._quick_losses + 1 if is_quick else 0
        return policy.backoff(self.plan, self._quick_losses - 1) if self._quick_losses > 1 else 0.0

    def _relaunch(self, now: float) -> None:
        if self._members.live(self._scope) or now < self._due:
            return
        if not self._whole:
            names = self._members.known(self._scope)
            self._forget_restart()
            self._move(states.STARTING)
            self._launch(names, now)
        elif self._requeue or any(m.state == states.GONE for m in self.members.values()):
            self._forget_restart()
            self._move(states.QUEUED)
            self._queued_at = now
            self._out.append(events.Release())
        else:
            self._launch_all(self.resized or list(self.members), now, self._attempt.is_all)

    def _forget_restart(self) -> None:
        self._scope, self.resized = set(), []
        self._whole = self._requeue = False

    def _launch_all(self, names: List[str], now: float, is_all: bool) -> None:
        """A new attempt. Who chose its members waits for no others."""
        patience, is_all = (0.0, True) if self.resized else (self.plan.gang_wait, is_all)
        self._forget_restart()
        self._move(states.STARTING)
        self._members.clear()
        self._attempt = Attempt(self.plan, self._members, self.attempt + 1, now + patience, is_all)
        self._launch(names, now)

    def _launch(self, names: List[str], now: float) -> None:
        for name in names:
            self._launched_at = now
            self._attempt.admitted.discard(name)
            run = self._members.launch(name, self._attempt.rank(name))
            self._out.append(events.Launch(name, run, self.attempt))

    # ---- the barrier ----------------------------------------------------------------------------

    def _gather(self, now: float) -> None:
        if self._attempt.is_open:
            joining = self._attempt.joining()
            if all(self.members[name].state == states.READY for name in joining):
                self._move(states.RUNNING)
                self._open(tuple(joining))
        elif self._attempt.may_open(now):
            self._move(states.RUNNING)
            self.time.begins(now)
            self.started = now if self.started is None else self.started
            self._open(tuple(self._attempt.standing(states.READY)))

    def _open(self, names: Tuple[str, ...]) -> None:
        """Deliver the world to these: all, some that were restarted, or one that asks again."""
        if names:
            self._attempt.admit(names)
            self._out.append(events.OpenBarrier(self.attempt, self._attempt.world, names))

    def _give_up_absent(self, now: float) -> None:
        if now < self._launched_at + policy.absence(self.plan):
            return
        for name in self._attempt.standing(states.LAUNCHED):
            if self.members[name].state == states.LAUNCHED:
                # It may be there and unheard, so it is stopped and its end awaited.
                self._stop([name], "failure", self.plan.stop_grace, now)
                verdict = wording.absent(self._who(name), now - self._launched_at)
                self._on_failure(name, "member_lost", verdict, now)

    # ---- ends -----------------------------------------------------------------------------------

    def _leave_queue_when_overdue(self, now: float) -> None:
        seconds, action, key = self._pendings[0] if self._pendings else (0.0, "", "")
        if not action or self._queued_at is None or now < self._queued_at + seconds:
            return
        state = states.SUCCEEDED if action == "complete_job" else states.FAILED
        self._finish(state, wording.waited_too_long(self.attempt, key, action), now)

    def _complete(self, what: str, now: float) -> None:
        """A policy says that this completes the job."""
        self._end(states.SUCCEEDED, wording.completed(self.attempt, what))
        self._stop(self.members, "complete", self.plan.stop_grace, now)

    def _complete_when_done(self, now: float) -> None:
        """The members that decide have all ended: those that serve them may go."""
        done = self._attempt.completion()
        if done is None or self.state == states.STOPPING:
            return
        if done.ignored == done.needed and self._attempt.first_failure is not None:
            return self._fail(self._attempt.first_failure, now)
        followers = self._attempt.followers()
        self._end(states.SUCCEEDED, wording.succeeded(self.attempt, self._attempt.size, *done))
        self._stop(self.members.keys() - followers, "complete", self.plan.stop_grace, now)
        self._linger_until = now + self.plan.linger if followers else None

    def _fail(self, verdict: Verdict, now: float, exit: Optional[Exit] = None) -> None:
        self._blamed_at = exit.ended if exit is not None and exit.ended else None
        self._end(states.FAILED, verdict)
        self._stop(self.members, "failure", self.plan.stop_grace, now)

    def _end(self, state: str, verdict: Verdict) -> None:
        """Settle the outcome; `_settle` finishes the job when its members have ended."""
        self._forget_restart()
        self._move(states.STOPPING)
        self._outcome = (state, verdict)

    def _finish(self, state: str, verdict: Verdict, now: float) -> None:
        self.time.ends(now)
        self._move(state)
        if state != states.STOPPED:
            verdict = wording.after_retries(verdict, self.retries_used)
        self.verdict, self.ended = verdict, now
        self._out.append(events.Finish(state, verdict))

    def _stop(self, names: Iterable[str], reason: str, grace: float, now: float) -> None:
        self._out.extend(self._members.stop(names, reason, grace, now))

    def _who(self, name: str) -> wording.Who:
        return wording.Who(name, self.members[name].rank, self.attempt, self._attempt.size == 1)

    def _move(self, state: str) -> None:
        if state not in states.JOB[self.state]:
            raise ImpossibleTransition(f"{self.plan.job}: {self.state} -> {state}")
        self.state = state


_HANDLERS: Dict[Type[Event], Callable[[Gang, Any, float], None]] = {
    events.Prepared: Gang._on_prepared,
    events.PrepareFailed: Gang._on_prepare_failed,
    events.Placed: Gang._on_placed,
    events.MemberReady: Gang._on_ready,
    events.MemberStarted: Gang._on_started,
    events.MemberExited: Gang._on_exited,
    events.MemberLost: Gang._on_taken,
    events.MemberEvicted: Gang._on_taken,
    events.StopRequested: Gang._on_stop,
    events.PreemptRequested: Gang._on_preempt,
    events.ResizeRequested: Gang._on_resize,
    events.Tick: Gang._on_tick,
}
