"""What can never run here: said at submit, and again when nodes or rules have changed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dromon.sched import events
from dromon.sched.accounts import Accounts
from dromon.sched.asks import Ask, Refusal
from dromon.sched.caps import over_limit
from dromon.sched.job import Job, Role, Shape
from dromon.sched.queues import Queue
from dromon.sched.rules import ROOT
from dromon.units import counted, format_duration

if TYPE_CHECKING:
    from dromon.sched.cluster import Cluster


def admit(cluster: "Cluster", event: events.JobSubmitted, now: float) -> Refusal | None:
    """Why this job would be refused, before it is applied. `dimension` names the queue that would
    take it, if another would."""
    job = cluster.make(event)
    text = at_the_door(cluster.accounts, job) or never(cluster, job)
    return None if text is None else Refusal(text, taker(cluster, job) or "")


def is_welcome(cluster: "Cluster", accounts: Accounts, job: Job) -> bool:
    """Is it as others were that nothing refused? Then neither the door nor the rules have to be
    asked again."""
    queue, shape, duration = accounts.tree.get(job.queue), job.shape, job.max_duration
    if queue is None or shape not in queue.keeps or queue.has_door or queue.children:
        return False
    if shape.verdict_of != cluster.nodes_version or shape.refusal or accounts.user_limits:
        return False
    if duration is not None and duration > queue.longest:
        return False
    return (job.preemptible or queue.takes_firm) and queue.name in accounts.named


def at_the_door(accounts: Accounts, job: Job) -> str | None:
    """What is judged once, when a job comes: is its queue there, open, and not full?"""
    queue = accounts.tree.get(job.queue)
    if queue is None or queue.name not in accounts.named:
        if accounts.named:
            return f"there is no queue {job.queue}"
        return None
    if queue.children:
        return f"queue {queue.name} has queues of its own; jobs go to one of these"
    return _door(queue, job.user)


def _door(queue: Queue, user: str) -> str | None:
    """Why it takes no more jobs of this user for now."""
    if not queue.has_door:
        return None
    for level in queue.path:
        rule = level.rule
        if not rule.is_open:
            return f"queue {level.name} is drained and takes no new jobs"
        if rule.max_queued is not None and level.queued >= rule.max_queued:
            return (
                f"queue {level.name} has {counted(rule.max_queued, 'job')} waiting, the most it may"
            )
        member = level.members.get(user)
        most = rule.user_max_queued
        if most is not None and (member.queued if member else 0) >= most:
            waiting = counted(most, "job")
            return f"{user} has {waiting} waiting in queue {level.name}, the most one may"
    return None


def never(cluster: "Cluster", job: Job) -> str | None:
    """Why it can never run with these nodes and rules."""
    if job.verdict is not None:
        return job.verdict
    accounts = cluster.accounts
    queue = accounts.tree.get(job.queue)
    if queue is not None and cluster.rules.queues:
        why = _breaks(queue, job)
        if why is not None:
            other = taker(cluster, job)
            return why + (f"; queue {other} would take it" if other else "")
    return _never_anywhere(cluster, job)


def _never_anywhere(cluster: "Cluster", job: Job) -> str | None:
    """Why not, whatever its queue."""
    limit = cluster.accounts.user_limits.get(job.user)
    if limit:
        over = over_limit(limit, {}, job.shape.demand)
        if over is not None:
            return f"user {job.user} may have at most {over} at once"
    if not cluster.numbers:
        return None  # nobody can be refused before it is known what there is
    shape = job.shape
    if shape.verdict_of != cluster.nodes_version:
        from dromon.sched.placement import can_ever_fit

        refusal = can_ever_fit(cluster, shape.ask)
        shape.refusal = None if refusal is None else refusal.text
        shape.verdict_of = cluster.nodes_version
    return shape.refusal


def _breaks(queue: Queue, job: Job) -> str | None:
    """The rule of this queue or of one above that the job can never keep."""
    is_short = job.max_duration is None or job.max_duration <= queue.longest
    if is_short and job.shape in queue.keeps and (job.preemptible or queue.takes_firm):
        return None
    for level in queue.path:
        rule = level.rule
        name = "the cluster" if level.name == ROOT else f"queue {level.name}"
        over = over_limit(level.limit, {}, job.shape.demand)
        if over is not None:
            return f"{name} may have at most {over} at once"
        over = over_limit(level.user_limit, {}, job.shape.demand)
        if over is not None:
            return f"a user of {name} may have at most {over} at once"
        longest = rule.max_duration
        if longest is not None and job.max_duration is not None and job.max_duration > longest:
            asked, most = format_duration(job.max_duration), format_duration(longest)
            return f"it asks for {asked}, and {name} allows at most {most}"
        if not rule.non_preemptible and not job.preemptible:
            return f"{name} takes only preemptible jobs"
    queue.keeps.add(job.shape)
    return None


def taker(cluster: "Cluster", job: Job) -> str | None:
    """Another queue, whose door is open and whose rules the job keeps."""
    if _never_anywhere(cluster, job) is not None:
        return None
    for queue in other_queues(cluster, job):
        if _door(queue, job.user) is None and _breaks(queue, job) is None:
            return queue.name
    return None


def other_queues(cluster: "Cluster", job: Job) -> Iterator[Queue]:
    """Leaves to which everybody may submit. Who is in which group is not known here, so no others
    are proposed."""
    for queue in cluster.accounts.tree.values():
        is_other = queue.name != job.queue and queue.name in cluster.accounts.named
        if is_other and queue.is_leaf and queue.rule.for_all:
            yield queue


def gang_shape(ask: Ask) -> Shape:
    return Shape(ask, -1)


def roles_of(ask: Ask) -> list[Role]:
    return gang_shape(ask).roles
