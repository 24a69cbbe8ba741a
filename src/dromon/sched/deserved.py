"""What each queue deserves of what its parent does. Arithmetic over the tree; nobody's usage."""

from dromon.sched.asks import CPUS, GPUS, MEMORY
from dromon.sched.queues import Queue, scaled


def divide(parent: Queue) -> None:
    """All the way down."""
    children = list(parent.children.values())
    for child in children:
        child.deserved = {}
    for resource in parent.deserved:
        for child, part in zip(children, _parts(parent, children, resource), strict=True):
            child.deserved[resource] = min(part, child.limit.get(resource, part))
    for child in children:
        divide(child)


def _parts(parent: Queue, children: list[Queue], resource: str) -> list[float]:
    """Of one resource: what some were given; what goes with what else they were given; the rest by
    weight. Nobody has less than it was guaranteed; whoever would, takes that first, so that all
    together have no more than there is."""
    whole = parent.deserved[resource]
    given: dict[int, float] = {}
    along: dict[int, float] = {}
    for child in children:
        amounts, least = scaled(child.rule.deserved or {}), child.guarantee.get(resource, 0.0)
        if resource in amounts:
            given[child.number] = _kept(child, resource, max(amounts[resource], least))
        elif (part := _fraction(parent, amounts, resource)) is not None:
            along[child.number] = part * whole
    while True:
        others = [child for child in children if child.number not in given]
        left = max(0.0, whole - sum(given.values()))
        found = {c.number: along[c.number] for c in others if c.number in along}
        asked = sum(found.values())
        if asked > left:
            found = {number: part * left / asked for number, part in found.items()}
        weighed = [child for child in others if child.number not in found]
        rest, weights = max(0.0, left - asked), sum([child.rule.weight for child in weighed])
        found |= {child.number: rest * child.rule.weight / weights for child in weighed}
        short = [c for c in others if found[c.number] < c.guarantee.get(resource, 0.0)]
        if not short:
            found |= given
            return [found[child.number] for child in children]
        for child in short:
            least = child.guarantee[resource]
            given[child.number] = _kept(child, resource, least)


def _kept(child: Queue, resource: str, amount: float) -> float:
    return min(amount, child.limit.get(resource, amount))


def _fraction(parent: Queue, amounts: dict[str, float], resource: str) -> float | None:
    """Who was given six of eight GPUs, and nothing is said of CPUs and memory, is owed as large a
    part of these; else they go with one another. GPUs go with nothing, but kinds of them with all
    of them: who was given some kinds by name is owed no others. None: nothing to go by."""
    whole = parent.deserved
    if resource not in (CPUS, MEMORY):
        if resource == GPUS or not whole.get(GPUS) or GPUS not in amounts:
            return None
        others = sum([amount for key, amount in amounts.items() if key.startswith(f"{GPUS}.")])
        return min(1.0, max(0.0, amounts[GPUS] - others) / whole[GPUS])
    for key in (GPUS, CPUS, MEMORY):
        if amounts.get(key) and whole.get(key):
            return min(1.0, amounts[key] / whole[key])
    return None
