"""Who may have how much: what queues deserve, shares, caps, guarantees. Nothing about where it
would be."""

from collections.abc import Collection
from math import floor, inf

from dromon.sched.rules import ROOT, QueueRule
from reference.slow import Amounts, Job, Slow, amounts, most, over


class Books:
    """At one time; with what one decision has started so far."""

    def __init__(self, slow: Slow, now: float) -> None:
        self.slow, self.now = slow, now
        self.held = {j.id: amounts(j.ask, j.placement) for j in slow.placed()}
        self.total = Amounts()  # of the open nodes
        for node in (n for n in slow.nodes.values() if n.name not in slow.drained):
            self.total += Amounts({"cpus": node.cpus, "memory": node.memory})
            self.total += Amounts("gpus" for _ in node.gpus)
            self.total += Amounts(f"gpus.{gpu.kind}" for gpu in node.gpus)
        self.deserved = self.deserved_below(ROOT, self.total)

    def usage(self, queue: str, user: str | None = None, without: Collection[str] = ()) -> Amounts:
        """What is held of a queue and those below it."""
        jobs = [self.slow.jobs[id] for id in self.held if id not in without]
        jobs = [j for j in jobs if self.slow.is_in(j, queue) and user in (None, j.user)]
        return sum((self.held[j.id] for j in jobs), Amounts())

    # ---- what a queue deserves, and its share of it (2) -----------------------------------------

    def deserved_below(self, parent: str, whole: Amounts) -> dict[str, Amounts]:
        siblings = self.slow.children(parent)
        found = {rule.name: Amounts() for rule in siblings}
        for r in self.total:
            for name, part in parts(siblings, r, whole).items():
                found[name][r] = part
        for rule in siblings:
            found |= self.deserved_below(rule.name, found[rule.name])
        return found

    def share(self, queue: str, user: str | None = None) -> float:
        """The dominant part of what it deserves that it holds."""
        used, part = self.usage(queue, user), self.deserved[queue]
        weight = 1.0 if user is None else self.slow.user(user).weight
        ratios = [used[r] / part[r] / weight if part[r] else inf for r in self.total if used[r]]
        return max(ratios, default=0.0)

    def priority(self, job: Job, at: float | None = None) -> int:
        """Now, or when it started."""
        aging = self.slow.queue(job.queue).aging or 0.0
        return job.priority + floor(aging * ((self.now if at is None else at) - job.time) / 3600)

    # ---- who is held (3) ------------------------------------------------------------------------

    def cap(self, job: Job) -> str | None:
        """Which of the rules holds it, whatever is free."""
        need, user, holds = job.demand, self.slow.user(job.user), {}
        for rule in self.slow.path(job.queue):
            name, running = rule.name, [self.slow.jobs[id] for id in self.held]
            there = [j for j in running if self.slow.is_in(j, name)]
            mine = [j for j in there if j.user == job.user]
            holds |= {
                f"closed queue {name}": not rule.is_open,
                f"limit of {name}": over(self.usage(name) + need, rule.limit, need),
                f"user_limit of {name}":
                    over(self.usage(name, job.user) + need, rule.user_limit, need),
                f"max_running of {name}": len(there) >= most(rule.max_running),
                f"user_max_running of {name}": len(mine) >= most(rule.user_max_running),
            }  # fmt: skip
        holds["limit of the user"] = over(self.usage(ROOT, job.user) + need, user.limit, need)
        holds["guarantees of others"] = not (job.preemptible or self.leaves_guarantees(job))
        return next((name for name, is_so in holds.items() if is_so), None)

    def leaves_guarantees(self, job: Job) -> bool:
        """What others were promised must stay within reach: free, preemptible or borrowed."""
        firm, promised = Amounts(), Amounts()
        held = [(self.slow.jobs[id], of) for id, of in self.held.items()] + [(job, job.demand)]
        held = [(other, of) for other, of in held if not other.preemptible]
        for queue in {other.queue for other, _ in held}:
            mine = sum((of for other, of in held if other.queue == queue), Amounts())
            firm += mine & self.deserved[queue]
        for above in (ROOT, *(rule.name for rule in self.slow.path(job.queue))):
            for queue in self.slow.children(above):
                if not self.slow.is_in(job, queue.name):
                    promised += self.owed(queue)
        asked = [r for r, of in job.demand.items() if of and promised[r]]
        return all(self.total[r] - firm[r] >= promised[r] - 1e-9 for r in asked)

    def owed(self, queue: QueueRule) -> Amounts:
        """What it, or those below it, were guaranteed and do not hold."""
        below = sum((self.owed(child) for child in self.slow.children(queue.name)), Amounts())
        return (Amounts(queue.guarantee) - self.usage(queue.name)) | below


def parts(siblings: list[QueueRule], r: str, wholes: Amounts) -> dict[str, float]:
    """Of one resource: what was given to some; to who was given other resources only, as large a
    part as of these; the rest by weight. Nobody gets less than it was guaranteed, nor more than its
    limit."""
    whole = wholes[r]
    limit = {q.name: q.limit.get(r, inf) for q in siblings}
    least = {q.name: q.guarantee.get(r, 0.0) for q in siblings}
    given = {q.name: max(q.deserved[r], least[q.name]) for q in siblings if r in (q.deserved or ())}
    while True:
        given = {name: min(of, limit[name]) for name, of in given.items()}
        others = [q for q in siblings if q.name not in given]
        rest = max(0.0, whole - sum(given.values()))
        parts = {q.name: along(q, r, wholes) for q in others if along(q, r, wholes) is not None}
        asked = sum(parts.values())
        parts = {
            name: part * min(1.0, rest / asked) if asked else 0.0 for name, part in parts.items()
        }
        rest -= sum(parts.values())
        others = [q for q in others if q.name not in parts]
        parts |= {q.name: rest * q.weight / sum(o.weight for o in others) for q in others}
        short = {name: least[name] for name, part in parts.items() if part < least[name]}
        if not short:
            return given | {name: min(part, limit[name]) for name, part in parts.items()}
        given |= short


def along(queue: QueueRule, r: str, wholes: Amounts) -> float | None:
    """What it is owed of a resource that was not named, by what was."""
    named = queue.deserved or {}
    if r.startswith("gpus.") and "gpus" in named and wholes["gpus"]:
        kinds = sum(of for key, of in named.items() if key.startswith("gpus."))
        return wholes[r] * min(1.0, max(0.0, named["gpus"] - kinds) / wholes["gpus"])
    leading = [key for key in ("gpus", "cpus", "memory") if named.get(key) and wholes[key]]
    if r.startswith("gpus") or not leading:
        return None
    return wholes[r] * min(1.0, named[leading[0]] / wholes[leading[0]])
