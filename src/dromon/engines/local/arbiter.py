"""Who runs on this machine: jobs, the scheduler's state, the journal. No sockets, no processes.

Everything that happens passes through here in one order: the event goes to the journal, the
journal is committed, and only then its effects are carried out (`flush`). Killed between any two
steps, a new daemon reads the journal and carries out what is still owed.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dromon.agent.devices import Locks
from dromon.coordinator.coordinator import Effect, Keep, Send
from dromon.engines.base import Submission
from dromon.engines.gang import priority
from dromon.engines.local import jobs, usage
from dromon.engines.local.deciding import OwnScheduler, Scheduler
from dromon.engines.local.jobs import Job
from dromon.engines.local.journal import Journal, JournalFull, Row
from dromon.engines.local.machine import Machine
from dromon.engines.local.rulebook import Rulebook
from dromon.lifecycle import events as ev
from dromon.lifecycle import states
from dromon.sched import events as sched
from dromon.sched.asks import Placement, RoleAsk
from dromon.sched.decisions import Grow, Preempt, Refuse, Shrink, Start
from dromon.units import counted

log = logging.getLogger("dromon.arbiter")
PLACEMENT = "_placement"  # journalled beside the gang's events: where the members were put
SAME = 0.5  # seconds; a checkpoint is told as so long ago, which is not exact
ENVIRONMENT = "_environment"  # which interpreter the build gave


class Hands(Protocol):
    """What the arbiter has done for it once it is on disk."""

    def send(self, peer: int, message: dict[str, Any]) -> None: ...
    def prepare(self, job: Job) -> None: ...
    def launch(self, job: Job, launches: list[ev.Launch]) -> None: ...
    def keep_outputs(self, job: Job) -> None: ...
    def clean(self, job: Job) -> None: ...


class Arbiter:
    def __init__(
        self,
        journal: Journal,
        machine: Machine,
        locks: Locks,
        hands: Hands,
        user: str,
        scheduler: Scheduler | None = None,
        rulebook: Rulebook | None = None,
        groups: frozenset[str] = frozenset(),
    ) -> None:
        self.journal = journal
        self.machine = machine
        self.locks = locks
        self.hands = hands
        self.user = user
        self.groups = groups
        self.rulebook = rulebook
        self.kinds = {device.uuid: device.kind for device in machine.gpus}
        self.jobs: dict[str, Job] = {}
        self.scheduler: Scheduler = scheduler or OwnScheduler(
            machine, rulebook.rules if rulebook is not None else None, self._gathers
        )
        self._number = journal.last_number()
        self._after: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._touched: dict[str, Job] = {}
        self._awake: dict[str, Job] = {}
        self.late: dict[str, Job] = {}  # something happened to them that watchers do not know yet

    # ---- jobs come in ---------------------------------------------------------------------------

    def submit(self, submissions: list[Submission], now: float) -> list[tuple[Row, bool]]:
        """Each job's row, and whether it is new: the same id twice is one job. All are committed
        when this returns; when one is refused, or the disk refuses, none is accepted."""
        self.journal.commit()
        number = self._number
        rows: list[tuple[Row, bool]] = []
        new: list[tuple[Row, Submission, tuple[Any, ...]]] = []
        known = self.journal.jobs([submission.id for submission in submissions])
        fitting: set[tuple[Any, ...]] = set()
        for submission in submissions:
            row = known.get(submission.id)
            if row is None:
                request = self.admitted(submission.request)
                submission = submission._replace(request=request)
                asks = role_asks(request)
                number += 1
                row = _row(submission, number, now)
                alike = (asks, request["queue"], request["gang"]["max_duration"])
                if alike not in fitting:
                    self.scheduler.admit(self._submitted(row.id, number, now, request), now)
                    fitting.add(alike)
                new.append((row, submission, asks))
                rows.append((row, True))
            else:
                rows.append((row, False))
        for row, _, _ in new:
            self.journal.add_job(row)
        try:
            self.journal.commit()
        except JournalFull:
            self.journal.withdraw(len(new))
            raise
        self._number = number
        for row, submission, asks in new:
            self._take_up(row, submission, asks)
        return rows

    def _take_up(self, row: Row, submission: Submission, asks: tuple[Any, ...]) -> None:
        job = self.jobs[row.id] = Job(row, submission.request)
        job.told = row.state
        if any(key.startswith("pending:") for key in _policies(submission.request)):
            self._touched[job.id] = job  # its gang wants to be woken in the queue
        if job.prepared:
            self._enqueue(job, asks)
        else:
            self._after.append((self.hands.prepare, (job,)))

    def admitted(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request as the site's rules make it. Raises Refused where they forbid it."""
        if self.rulebook is None or not self.rulebook.data:
            return {**request, "priority": priority(request["priority"])}
        from dromon.engines.local.admission import admitted  # with the models of the site file

        return admitted(self.rulebook.site, request, self.user, self.groups)

    def admit(self, id: str, request: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        """As it would be submitted. Raises Refused for what could never run here."""
        request = self.admitted(request)
        self.scheduler.admit(self._submitted(id, self._number + 1, now, request), now)
        return request

    def _enqueue(self, job: Job, asks: tuple[Any, ...] | None = None) -> None:
        self.scheduler.apply(self._submitted(job.id, job.number, job.submitted, job.request, asks))

    def _submitted(
        self,
        id: str,
        number: int,
        time: float,
        request: Mapping[str, Any],
        asks: tuple[RoleAsk, ...] | None = None,
    ) -> sched.JobSubmitted:
        return sched.JobSubmitted(
            id,
            seq=number,
            time=time,
            priority=request["priority"],
            preemptible=request["preemptible"],
            ask=asks or role_asks(request),
            user=self.user,
            queue=request["queue"],
            max_duration=request["gang"]["max_duration"],
            stop_grace=request["gang"]["stop_grace"],
            accepted=True,  # or it is being asked whether it will be
        )

    def obey(self, now: float) -> None:
        """The rules have changed."""
        if self.rulebook is not None:
            self.scheduler.apply(sched.RulesChanged(self.rulebook.rules, now))

    # ---- things happen --------------------------------------------------------------------------

    def happen(self, job: Job, event: ev.Event, now: float) -> None:
        """Something the gang must hear of."""
        self.carry_out(job, job.coordinator.on_event(event, now), now)

    def carry_out(self, job: Job, effects: list[Effect], now: float) -> None:
        launches: list[ev.Launch] = []
        for effect in effects:
            if isinstance(effect, Keep):
                self._note(job, effect.now, effect.event.to_json())
                if isinstance(effect.event, ev.Prepared):
                    self._enqueue(job)
            elif isinstance(effect, Send):
                self._after.append((self.hands.send, (effect.peer, effect.message)))
            elif isinstance(effect, ev.Launch):
                launches.append(effect)
            elif isinstance(effect, ev.Release):
                self.scheduler.apply(sched.JobReleased(job.id, now))
                self._let_go(job, now)
            else:
                self._finish(job, now)
        if launches:
            self._give_back(job, now)
            self._after.append((self.hands.launch, (job, launches)))
        if job.placement is not None and job.state == states.STOPPING != job.told:
            self.scheduler.apply(sched.JobStopping(job.id, now))  # its room can be counted on
        self._touched[job.id] = job

    def _note(self, job: Job, now: float, event: Mapping[str, Any]) -> None:
        job.seq += 1
        self.journal.add_event(job.id, job.seq, now, event)

    def environment_built(self, job: Job, environment: Mapping[str, Any], now: float) -> None:
        job.environment = environment
        self._note(job, now, {"kind": ENVIRONMENT, "environment": dict(environment)})
        self.happen(job, ev.Prepared(), now)

    def _finish(self, job: Job, now: float) -> None:
        if self.scheduler.knows(job.id):
            self.scheduler.apply(sched.JobEnded(job.id, now))
        self._let_go(job, now)
        if job.request["outputs"] and job.gang.attempt:
            self._after.append((self.hands.keep_outputs, (job,)))
        else:
            self.close(job, now)

    def close(self, job: Job, now: float) -> None:
        """The job has ended and all that was to be kept is kept."""
        job.ended = now
        self._touched[job.id] = job
        self._after.append((self.hands.clean, (job,)))

    def _let_go(self, job: Job, now: float) -> None:
        """The members have ended; the descriptors here are the last that hold their GPUs."""
        if job.placement is not None:
            self.journal.add_spell(usage.spell(job, self.user, self.kinds, now))
        job.placement, job.since = None, now
        self._let_go_of_gpus(job, set())

    def _let_go_of_gpus(self, job: Job, kept: set[str]) -> None:
        """At once, before anything is on disk: whoever is next must not find us holding them, and
        after a kill nobody holds them anyway."""
        _close_all([fd for gpu, fd in job.gpu_fds.items() if gpu not in kept])
        job.gpu_fds = {gpu: fd for gpu, fd in job.gpu_fds.items() if gpu in kept}

    # ---- after a restart of the daemon ----------------------------------------------------------

    def again(self, action: Callable[..., None], *arguments: Any) -> None:
        """Have done what an earlier life of the daemon may not have come to."""
        self._after.append((action, arguments))

    def enqueue_again(self, job: Job) -> None:
        self._enqueue(job)
        self._touched[job.id] = job

    def finish_again(self, job: Job, now: float) -> None:
        self._finish(job, now)

    # ---- who runs next --------------------------------------------------------------------------

    def decide(self, now: float) -> None:
        while self.scheduler.is_due:
            for decision in self.scheduler.decide(now):
                job = self.jobs[decision.job]
                if isinstance(decision, Start):
                    if not self._hold_gpus(job, decision.placement):
                        break  # somebody else was faster; the scheduler knows it now
                    self._start(job, decision.placement, now)
                elif isinstance(decision, Preempt):
                    self.scheduler.apply(sched.JobStopping(job.id, now, decision.for_job))
                    self.happen(job, ev.PreemptRequested(_why(decision)), now)
                elif isinstance(decision, Grow):
                    self._grow(job, decision.placement, now)
                elif isinstance(decision, Shrink):
                    self._shrink(job, decision, now)
                elif isinstance(decision, Refuse):
                    self.happen(job, ev.PrepareFailed("impossible", decision.reason), now)

    def _start(self, job: Job, placement: Placement, now: float) -> None:
        self.scheduler.apply(sched.JobStarted(job.id, placement, now))
        self._put(job, placement, now)
        self.happen(job, ev.Placed(tuple(placement), is_all=True), now)

    def _put(self, job: Job, placement: Placement, now: float) -> None:
        job.placement, job.placed = placement, now
        self._note(job, now, {"kind": PLACEMENT, "placement": jobs.placement_json(placement)})

    def _hold_gpus(self, job: Job, placement: Placement) -> bool:
        wanted = dict.fromkeys(gpu for seat in placement.values() for gpu in seat.gpus)
        held: dict[str, int] = {}
        for uuid in wanted:
            fd = self._take(uuid, job, placement)
            if fd is None:
                by = self.holder(uuid) or "user unknown"
                self.scheduler.apply(sched.GpuHeld(self.machine.name, uuid, by))
                _close_all(list(held.values()))
                return False
            held[uuid] = fd
        job.gpu_fds.update(held)
        return True

    # ---- another size ---------------------------------------------------------------------------

    def _gathers(self, id: str) -> bool:
        job = self.jobs.get(id)
        return job is not None and job.gang.gathers

    def _grow(self, job: Job, more: Placement, now: float) -> None:
        """Its gang restarts with these too, from its checkpoint; or they join it at its barrier."""
        had = job.placement or {}
        fresh = {member: seat for member, seat in more.items() if member not in had}
        if not had or not may_grow(job) or not self._hold_gpus(job, fresh):
            self.scheduler.apply(sched.JobShrunk(job.id, tuple(fresh), now))
            return
        self._resize(job, {**had, **fresh}, now)
        self.scheduler.apply(sched.JobGrown(job.id, fresh, now))
        size = counted(len(had) + len(fresh), "member")
        words = f"grows from {len(had)} to {size}: there is room"
        self.happen(job, ev.ResizeRequested(tuple(job.placement or ()), words), now)

    def _shrink(self, job: Job, decision: Shrink, now: float) -> None:
        """The gang restarts without these; `_give_back` is called when it does."""
        had = job.placement or {}
        self.scheduler.apply(sched.JobShrinking(job.id, decision.members, now, decision.for_job))
        going = job.gang.going | set(decision.members)
        stay = tuple(member for member in had if member not in going)
        size = counted(len(stay), "member")
        words = f"goes from {len(had)} to {size}, to make room for {decision.for_job}"
        self.happen(job, ev.ResizeRequested(stay, words), now)

    def _give_back(self, job: Job, now: float) -> None:
        """What those held who have no part in the attempt that begins."""
        had = job.placement or {}
        gone = tuple(member for member in had if member not in job.gang.members)
        if gone:
            self._resize(job, {m: seat for m, seat in had.items() if m not in gone}, now)
            self.scheduler.apply(sched.JobShrunk(job.id, gone, now))
            kept = {gpu for seat in (job.placement or {}).values() for gpu in seat.gpus}
            self._let_go_of_gpus(job, kept)

    def _resize(self, job: Job, placement: Placement, now: float) -> None:
        """What it held until now is counted; it did not wait for what it has from now on."""
        self.journal.add_spell(usage.spell(job, self.user, self.kinds, now))
        job.since = usage.AT_ONCE
        self._put(job, placement, now)

    def _take(self, uuid: str, job: Job, placement: Placement) -> int | None:
        """Parts of one GPU are held by one lock, for whoever has a part of it."""
        part = any(seat.part < 1 and uuid in seat.gpus for seat in placement.values())
        if part:
            for other in self.jobs.values():
                if uuid in other.gpu_fds:
                    return os.dup(other.gpu_fds[uuid])
        return self.locks.take(uuid, {"user": self.user, "job": job.id}, part)

    def holder(self, uuid: str) -> str | None:
        """Who has this GPU now, in words."""
        said = self.locks.holder(uuid)
        if said is None:
            return None
        user, job = said.get("user", "unknown"), said.get("job")
        if not job:
            return f"user {user}"
        return str(job) if user == self.user else f"{job} of {user}"

    def saved(self, job: Job) -> None:
        """A member has said when its work was last; it says so again and again."""
        at = job.coordinator.saved
        if at is not None and job.placement is not None and at > max(job.saved + SAME, job.placed):
            job.saved = at
            self.scheduler.apply(sched.JobCheckpointed(job.id, at))

    def look_for_freed_gpus(self) -> None:
        """Other users' daemons do not tell when they let a GPU go; and ours are in use."""
        for job in self._awake.values():
            for seat in (job.placement or {}).values():
                for uuid in seat.gpus:
                    self.locks.touch(uuid)
        for uuid in list(self.scheduler.held()):
            if self.locks.holder(uuid) is None:
                self.scheduler.apply(sched.GpuFreed(self.machine.name, uuid))

    @property
    def waits_for_others(self) -> bool:
        """Somebody is in the queue, and another user's daemon has GPUs of this machine."""
        return bool(self.scheduler.held()) and self.scheduler.someone_waits

    # ---- to disk, then to the world -------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Decide, commit, and carry out what follows. Effects may touch further jobs.

        Raises JournalFull when the disk refuses: then nothing is carried out, and a later flush
        goes on where this one stopped.
        """
        while self.scheduler.is_due or self._touched or self._after:
            self.decide(now)
            for job in self._touched.values():
                self._tell_row(job)
            self.journal.commit()
            touched, self._touched = self._touched, {}
            after, self._after = self._after, []
            for action, arguments in after:
                try:
                    action(*arguments)
                except Exception:  # it must not take the others with it; the sweep tries again
                    log.exception("carrying out %r", action)
            for job in touched.values():
                self._tell_watchers(job)

    def awake(self) -> list[Job]:
        """Jobs to which something happened already: those in whose time something is due."""
        return list(self._awake.values())

    def _tell_row(self, job: Job) -> None:
        self._awake[job.id] = job
        state = job.state
        if state != job.told or job.ended is not None:
            job.told = state
            gang = job.gang
            verdict = gang.verdict.to_json() if job.ended and gang.verdict else None
            self.journal.set_state(
                job.id, state, started=gang.started, ended=job.ended, attempt=gang.attempt,
                verdict=verdict,
            )  # fmt: skip

    def _tell_watchers(self, job: Job) -> None:
        """At once when the job's own state has changed; what happens to single members of a large
        gang is told together a little later (`tell_late`)."""
        stage = job.stage
        if job.watchers and stage == job.watched:
            self.late[job.id] = job
        elif job.watchers:
            job.watched = stage
            self.late.pop(job.id, None)
            job.tell()
        if job.ended is not None:
            self.jobs.pop(job.id, None)
            self._awake.pop(job.id, None)

    def tell_late(self) -> None:
        late, self.late = self.late, {}
        for job in late.values():
            job.tell()


def may_grow(job: Job) -> bool:
    """Not when a member has done its work already: it would have to do it again."""
    gang = job.gang
    return not gang.leaves and all(m.state != states.DONE for m in gang.members.values())


def role_asks(request: Mapping[str, Any]) -> tuple[RoleAsk, ...]:
    return tuple(
        RoleAsk(
            role=name,
            replicas=role["replicas"],
            min=role["min"],
            cpus=role["cpus"],
            memory=role["memory"],
            gpus=role["gpus"],
            gpu_kind=next(iter(role["gpu_kinds"]), None),
            node_label=role["node_label"],
            spread=role["spread"],
        )
        for name, role in request["roles"].items()
    )


def _row(submission: Submission, number: int, now: float) -> Row:
    request = submission.request
    return Row(
        id=submission.id,
        number=number,
        name=request["name"],
        state=states.QUEUED if jobs.is_prepared(request) else states.PREPARING,
        submitted=now,
        started=None,
        ended=None,
        attempt=0,
        request=json.dumps(request, separators=(",", ":")),
        verdict=None,
    )


def _policies(request: Mapping[str, Any]) -> list[str]:
    gang = request["gang"]
    return [*gang["policies"], *(key for role in gang["roles"] for key in role["policies"])]


def _why(decision: Preempt) -> str:
    if decision.reason == "reclaim":
        return f"gave back what its queue had borrowed, for {decision.for_job}"
    return f"made room for {decision.for_job}"


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
