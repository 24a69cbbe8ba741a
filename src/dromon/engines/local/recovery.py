"""A daemon's first minute: read the journal, find what still runs, do what is owed.

A member's run is claimed by exactly one agent (agent.record: `claim`), so launching again what
may or may not have been launched is safe: the second agent finds the claim and leaves.
"""

import json
import logging
import os
import signal
from typing import Any

from dromon.agent import claim, exitrecord, process
from dromon.agent.record import Record
from dromon.engines.home import Home
from dromon.engines.local import usage
from dromon.engines.local.arbiter import ENVIRONMENT, PLACEMENT, Arbiter
from dromon.engines.local.counter import DRAINED
from dromon.engines.local.jobs import Job, placement_of
from dromon.engines.local.journal import Row, Spell
from dromon.lifecycle import events as ev
from dromon.lifecycle import states
from dromon.sched.events import JobShrinking, JobStarted, JobStopping, NodeDrained, Used

log = logging.getLogger("dromon.recovery")
HANGING = 30.0  # seconds after a member's grace in which its agent must have ended it


def recover(arbiter: Arbiter, home: Home, now: float, same_boot: bool) -> None:
    _forget_secrets(arbiter, home)
    if arbiter.rulebook is not None:
        _remember_use(arbiter, now)
    if arbiter.journal.get(DRAINED):
        arbiter.scheduler.apply(NodeDrained(arbiter.machine.name))
    for row in arbiter.journal.active():
        job = rebuild(arbiter, row)
        arbiter.jobs[job.id] = job
        if job.state == states.PREPARING:
            arbiter.again(arbiter.hands.prepare, job)
        elif job.gang.is_terminal:
            arbiter.finish_again(job, now)
        else:
            arbiter.enqueue_again(job)
            if job.placement is not None:
                # What it has used so far; the scheduler counts on from now.
                _remember(arbiter, usage.spell(job, arbiter.user, arbiter.kinds, now))
                arbiter.scheduler.apply(JobStarted(job.id, job.placement, job.placed))
                if job.gang.leaves:
                    arbiter.scheduler.apply(JobStopping(job.id, now))
                elif going := job.gang.going:
                    arbiter.scheduler.apply(JobShrinking(job.id, tuple(going), now))
            if not same_boot:
                lose_everything(arbiter, home, job, now)
    sweep(arbiter, home, now)


def _remember_use(arbiter: Arbiter, now: float) -> None:
    """What was used in windows that still count; what is too old for any report is forgotten."""
    assert arbiter.rulebook is not None
    half_life = arbiter.rulebook.rules.half_life
    arbiter.journal.forget_spells(now - usage.kept(half_life))
    for spell in arbiter.journal.spells(now - usage.counts(half_life)):
        _remember(arbiter, spell)


def _remember(arbiter: Arbiter, spell: Spell) -> None:
    arbiter.scheduler.apply(
        Used(spell.queue, spell.user, spell.priority, spell.amounts, spell.start, spell.end)
    )


def _forget_secrets(arbiter: Arbiter, home: Home) -> None:
    """Those of jobs that have ended, or that were never accepted."""
    active = {row.id + ".json" for row in arbiter.journal.active()}
    for name in set(os.listdir(home.path("secrets"))) - active:
        os.unlink(home.path("secrets", name))


def rebuild(arbiter: Arbiter, row: Row) -> Job:
    """The job as it was when the last life of the daemon committed for the last time."""
    job = Job(row, json.loads(row.request))
    job.told = row.state
    for time, data in arbiter.journal.events(row.id):
        job.seq += 1
        kind = data["kind"]
        if kind == PLACEMENT:
            job.since = job.since if job.placement is None else usage.AT_ONCE
            job.placement, job.placed = placement_of(data["placement"]), time
        elif kind == ENVIRONMENT:
            job.environment = data["environment"]
        else:
            job.coordinator.replay(ev.from_json(data), time)
            if job.gang.state == states.QUEUED:
                job.placement, job.since = None, time
    return job


