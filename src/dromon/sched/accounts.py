"""Who holds how much: queues, users, budgets, shares. Kept up to date with every change.

Knows queues and amounts; knows nothing of nodes.
"""

from collections.abc import Sequence

from dromon.sched.asks import GPUS, MEMORY
from dromon.sched.caps import Cap, add_to, beyond, queue_cap, so_much, spent, with_those, word
from dromon.sched.crowd import Crowd
from dromon.sched.deserved import divide
from dromon.sched.events import Used
from dromon.sched.job import Demand, Job, Shape
from dromon.sched.queues import Line, Member, Queue, add, build, scaled
from dromon.sched.rules import ROOT, Budget, QueueRule, Rules, UserRule
from dromon.sched.usage import Ledger, Past

Scope = tuple[str, int | None]  # a user, or a user in one class of priority


class Accounts:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.total: Demand = {}  # of all open nodes
        self.lines: dict[tuple[str, str, int, Shape], Line] = {}
        self.waiting_shapes: dict[Shape, None] = {}  # of those who wait, in the order they came
        self._larger: dict[int, dict[Shape, float]] = {}  # see `larger`
        self.others = 0  # how many of these do not ask for whole devices, in one role alone
        self.over = 0  # how many queues hold more than they deserve
        self.usage: dict[str, Demand] = {}  # user -> in all queues
        self.ledgers: dict[Scope, list[Ledger]] = {}
        self._obey(rules)

    # ---- rules ----------------------------------------------------------------------------------

    def _obey(self, rules: Rules) -> None:
        self.rules = rules
        self.tree = build(rules)
        self.named = {rule.name for rule in rules.queues}
        self.user_rules = {rule.name: rule for rule in rules.users}
        self.user_limits = {rule.name: scaled(rule.limit) for rule in rules.users if rule.limit}
        self.class_budgets = {
            rule.value: rule.user_budget for rule in rules.priorities
            if rule.user_budget is not None
        }  # fmt: skip
        self.has_guarantees = any(rule.guarantee for rule in rules.queues)
        self.keeps_books = bool(
            rules.half_life or self.has_guarantees or self.user_limits or self.user_rules
            or self.class_budgets or any(rule.budgets for rule in rules.queues)
        )  # fmt: skip
        self.ledgers = {}
        weights = {rule.name: rule.weight for rule in rules.users}
        for queue in self.tree.values():
            self._dress(queue, weights)
        self.divide()

    def _dress(self, queue: Queue, weights: dict[str, float]) -> None:
        queue.weights = weights
        if self.rules.half_life:
            queue.past = Past(self.rules.half_life)

    def set_total(self, total: Demand) -> None:
        self.total = total
        self.divide()

    def divide(self) -> None:
        root = self.tree[ROOT]
        root.deserved = {r: float(amount) for r, amount in self.total.items() if amount > 0}
        divide(root)
        self.over = 0
        for queue in self.tree.values():
            if queue.parent is not None:
                share = queue.share
                queue.weigh(0.0)
                if queue.past is not None:  # which is as it was
                    queue.reorder(share)
                self.over += queue.is_over
            for member in queue.members.values():
                member.share = queue.user_share(member, 0.0)
                queue.put(member)

    def leaf(self, name: str) -> Queue:
        """A queue that no rule names is there as long as somebody is in it."""
        queue = self.tree.get(name)
        if queue is None:
            queue = add(self.tree, QueueRule(name), self.tree[ROOT])
            self._dress(queue, self.tree[ROOT].weights)
            self.divide()
        return queue

    def _forget(self, queue: Queue) -> None:
        if queue.name in self.named or queue.name == ROOT or queue.children:
            return
        if queue.queued or queue.running or queue.past is not None:
            return
        parent = queue.parent
        assert parent is not None
        del self.tree[queue.name], parent.children[queue.name]
        self.divide()

    # ---- those who wait -------------------------------------------------------------------------

    def enqueue(self, job: Job) -> None:
        member = self._bind(job)
        leaf, shape = member.queue, job.shape
        priority = job.priority
        line = member.lines.get((priority, shape))
        if line is None:
            line = self._line(job, leaf, member)
        line.add(job)
        job.waits = True
        leaf.joined(job)
        if member.add(job):
            leaf.put(member)
        member.queued += 1
        leaf.queued += 1
        for queue in leaf.above:
            queue.queued += 1
            if queue.has_caps:
                queue.member(job.user, self.rules.half_life).queued += 1

    def _bind(self, job: Job) -> Member:
        """Look up its user in its queue, once."""
        leaf = self.tree.get(job.queue) or self.leaf(job.queue)
        found = leaf.members.get(job.user) or leaf.member(job.user, self.rules.half_life)
        # One string for all of them: what is touched less is kept nearer.
        job.member, job.queue, job.user = found, leaf.name, found.name
        return found

    def _line(self, job: Job, leaf: Queue, member: Member) -> Line:
        """A new one, for jobs like this."""
        shape, priority = job.shape, job.priority
        crowd = leaf.shapes.get(shape)
        if crowd is None:
            if not shape.crowd.parts:
                self.waiting_shapes[shape] = None
                self._larger.clear()
                self.others += not shape.is_simple
            crowd = leaf.shapes[shape] = Crowd(shape.crowd)
            leaf.largest = None
        line = member.lines[(priority, shape)] = Line(shape, priority, job.user, crowd)
        self.lines[(job.queue, job.user, priority, shape)] = line
        return line

    def _close(self, line: Line, job: Job, leaf: Queue, member: Member) -> None:
        """Nobody is in it any more."""
        shape, priority = job.shape, job.priority
        del member.lines[(priority, shape)], self.lines[(job.queue, job.user, priority, shape)]
        line.dissolve()
        crowd = leaf.shapes[shape]
        if not crowd.parts:
            del leaf.shapes[shape]
            leaf.largest = None
            crowd.dissolve()
            if not shape.crowd.parts:
                del self.waiting_shapes[shape]
                self._larger.clear()
                self.others -= not shape.is_simple

    def dequeue(self, job: Job) -> None:
        member = job.member
        assert member is not None
        leaf, shape = member.queue, job.shape
        priority = job.priority
        line = member.lines[(priority, shape)]
        line.remove(job)
        if not line.jobs:
            self._close(line, job, leaf, member)
        job.waits = False
        leaf.left(job)
        if member.remove(job):
            leaf.put(member)
        member.queued -= 1
        leaf.queued -= 1
        for queue in leaf.above:
            queue.queued -= 1
            if job.user in queue.members:
                queue.members[job.user].queued -= 1

    def larger(self, most: int) -> dict[Shape, float]:
        """Shapes of those who wait for more devices on one node than this; from no duration on."""
        found = self._larger.get(most)
        if found is None:
            found = self._larger[most] = {
                shape: 0.0 for shape in self.waiting_shapes
                if shape.plain is not None and shape.plain.gpus > most
            }  # fmt: skip
        return found

    # ---- those who hold -------------------------------------------------------------------------

    def charge(self, job: Job, demand: Demand, sign: int, now: float, jobs: int = 0) -> None:
        """`demand` more (or less) is held by this job; `jobs` more run."""
        member = job.member or self._bind(job)
        leaf, user = member.queue, job.user
        if jobs:
            leaf.runs(job, jobs)
        if self.keeps_books:
            self._note(leaf, job, demand, sign, now)
        usage, own = leaf.usage, member.usage
        for resource, amount in demand.items():
            more = amount if sign > 0 else -amount
            usage[resource] = usage.get(resource, 0) + more
            own[resource] = own.get(resource, 0) + more
        leaf.running += jobs
        member.running += jobs
        for queue in leaf.above:
            usage = queue.usage
            for resource, amount in demand.items():
                usage[resource] = usage.get(resource, 0) + (amount if sign > 0 else -amount)
            queue.running += jobs
            if queue.has_caps:
                theirs = queue.members.get(user) or queue.member(user, self.rules.half_life)
                add_to(theirs.usage, demand, sign)
                theirs.running += jobs
            if queue.parent is not None:
                self.over += queue.weigh(now)
        self.over += leaf.weigh_with(member, now)

    def _note(self, leaf: Queue, job: Job, demand: Demand, sign: int, now: float) -> None:
        """Before what is held changes: how much was used until now, and what else is counted."""
        is_firm = self.has_guarantees and not job.preemptible
        for queue in leaf.path:
            holders: list[Queue | Member] = [queue]
            if queue is leaf or queue.has_caps:
                holders.append(queue.member(job.user, self.rules.half_life))
            for holder in holders:
                if holder.past is not None:
                    holder.past.settle(holder.usage, now)
                for ledger in holder.ledgers:
                    ledger.change(demand, sign, now)
            if is_firm:
                add_to(queue.fixed, demand, sign)
        if self.user_limits:
            add_to(self.usage.setdefault(job.user, {}), demand, sign)
        for ledger in self.user_ledgers(job.user, job.priority):
            ledger.change(demand, sign, now)

    def remember(self, event: Used) -> None:
        """What was held between two times that are over."""
        demand = {r: round(amount) for r, amount in scaled(event.amounts).items()}
        start, end, half_life = event.start, event.end, self.rules.half_life
        leaf = self.leaf(event.queue)
        for queue in leaf.path:
            if queue.past is not None:
                queue.past.add(queue.usage, demand, start, end)
            ledgers = list(queue.ledgers)
            if queue is leaf or queue.has_caps:
                member = queue.member(event.user, half_life)
                if member.past is not None:
                    member.past.add(member.usage, demand, start, end)
                ledgers += member.ledgers
                if queue is leaf:
                    member.share = leaf.user_share(member, end)
                    leaf.put(member)
            for ledger in ledgers:
                ledger.add(demand, start, end)
            if queue.parent is not None:
                queue.reorder(queue.own_share(end))
        for ledger in self.user_ledgers(event.user, event.priority):
            ledger.add(demand, start, end)
        self._forget(leaf)

    def user_ledgers(self, user: str, priority: int) -> list[Ledger]:
        """Budgets that hold in all queues: the user's own, and the class's."""
        if not self.user_rules and not self.class_budgets:
            return []
        found = self.ledgers.get((user, None))
        if found is None:
            rule = self.user_rules.get(user, UserRule(user))
            found = self.ledgers[(user, None)] = [_ledger(budget) for budget in rule.budgets]
        limit = self.class_budgets.get(priority)
        if limit is None:
            return found
        of_class = self.ledgers.get((user, priority))
        if of_class is None:
            of_class = self.ledgers[(user, priority)] = [Ledger(limit, "week")]
        return found + of_class

    def left(self, job: Job) -> None:
        """It neither waits nor holds anything any more."""
        queue = self.tree.get(job.queue)
        if queue is not None and not queue.queued and not queue.running:
            self._forget(queue)

    def refresh(self, now: float) -> None:
        """With a half-life, shares change with time alone."""
        for queue in self.tree.values():
            queue.reorder(queue.own_share(now))

    # ---- caps -----------------------------------------------------------------------------------

    def cap(
        self, job: Job, now: float, demand: Demand | None = None, jobs: int = 1,
        coming: Sequence[Job] = (),
    ) -> Cap | None:  # fmt: skip
        """Which cap a job that starts now (or takes so much more) would break; with those counted
        for whom room is being made."""
        asked = job.shape.demand if demand is None else demand
        for queue in (job.member or self._bind(job)).queue.capped:
            if queue.has_rare_caps or coming or not queue.keeps_limits(job.user, asked):
                theirs = self._below(queue, coming) if coming else coming
                cap = queue_cap(queue, job.user, asked, now, jobs, theirs)
                if cap is not None:
                    return cap
        return self._own_cap(job, asked, now, jobs, coming) if self.keeps_books else None

    def holds_nobody(self, leaf: Queue, user: Member) -> bool:
        """No cap can hold any job that this user has waiting there; False: some may."""
        if self.keeps_books:
            return False
        for queue in leaf.capped:
            if queue.has_rare_caps or not queue.keeps_limits(user.name, leaf.largest_demand()):
                return False
        return True

    def _own_cap(
        self, job: Job, asked: Demand, now: float, jobs: int, coming: Sequence[Job]
    ) -> Cap | None:
        """What holds in all queues."""
        user = job.user
        limit = self.user_limits.get(user)
        if limit:
            mine = [other for other in coming if other.user == user]
            over = beyond(limit, with_those(self.usage.get(user, {}), mine), asked)
            if over is not None:
                text = f"user {user} may have {so_much(over, limit)} at once"
                return Cap(text, user=user, counts=over)
        if GPUS in asked:
            for ledger in self.user_ledgers(user, job.priority):
                if ledger.is_spent(now):
                    return spent(f"user {user}", ledger, now)
        if jobs and self.has_guarantees and not job.preemptible:  # more members give way first
            # What those have who are still to come is not theirs yet, and may come to be.
            cap = self._guarantees_left(job, asked, coming) if coming else None
            return cap or self._guarantees_left(job, asked, ())
        return None

    def _below(self, queue: Queue, jobs: Sequence[Job]) -> list[Job]:
        return [job for job in jobs if queue in self.tree[job.queue].path]

    def _guarantees_left(self, job: Job, asked: Demand, coming: Sequence[Job]) -> Cap | None:
        """What others are promised must stay within reach: free, or held by what can be sent
        away."""
        leaf = self.tree[job.queue]
        firmly = [other for other in coming if not other.preemptible]
        for resource in asked:
            total = self.total.get(resource, 0)
            firm = 0.0
            for queue in self.tree.values():
                if not queue.children and queue.parent is not None:
                    fixed = with_those(queue.fixed, self._below(queue, firmly)).get(resource, 0)
                    if queue is leaf:
                        fixed += asked[resource]
                    firm += min(fixed, queue.deserved.get(resource, 0.0))
            promised = 0.0
            for queue in leaf.path:
                if queue.parent is not None:
                    for sibling in queue.parent.children.values():
                        if sibling is not queue:
                            promised += self._needs(sibling, resource, coming)
            if promised and total - firm < promised:
                name = "memory" if resource == MEMORY else f"{word(resource)}s"
                text = f"{name} of other queues' guarantees are lent only to preemptible jobs"
                return Cap(text)
        return None

    def _needs(self, queue: Queue, resource: str, coming: Sequence[Job]) -> float:
        used = with_those(queue.usage, self._below(queue, coming)).get(resource, 0)
        below = [self._needs(child, resource, coming) for child in queue.children.values()]
        return max(queue.guarantee.get(resource, 0.0) - used, sum(below), 0.0)


def _ledger(budget: Budget) -> Ledger:
    return Ledger(budget.gpu_hours, budget.per)
