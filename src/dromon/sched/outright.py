"""The commonest decisions on a full cluster, told without a pass: one job takes what is free, or
nobody can.

Few nodes have anything free. Jobs that fit there are looked at in order; those ahead of them would
get planned starts, of which it is enough to know until when they leave free what is free now
(`vacancy`). Whatever cannot be told for certain is left to a pass: what is told here is what a pass
would find.
"""

from collections.abc import Iterator
from math import inf, ulp
from operator import attrgetter
from typing import Final

from dromon.sched.cluster import Cluster
from dromon.sched.decisions import Decision, Refuse, Start
from dromon.sched.index import fits
from dromon.sched.job import Job, Role, Shape
from dromon.sched.node import Node
from dromon.sched.queues import Member, Queue
from dromon.sched.rules import ROOT
from dromon.sched.turns import NOBODY, Turns
from dromon.sched.vacancy import Ahead, Vacancy
from dromon.sched.walk import PLANNED

FEW: Final = 3  # nodes with anything free
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
    only = index.only()
    nodes = [only] if only is not None else index.with_some(FEW)
    if not nodes:
        return None
    found = Sight(cluster, nodes, now).find()
    if found is UNSURE:
        return None
    job, node = found.job, found.node
    if job is None or node is None:
        return refusals
    role = job.shape.roles[0]
    chosen = node.lowest(node.mask & node.kind_mask(role.kind), role.gpus)
    seats, placement = node.give_one(role, chosen)
    cluster.occupy(job, placement, now, seats)
    cluster.leave(job, placement, now)
    return (*refusals, Start(job.id, placement))


class Found:
    """Who starts where, and nobody else does; or one of those below."""

    __slots__ = ("job", "node")

    def __init__(self, job: Job | None = None, node: Node | None = None) -> None:
        self.job = job
        self.node = node


NOBODY_CAN: Final = Found()
UNSURE: Final = Found()
NONE_HERE: Final = Found()  # nobody of this queue; others may


