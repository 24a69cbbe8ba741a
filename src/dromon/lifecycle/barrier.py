"""When a gang may start, and who gets which rank. Functions over values only."""

from typing import Collection, Dict, Mapping, Tuple

from dromon.lifecycle.plan import GangPlan

Address = Tuple[str, Tuple[int, ...]]  # host, ports
Seat = Tuple[str, int, str, Tuple[int, ...]]  # member, rank, host, ports
Seats = Tuple[Seat, ...]


def role_of(member: str) -> str:
    return member.rpartition("-")[0]


def roster(plan: GangPlan) -> Dict[str, int]:
    """Every member the plan knows -> its place in rank order: by role, then by index."""
    names = (f"{role.name}-{index}" for role in plan.roles for index in range(role.replicas))
    return {name: place for place, name in enumerate(names)}


def count(members: Collection[str]) -> Dict[str, int]:
    """Role -> how many of these members it has."""
    counts: Dict[str, int] = {}
    for member in members:
        role = role_of(member)
        counts[role] = counts.get(role, 0) + 1
    return counts


def is_enough(plan: GangPlan, members: Collection[str]) -> bool:
    """At least `min` of each role are among these, and somebody at all."""
    counts = count(members)
    return bool(counts) and all(counts.get(r.name, 0) >= r.min for r in plan.roles)


def may_open(plan: GangPlan, ready: Collection[str], has_waited: bool) -> bool:
    """All of them are there; or, after `gang_wait`, as many as the gang cannot do without."""
    counts = count(ready)
    if all(counts.get(r.name, 0) == r.replicas for r in plan.roles):
        return bool(counts)
    return has_waited and is_enough(plan, ready)


def seats(addresses: Mapping[str, Address]) -> Seats:
    """The world of these members, which come in rank order."""
    return tuple((name, rank, *address) for rank, (name, address) in enumerate(addresses.items()))
