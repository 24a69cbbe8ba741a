"""Members above `min`, given by the slow scheduler once nobody waits blocked (rule 6)."""

from typing import Any

from dromon.sched.asks import Placement
from dromon.sched.rules import ROOT
from reference.room import Hold, after, put
from reference.slow import RUNNING, Amounts, Job, amounts


def grow(round: Any) -> dict[str, Placement]:
    grown: dict[str, dict[str, Any]] = {}
    running = [j for j in round.slow.placed() if j.state == RUNNING and j.elastic]
    running = [j for j in running if not j.leaving]
    running.sort(key=lambda j: j.number)
    for job in [*running, *(round.slow.jobs[id] for id in round.starts)]:
        there = dict(job.placement or round.starts.get(job.id, {}))
        since = job.since if job.placement else round.now
        until = after(round.now, since + round.slow.duration(job))
        for role in sorted(job.ask, key=lambda a: (-a.gpus, -a.cpus, -(a.memory or 0), a.role)):
            for member in role.members(role.min, role.replicas):
                if member in there:
                    continue
                room = round.line.through(round.now, until)
                share = put(room, role, there, round.turn)
                if share is None or not may_grow(round, job, member):
                    break
                if not round.leaves_reserved(job, {member: share}, round.now, until, frozenset()):
                    break
                there[member] = share
                grown.setdefault(job.id, {})[member] = share
                round.held[job.id] |= {member}
                round.line.holds.append(Hold(job.id, member, share, round.now, until))
    return grown


def may_grow(round: Any, job: Job, member: str) -> bool:
    if not all(q.is_open for q in round.slow.path(job.queue)):
        return False
    more = amounts(job.ask, [member])
    user = round.slow.user(job.user)
    if more["gpus"] and round.has_spent(job):
        return False
    everything = Amounts()
    for queue in round.slow.children(ROOT):
        everything = everything.plus(round.usage(queue.name, job.user))
    return not everything.plus(more).breaks(user.limit, more) and not any(
        round.usage(q.name).plus(more).breaks(q.limit, more)
        or round.usage(q.name, job.user).plus(more).breaks(q.user_limit, more)
        for q in round.slow.path(job.queue)
    )