def lose_everything(arbiter: Arbiter, home: Home, job: Job, now: float) -> None:
    """The machine was started anew: no process of the job is left. What had ended by itself
    before that left its record."""
    record = Record(home.record(job.id))
    for name, member in list(job.gang.members.items()):
        if member.run and member.state not in states.MEMBER_ENDED:
            exit = _exit(record, name, member.run)
            lost = ev.MemberLost(name, member.run, "the machine was restarted")
            ended = lost if exit is None else ev.MemberExited(name, member.run, exit)
            arbiter.happen(job, ended, now)


def sweep(arbiter: Arbiter, home: Home, now: float) -> None:
    """Members without a connection: still alive, ended meanwhile, gone, or never started?"""
    for job in list(arbiter.jobs.values()):
        if job.placement is None:
            continue
        for name in job.gang.overdue(now - HANGING):
            end_agent(home, job, name)
        for name, member in list(job.gang.members.items()):
            is_live = member.run and member.state not in states.MEMBER_ENDED
            if is_live and (name not in job.coordinator.peers or _may_not_come(home, job, name)):
                look_at(arbiter, home, job, name, member.run, now)


def _may_not_come(home: Home, job: Job, name: str) -> bool:
    """It was told to stop, and the agent that is sent for has not come yet."""
    member = job.gang.members[name]
    folder = Record(home.record(job.id)).run(name, member.run)
    return member.state == states.ENDING and claim.read(folder) is None


def end_agent(home: Home, job: Job, name: str) -> None:
    """An agent that hangs does not end its member; without the agent we find and end it."""
    record, run = Record(home.record(job.id)), job.gang.members[name].run
    claimed = claim.read(record.run(name, run))
    if _exit(record, name, run) is not None:
        return  # the agent is at another run by now
    if claimed is not None and claimed.is_alive and claimed.pid != os.getpid():
        log.warning("%s/%s: its agent hangs; ending it", job.id, name)
        os.kill(claimed.pid, signal.SIGKILL)


def look_at(
    arbiter: Arbiter, home: Home, job: Job, name: str, run: int, now: float, at_once: bool = False
) -> None:
    """`at_once`: its line has just broken. One that has not even begun waits for the next sweep:
    what keeps agents from coming may last."""
    record = Record(home.record(job.id))
    folder = record.run(name, run)
    claimed = claim.read(folder)
    if claimed is None:
        if at_once:
            return
        _never_came(arbiter, job, folder, name, run, now)
        return
    alive = claimed.is_alive
    exit = _exit(record, name, run)  # after the look at the process: it may just have ended
    if exit is not None:
        arbiter.happen(job, ev.MemberExited(name, run, exit), now)
    elif not alive:
        left = process.kill_survivors(f"{job.id}/{name}/{run}")
        log.warning("%s/%s: its agent died; ended %s", job.id, name, left or "nothing more")
        arbiter.happen(job, ev.MemberLost(name, run, "its agent was killed"), now)
    # Otherwise it lives and will say hello again by itself.


def _never_came(arbiter: Arbiter, job: Job, folder: str, name: str, run: int, now: float) -> None:
    """No agent has this run yet: launch it again, or, if it is not wanted any more, take its
    place, so that an agent still on its way finds the claim and leaves."""
    if job.gang.members[name].state in (states.LAUNCHED, states.READY):
        arbiter.again(arbiter.hands.launch, job, [ev.Launch(name, run, job.gang.attempt)])
    else:
        os.makedirs(folder, exist_ok=True)
        if claim.take(folder):
            arbiter.happen(job, ev.MemberLost(name, run, "it was stopped before it started"), now)


def _exit(record: Record, name: str, run: int) -> dict[str, Any] | None:
    """None when it is not there, or not whole yet."""
    found = exitrecord.find(record.exits, name, run)
    if found is not None:
        return found
    try:
        with open(record.exit(name, run)) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
