"""The commonest decision on a full cluster, told without a pass: one job takes all that is free.

Only one node has anything free, and whoever is first in order of those that fit there takes all of
it; so nobody else can start. Those ahead of it would get planned starts: it is enough to know that
none of these can come to that node before the job has ended. Whatever else may be so is left to a
pass: what is told here is what a pass would find.
"""

from bisect import bisect_right
from math import inf, nextafter
from operator import attrgetter
from typing import Final

from dromon.sched.cluster import Cluster
from dromon.sched.decisions import Decision, Refuse, Start
from dromon.sched.job import Job, Role, Shape
from dromon.sched.node import Node
from dromon.sched.order import PLANNED
from dromon.sched.queues import Member, Queue
from dromon.sched.rules import ROOT
from dromon.sched.slots import first_slot
from dromon.sched.turns import NOBODY

_SEQ: Final = attrgetter("seq")


def outright(cluster: Cluster, now: float) -> tuple[Decision, ...] | None:
    """None: a pass has to tell."""
    accounts, index = cluster.accounts, cluster.index
    if not cluster.is_plain or cluster.promised or cluster.elastic:
        return None
    if cluster.endless or cluster.hindered or accounts.others:
        return None
    refusals = tuple([Refuse(id, why) for id, why in cluster.refused.items()])
    if not index.most or not accounts.waiting_shapes:
        return refusals  # everybody else asks for a device, and none is free
    node = index.only()
    leaf = _first_leaf(accounts.tree[ROOT])
    if node is None or leaf is None or leaf.rule.aging:
        return None
    job = _first(leaf, accounts.larger(index.most))
    if job is None or not _takes_all(job, node) or accounts.cap(job, now) is not None:
        return None
    ahead = _ahead(cluster, leaf, job, now)
    if ahead and _may_come(cluster, node, ahead, now + job.duration, now):
        return None
    seats, placement = node.give_one(job.shape.roles[0], node.mask)
    cluster.occupy(job, placement, now, seats)
    cluster.leave(job, placement, now)
    return (*refusals, Start(job.id, placement))


def _first_leaf(queue: Queue) -> Queue | None:
    """Whose turn it is."""
    while queue.children:
        child = queue.order.first()
        if child is None:
            return None
        queue = child
    return queue


def _first(leaf: Queue, larger: dict[Shape, float]) -> Job | None:
    """The first, of those of the highest priority, for whom a node has devices enough."""
    priority = max(leaf.levels)
    users = leaf.in_turn()[priority]
    kinds = [(priority, shape) for shape in leaf.shapes if shape not in larger]
    for share in users.shares:
        found: Job | None = None
        for member in users.equals[share].whose:  # users of the same share take turns
            if found is not None and member.age > found.seq:
                break
            for kind in kinds:
                line = member.lines.get(kind)
                if line is not None:
                    first = line.jobs[0]
                    if found is None or first.seq < found.seq:
                        found = first
        if found is not None:
            return found
    return None


def _ahead(cluster: Cluster, leaf: Queue, job: Job, now: float) -> list[Job]:
    """Those before it who would be planned: the first few whom no cap holds."""
    member, priority = job.member, job.priority
    assert member is not None
    users = leaf.in_turn()[priority]
    ahead: list[Job] = []
    free: dict[tuple[Member, Shape], bool] = {}  # whether no cap holds such jobs
    for share in users.shares:
        is_last, room = share == member.share, PLANNED - len(ahead)
        found: list[Job] = []
        until = job.seq if is_last else NOBODY
        for user in users.equals[share].whose:  # users of the same share take turns
            if user.age >= until:
                break
            count = 0
            for one in user.jobs:
                if one.seq >= until or one.priority != priority or count == room:
                    break
                key = (user, one.shape)
                is_free = free.get(key)
                if is_free is None:
                    is_free = free[key] = cluster.accounts.cap(one, now) is None
                if is_free:
                    found.append(one)
                    count += 1
            if len(found) > count:
                found.sort(key=_SEQ)
                if len(found) > room:
                    del found[room:]
                    until = found[-1].seq
        ahead += found
        if is_last or len(ahead) == PLANNED:
            break
    return ahead


def _takes_all(job: Job, node: Node) -> bool:
    """Is it one member, for whom there is just what the node has free?"""
    role = job.shape.plain
    if role is None or role.min != 1 or job.shape.can_grow:
        return False
    mask = node.mask
    if mask.bit_count() != role.gpus:
        return False
    return role.is_bare or (
        node.cpus >= role.cpus and node.memory >= role.memory
        and (role.label is None or role.label in node.labels)
        and mask & node.kind_mask(role.kind) == mask
    )  # fmt: skip


def _may_come(cluster: Cluster, node: Node, ahead: list[Job], end: float, now: float) -> bool:
    """Could a planned start of those ahead be there before this time? Not where for each of them
    more other nodes have room sooner than those before it can take."""
    needed: dict[tuple[object, ...], int] = {}
    roles: dict[tuple[object, ...], Role] = {}
    members = 0
    for job in ahead:
        role = job.shape.roles[0]
        members += role.min
        roles[role.slot_key], needed[role.slot_key] = role, members
    for kind, role in roles.items():
        first = first_slot(node, role)
        if first < end and (
            first <= nextafter(now, inf)
            or cluster.slot_times(role).before(first, needed[kind]) < needed[kind]
        ):
            return not _are_elsewhere(cluster, node, ahead, end, now)
    return False


def _are_elsewhere(cluster: Cluster, node: Node, ahead: list[Job], end: float, now: float) -> bool:
    """The same, looked at more closely: each takes nodes that have room soonest for its kind, or
    some that those before it may have taken."""
    taken: set[int] = set()
    for job in ahead:
        role = job.shape.roles[0]
        times, first = cluster.slot_times(role), first_slot(node, role)
        times.refresh()
        moments, numbers = times.moments, times.numbers
        at, missing, last = 0, role.min, nextafter(now, inf)
        if first <= last:
            return False
        while missing and at < len(numbers):
            if numbers[at] not in taken:
                missing -= 1
                last = max(last, moments[at])
            at += 1
        if (missing or last >= first) and first < end:
            return False
        taken.update(numbers[: bisect_right(moments, last)])
    return True
