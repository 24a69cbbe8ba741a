"""Small scenarios by the thousand: a seed gives a list of steps, and a list of steps can be told,
played and made smaller. A step names things by number, so that it keeps its sense when steps
before it are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.rules import Budget, PriorityRule, QueueRule, Reservation, Rules, UserRule

KINDS = ("t4", "a100")
USERS = ("ann", "bob", "cat")
THEMES = (
    "plain", "queues", "tree", "caps", "budgets", "durations", "priority", "reclaim", "guarantee",
    "reservation", "elastic", "fractions", "kinds", "churn", "half_life", "fifo", "sjf", "aging",
)  # fmt: skip


@dataclass(frozen=True)
class Submit:
    roles: tuple[RoleAsk, ...]
    user: str = "ann"
    queue: str = "default"
    priority: int = 0
    preemptible: bool = True
    max_duration: float | None = None
    stop_grace: float = 10.0


@dataclass(frozen=True)
class Join:
    name: str
    cpus: float
    memory: int
    kinds: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Node:
    """Something happens to a node: leave, drain, open; or to a device: hold, free."""

    what: str
    number: int
    device: int = 0


@dataclass(frozen=True)
class Change:
    """Something happens to the n-th job that runs (of those stopping: gone): end, checkpoint,
    crash; of those waiting: withdraw."""

    what: str
    number: int


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Order:
    """New rules."""

    rules: Rules


Step = Submit | Join | Node | Change | Wait | Order
Steps = tuple[Step, ...]


def scenario(seed: int, length: int = 20) -> Steps:
    """Two or three themes, a cluster of one to three nodes, and what happens to it."""
    chance = Random(seed)
    themes = set(chance.sample(THEMES, chance.choice((1, 2, 2, 3))))
    rules = some_rules(chance, themes)
    steps: list[Step] = [Order(rules)] if rules != Rules() else []
    steps += [some_node(chance, themes, f"n{n}") for n in range(chance.choice((1, 1, 1, 2, 2, 3)))]
    queues = leaves(rules) or ["default"]
    for _ in range(chance.randint(6, length)):
        steps.append(some_step(chance, themes, rules, queues))
    return tuple(steps)


def comparable(steps: Steps) -> Steps:
    """Without what the slow scheduler leaves out."""
    return tuple(comparable_step(step) for step in steps)


def comparable_step(step: Step) -> Step:
    match step:
        case Submit(roles=roles):
            return replace(step, roles=tuple(replace(r, replicas=r.min) for r in roles))
        case Order(rules=rules):
            return Order(replace(
                rules, reservations=(), half_life=None,
                queues=tuple(replace(q, budgets=()) for q in rules.queues),
                users=tuple(replace(u, budgets=()) for u in rules.users),
                priorities=tuple(replace(p, user_budget=None) for p in rules.priorities),
            ))  # fmt: skip
    return step


def leaves(rules: Rules) -> list[str]:
    parents = {q.parent for q in rules.queues}
    return [q.name for q in rules.queues if q.name not in parents]


def some_step(chance: Random, themes: set[str], rules: Rules, queues: list[str]) -> Step:
    roll = chance.random()
    if roll < 0.48:
        return some_job(chance, themes, queues)
    if roll < 0.66:
        return Change(chance.choice(("end", "end", "end", "gone", "gone")), chance.randrange(4))
    if roll < 0.80:
        return Wait(chance.choice((1, 5, 20, 50, 100, 600, 3600, 90000, 600000)))
    if roll < 0.86:
        what = chance.choice(("checkpoint", "withdraw", "crash", "gone"))
        return Change(what, chance.randrange(4))
    if roll < 0.90 and rules.queues:
        return Order(shaken(chance, rules))
    if roll < 0.95 or "churn" in themes:
        what = chance.choice(("drain", "open", "hold", "free", "leave", "join"))
        if what == "join":
            return some_node(chance, themes, f"n{chance.randrange(3)}")
        return Node(what, chance.randrange(3), chance.randrange(2))
    return some_job(chance, themes, queues)


def some_node(chance: Random, themes: set[str], name: str) -> Join:
    gpus = chance.choice((0, 2, 4, 4, 4)) if name != "n0" else chance.choice((2, 4, 4))
    kinds = [chance.choice(KINDS) if "kinds" in themes else "" for _ in range(gpus)]
    labels = ("fast",) if chance.random() < 0.3 else ()
    return Join(name, chance.choice((4, 4, 6, 8)), chance.choice((8, 16, 16)), tuple(kinds), labels)


def some_role(chance: Random, themes: set[str], name: str) -> RoleAsk:
    replicas = chance.choice((1, 1, 1, 2, 2, 3))
    if "elastic" in themes:
        replicas = chance.choice((1, 2, 3, 4, 8))
    least = chance.randint(1, min(replicas, 2)) if "elastic" in themes else replicas
    gpus: float = chance.choice((0, 0, 1, 1, 1, 1, 2, 2))
    if "fractions" in themes and chance.random() < 0.6:
        gpus = chance.choice((0.25, 0.5, 0.5, 0.5, 0.75, 1, 1.5))
    return RoleAsk(
        name, replicas, least,
        cpus=chance.choice((0, 0.5, 1, 1, 2)),
        memory=chance.choice((None, None, 1, 2, 4)),
        gpus=gpus,
        gpu_kind=chance.choice((None, None, *KINDS)) if "kinds" in themes and gpus else None,
        node_label="fast" if chance.random() < 0.04 else None,
        spread="node" if chance.random() < 0.06 else "none",
    )  # fmt: skip


def some_job(chance: Random, themes: set[str], queues: list[str]) -> Submit:
    names = ("worker",) if chance.random() < 0.85 else ("ps", "worker")
    ranked = {"priority", "fifo", "aging", "budgets"} & themes
    lasts = {"durations", "reservation", "sjf"} & themes
    return Submit(
        tuple(some_role(chance, themes, name) for name in names),
        chance.choice(USERS),
        chance.choice(queues) if chance.random() < 0.98 else "elsewhere",
        chance.choice((-1, 0, 0, 1, 2)) if ranked else 0,
        chance.random() < 0.7,
        chance.choice((None, 10, 30, 60, 60, 100, 7200)) if lasts else None,
        chance.choice((0, 10, 10, 30)),
    )


def some_rules(chance: Random, themes: set[str]) -> Rules:
    queues: list[QueueRule] = []
    if {"queues", "tree", "caps", "budgets", "reclaim", "guarantee", "half_life"} & themes:
        names = ["a", "b", "c"][: chance.choice((2, 2, 3))]
        queues = [QueueRule(name, weight=chance.choice((1, 1, 2, 3))) for name in names]
    if "tree" in themes:
        queues += [QueueRule(f"a{n}", parent="a", weight=chance.choice((1, 1, 2))) for n in (1, 2)]
    if not queues and {"durations", "aging", "reservation"} & themes:
        queues = [QueueRule("a")]
    queues = [some_queue(chance, themes, queue) for queue in queues]
    users: tuple[UserRule, ...] = ()
    if chance.random() < 0.3:
        limit = {"gpus": chance.choice((1, 2, 4))} if "caps" in themes else {}
        budgets = (Budget(chance.choice((0.01, 0.1)), "day"),) if "budgets" in themes else ()
        users = (UserRule("ann", chance.choice((1, 2)), limit, budgets),)
    classes = (PriorityRule("urgent", 1, 0.05 if "budgets" in themes else None),)
    return Rules(
        tuple(queues),
        classes if chance.random() < 0.5 and queues else (),
        users,
        tuple(some_reservation(chance, n) for n in range(2) if "reservation" in themes),
        chance.choice((100.0, 3600.0)) if "half_life" in themes else None,
        chance.choice((0.0, 0.0, 30.0)),
        "fifo" if "fifo" in themes else "sjf" if "sjf" in themes else "fair",
    )


def some_queue(chance: Random, themes: set[str], queue: QueueRule) -> QueueRule:
    def perhaps(theme: str, odds: float = 0.5) -> bool:
        return theme in themes and chance.random() < odds

    more: dict[str, Any] = {}
    if perhaps("caps"):
        more["limit"] = {chance.choice(("gpus", "cpus", "memory")): chance.choice((1, 2, 4, 6))}
    if perhaps("caps"):
        more["user_limit"] = {chance.choice(("gpus", "cpus")): chance.choice((1, 2, 3))}
    for name in ("max_running", "max_queued", "user_max_running", "user_max_queued"):
        if perhaps("caps", 0.2):
            more[name] = chance.choice((1, 2))
    if perhaps("budgets"):
        budget = Budget(
            chance.choice((0.01, 0.1, 1)), chance.choice(("day", "week", "month")),
            chance.choice(("queue", "user")),
        )  # fmt: skip
        more["budgets"] = (budget,)
    if perhaps("durations"):
        more["max_duration"] = chance.choice((50, 100, 3600))
    if perhaps("guarantee", 0.7):
        more["guarantee"] = {chance.choice(("gpus", "cpus")): chance.choice((1, 2, 4))}
    if perhaps("reclaim") or perhaps("guarantee", 0.3):
        more["deserved"] = {chance.choice(("gpus", "cpus")): chance.choice((0, 1, 2, 4))}
    if perhaps("aging", 0.8):
        more["aging"] = chance.choice((0.5, 1.0, 60.0))
    if perhaps("priority", 0.1):
        more["non_preemptible"] = False
    return replace(queue, **more)


def some_reservation(chance: Random, number: int) -> Reservation:
    start = float(chance.choice((0, 20, 50, 100)))
    return Reservation(
        f"r{number}", start, start + chance.choice((50, 100, 600)), chance.choice((1, 2, 4)),
        user=chance.choice((None, *USERS[:2])), queue=chance.choice((None, None, "a")),
        release_after=chance.choice((None, 10.0, 50.0)),
    )  # fmt: skip


def shaken(chance: Random, rules: Rules) -> Rules:
    """The same with one queue changed."""
    queues = list(rules.queues)
    at = chance.randrange(len(queues))
    change = chance.choice(("weight", "limit", "closed", "open", "more"))
    changed: dict[str, dict[str, Any]] = {
        "weight": {"weight": chance.choice((1, 4))},
        "limit": {"limit": {"gpus": chance.choice((1, 2))}},
        "closed": {"is_open": False},
        "open": {"is_open": True},
        "more": {"limit": {}, "user_limit": {}, "budgets": ()},
    }
    queues[at] = replace(queues[at], **changed[change])
    return replace(rules, queues=tuple(queues))


# ---- smaller ------------------------------------------------------------------------------------


def shrink(steps: Steps, fails: Callable[[Steps], bool], tries: int = 2000) -> Steps:
    """The fewest and simplest steps that still fail, as far as leaving out and simplifying one at
    a time goes."""
    shrinking = True
    while shrinking:
        shrinking = False
        for smaller in smaller_ones(steps):
            tries -= 1
            if tries < 0:
                return steps
            if fails(smaller):
                steps, shrinking = smaller, True
                break
    return steps


def smaller_ones(steps: Steps) -> Any:
    for at in reversed(range(len(steps))):
        yield (*steps[:at], *steps[at + 1 :])
    for at, step in enumerate(steps):
        for simpler in simpler_steps(step):
            yield (*steps[:at], simpler, *steps[at + 1 :])


def simpler_steps(step: Step) -> Any:
    match step:
        case Submit(roles=roles):
            plain = Submit(roles, queue=step.queue)
            for name in ("user", "priority", "preemptible", "max_duration", "stop_grace"):
                if getattr(step, name) != getattr(plain, name):
                    yield replace(step, **{name: getattr(plain, name)})
            for at, role in enumerate(roles):
                if len(roles) > 1:
                    yield replace(step, roles=roles[:at] + roles[at + 1 :])
                for change in simpler_roles(role):
                    yield replace(step, roles=(*roles[:at], change, *roles[at + 1 :]))
        case Order(rules=rules):
            plain_rules = Rules()
            for name in ("priorities", "users", "half_life", "min_run_time", "policy"):
                if getattr(rules, name) != getattr(plain_rules, name):
                    yield Order(replace(rules, **{name: getattr(plain_rules, name)}))
            for at in range(len(rules.reservations)):
                kept = rules.reservations[:at] + rules.reservations[at + 1 :]
                yield Order(replace(rules, reservations=kept))
            for at, queue in enumerate(rules.queues):
                before, behind = rules.queues[:at], rules.queues[at + 1 :]
                if not any(q.parent == queue.name for q in rules.queues):
                    yield Order(replace(rules, queues=before + behind))
                plain_queue = QueueRule(queue.name, queue.parent)
                for name in QueueRule.__slots__:
                    if getattr(queue, name) != getattr(plain_queue, name):
                        simple = replace(queue, **{name: getattr(plain_queue, name)})
                        yield Order(replace(rules, queues=(*before, simple, *behind)))
        case Join(kinds=kinds, labels=labels):
            if kinds:
                yield replace(step, kinds=kinds[1:])
            if labels:
                yield replace(step, labels=())


def simpler_roles(role: RoleAsk) -> Any:
    if role.replicas > 1:
        yield replace(role, replicas=role.replicas - 1, min=max(1, role.min - 1))
    plain = RoleAsk(role.role, role.replicas, role.replicas)
    for name in ("cpus", "memory", "gpus", "gpu_kind", "node_label", "spread", "min"):
        if getattr(role, name) != getattr(plain, name):
            yield replace(role, **{name: getattr(plain, name)})


def told(steps: Steps) -> str:
    """One line for each step, without what is as usual."""
    return "\n".join(f"  {at:2}. {tell(step)}" for at, step in enumerate(steps))


def tell(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(tell, value)) + ")"
    if not hasattr(value, "__dataclass_fields__"):
        return repr(value)
    shown = []
    for name, about in value.__dataclass_fields__.items():
        usual = about.default_factory() if callable(about.default_factory) else about.default
        if getattr(value, name) != usual:
            shown.append(f"{name}={tell(getattr(value, name))}")
    return f"{type(value).__name__}({', '.join(shown)})"


def gpus_of(step: Join) -> tuple[Gpu, ...]:
    return tuple(Gpu(str(n), kind) for n, kind in enumerate(step.kinds))


# ---- for single properties ----------------------------------------------------------------------


def lenders(seed: int) -> Steps:
    """One node of GPUs, queues with guarantees that add up to no more than it has, and jobs that
    ask for no more than their queue's."""
    chance = Random(seed)
    gpus = chance.choice((4, 6, 8))
    parts = [chance.randint(1, gpus // 2), chance.randint(1, gpus // 2)]
    queues = tuple(
        QueueRule(name, weight=chance.choice((1, 2, 5)), guarantee={"gpus": part})
        for name, part in zip("abc", (*parts, gpus - sum(parts)), strict=True)
        if part
    )
    steps: list[Step] = [Order(Rules(queues)), Join("n0", 64, 64, ("",) * gpus)]
    for _ in range(chance.randint(4, 16)):
        if chance.random() < 0.2:
            steps.append(chance.choice((Change("end", chance.randrange(4)), Wait(50))))
        queue = chance.choice(queues)
        asked = chance.randint(1, int(queue.guarantee["gpus"]))
        role = RoleAsk("worker", 1, 1, gpus=asked)
        steps.append(Submit((role,), chance.choice(USERS), queue.name,
                            preemptible=chance.random() < 0.5))  # fmt: skip
    return tuple(steps)


def one_line(seed: int) -> Steps:
    """Jobs of one class in one queue, of one user or each of another, each with the longest it may
    take; half of the time on one node, asking for nothing but whole GPUs."""
    chance = Random(seed)
    is_plain, is_crowd = chance.random() < 0.5, chance.random() < 0.5
    themes = {"plain"} if is_plain else set(chance.sample(("kinds", "fractions"), 1))
    steps: list[Step] = [some_node(chance, themes, f"n{n}") for n in range(1 if is_plain else 3)]
    for number in range(chance.randint(6, 24)):
        job = some_job(chance, themes, ["default"])
        if is_plain:
            role = RoleAsk("worker", 1, 1, gpus=chance.choice((1, 1, 2, 3, 4)))
            job = replace(job, roles=(role,))
        user, lasts = f"u{number}" if is_crowd else "ann", chance.choice((10, 20, 30, 50, 100))
        steps.append(replace(job, user=user, queue="default", priority=0, max_duration=lasts))
        if chance.random() < 0.4:
            steps.append(Wait(chance.choice((1, 5, 10, 30))))
    return (*steps, Wait(3000))