class Sight:
    """What can be told of one decision. `until`: whoever starts must have ended by then."""

    __slots__ = (
        "accounts", "ahead", "cluster", "larger", "now", "unheld", "until",
        "vacancies",
    )  # fmt: skip

    def __init__(self, cluster: Cluster, nodes: list[Node], now: float) -> None:
        self.cluster = cluster
        self.accounts = cluster.accounts
        self.now = now
        self.until = inf
        self.unheld: dict[tuple[Member, Shape], bool] = {}  # whether no cap holds such jobs
        self.ahead = Ahead(cluster, now)
        self.vacancies = [Vacancy(node, self.ahead) for node in nodes]
        # For whom no node has devices enough.
        self.larger = cluster.accounts.larger(cluster.index.most)

    def find(self) -> Found:
        root = self.accounts.tree[ROOT]
        first = _first_leaf(root)
        if first is None:
            return UNSURE
        found = self._in_leaf(first)
        if found is NONE_HERE:
            for leaf in _leaves(root):
                if leaf is not first:
                    found = self._in_leaf(leaf)
                    if found is not NONE_HERE:
                        break
        return UNSURE if found is NONE_HERE else found

    def _in_leaf(self, leaf: Queue) -> Found:
        if leaf.rule.aging:
            return UNSURE
        priority, known = max(leaf.levels), 0  # so many of those ahead
        users = leaf.in_turn()[priority]
        while True:
            job = self._first(leaf, users, priority)
            if job is None and len(leaf.levels) > 1:
                return UNSURE
            ahead = self._before(leaf, users, priority, job)
            self.ahead.add(ahead[known:] if known else ahead)
            known = len(ahead)
            if job is None:
                return NONE_HERE if self._may_anybody() else NOBODY_CAN
            found = self._place(job)
            if found is not NONE_HERE:
                return found

    def _may_anybody(self) -> bool:
        """Is there somebody for whom there is room, and who ends in time?"""
        return any(
            self.now + shape.crowd.shortest() <= self.until
            for shape in self.accounts.waiting_shapes if shape not in self.larger
        )  # fmt: skip

    def _first(self, leaf: Queue, users: Turns[Member], priority: int) -> Job | None:
        """The first for whom there may be room."""
        larger = self.larger
        kinds = [(priority, shape) for shape in leaf.shapes if shape not in larger]
        if not kinds:
            return None
        below = inf if self.until == inf else _longest(self.now, self.until)
        for share in users.shares:
            found: Job | None = None
            for member in users.equals[share].whose:  # users of the same share take turns
                if found is not None and member.age > found.seq:
                    break
                for kind in kinds:
                    line = member.lines.get(kind)
                    if line is not None:
                        at = 0 if below == inf else line.next_below(0, below)
                        if at >= 0 and (found is None or line.jobs[at].seq < found.seq):
                            found = line.jobs[at]
            if found is not None:
                return found
        return None

    def _before(
        self, leaf: Queue, users: Turns[Member], priority: int, job: Job | None
    ) -> list[Job]:
        """Those before it (None: all) who would be planned: the first few whom no cap holds."""
        member = None if job is None else job.member
        found: list[Job] = []
        for share in users.shares:
            is_last, room = member is not None and share == member.share, PLANNED - len(found)
            until = job.seq if is_last and job is not None else NOBODY
            group: list[Job] = []
            for user in users.equals[share].whose:  # users of the same share take turns
                if user.age >= until:
                    break
                own = self._of_user(leaf, user, priority, until, room)
                if not group:
                    group = own
                    continue
                group += own
                group.sort(key=_SEQ)
                if len(group) > room:
                    del group[room:]
                    until = group[-1].seq
            found += group
            if is_last or len(found) == PLANNED:
                break
        return found

    def _of_user(
        self, leaf: Queue, user: Member, priority: int, until: int, room: int
    ) -> list[Job]:
        """The first few that came before that."""
        if self.accounts.holds_nobody(leaf, user):
            first = user.jobs[:room]
            if first[-1].priority == priority and first[-1].seq < until:
                return first
            return [one for one in first if one.priority == priority and one.seq < until]
        found: list[Job] = []
        for one in user.jobs:
            if one.seq >= until or one.priority != priority or len(found) == room:
                break
            if self._is_unheld(user, one):
                found.append(one)
        return found

    def _is_unheld(self, user: Member, job: Job) -> bool:
        key = (user, job.shape)
        found = self.unheld.get(key)
        if found is None:
            found = self.unheld[key] = self.accounts.cap(job, self.now) is None
        return found

    def _place(self, job: Job) -> Found:
        """Where it can start; it is blocked where all is taken before it has ended."""
        role = job.shape.roles[0]
        if role.min > 1 or job.shape.can_grow or self.accounts.cap(job, self.now) is not None:
            return UNSURE
        end, until = self.now + job.duration, -inf
        chosen: Vacancy | None = None
        for vacancy in self.vacancies:
            node = vacancy.node
            has_room = node.mask.bit_count() >= role.gpus
            if has_room and not _suits(node, role):
                return UNSURE
            if has_room and vacancy.is_clear(end):
                if chosen is not None:
                    return UNSURE
                chosen = vacancy
                continue
            vacancy.look(end if has_room else inf)
            if has_room and end <= vacancy.stop:
                if chosen is not None or end > vacancy.doubt:
                    return UNSURE
                chosen = vacancy
            until = max(until, vacancy.stop)
        if chosen is None:
            self.until = until
            return NONE_HERE if until < end else UNSURE  # else it would be found again
        is_all = len(self.vacancies) == 1 and chosen.node.mask.bit_count() == role.gpus
        if not is_all and self._may_follow(chosen, role.gpus):
            return UNSURE
        return Found(job, chosen.node)

    def _may_follow(self, chosen: Vacancy, gpus: int) -> bool:
        """Once so much of one is taken, could somebody else start?"""
        for vacancy in self.vacancies:
            left = vacancy.node.mask.bit_count() - (gpus if vacancy is chosen else 0)
            if left:
                vacancy.look(inf)
                larger = self.accounts.larger(left)
                for shape in self.accounts.waiting_shapes:
                    if shape not in larger and self.now + shape.crowd.shortest() <= vacancy.stop:
                        return True
        return False


def _suits(node: Node, role: Role) -> bool:
    """May a member be there, for whom it has devices enough?"""
    return role.is_bare or (
        (role.label is None or role.label in node.labels) and fits(node, role)
    )  # fmt: skip


def _longest(now: float, until: float) -> float:
    """Whoever is shorter than this has ended by then."""
    longest = until - now
    while now + longest <= until < inf:
        longest += ulp(until)
    return longest


def _first_leaf(queue: Queue) -> Queue | None:
    """Whose turn it is."""
    while queue.children:
        child = queue.order.first()
        if child is None:
            return None
        queue = child
    return queue


def _leaves(queue: Queue) -> Iterator[Queue]:
    """Those in which somebody waits, in turn."""
    if not queue.children:
        yield queue
        return
    turns = queue.order
    turns.settle()
    for share in turns.shares:
        for child in turns.equals[share].whose:
            yield from _leaves(child)
