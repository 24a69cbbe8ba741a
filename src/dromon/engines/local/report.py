"""Who used what, who waited how long, how busy it was: from spells to plain data. Pure.

A spell is what one job held from when to when; `since` is when it began to wait for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dromon.engines.local.journal import Spell
from dromon.engines.local.usage import AT_ONCE

STEPS = 48  # points of the line that shows how busy it was
WAITS = (60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0)  # classes of waiting, up to each


def report(
    spells: Iterable[Spell],
    total: Mapping[str, float],
    queues: Sequence[Mapping[str, Any]],
    start: float,
    end: float,
) -> dict[str, Any]:
    """Between two times. `total`: what there is; `queues`: as they stand now, for what is owed."""
    inside = [s for s in spells if s.end > start and s.start < end]
    resource = "gpus" if total.get("gpus") else "cpus"
    hours = {"gpus": "gpu_hours", "cpus": "cpu_hours"}[resource]
    users = _grouped(inside, "user", start, end)
    in_queues = _grouped(inside, "queue", start, end)
    everything = sum(each[hours] for each in users)
    for each in (*users, *in_queues):
        each["part"] = each[hours] / everything if everything else 0.0
    return {
        "start": start,
        "end": end,
        "resource": resource,
        "total": dict(total),
        "users": users,
        "queues": in_queues,
        "owed": [_owed(each, resource) for each in queues if each["name"] != "root"],
        "waits": _waits(inside, start),
        "utilisation": _utilisation(inside, total, resource, start, end),
    }


def _overlap(spell: Spell, start: float, end: float) -> float:
    return max(0.0, min(spell.end, end) - max(spell.start, start))


def _grouped(spells: Sequence[Spell], key: str, start: float, end: float) -> list[dict[str, Any]]:
    groups: dict[str, list[Spell]] = {}
    for spell in spells:
        groups.setdefault(str(getattr(spell, key)), []).append(spell)
    found = []
    for name, mine in groups.items():
        hours = {
            word: sum(s.amounts.get(r, 0.0) * _overlap(s, start, end) for s in mine) / 3600
            for r, word in (("gpus", "gpu_hours"), ("cpus", "cpu_hours"))
        }
        waits = _waited(mine, start)
        found.append(
            {
                "name": name,
                "jobs": len({s.job for s in mine}),
                **hours,
                "median_wait": quantile(waits, 0.5),
                "longest_wait": waits[-1] if waits else None,
            }
        )
    return sorted(found, key=lambda each: (-each["gpu_hours"], -each["cpu_hours"], each["name"]))


def _waited(spells: Sequence[Spell], start: float) -> list[float]:
    """How long, of each start in that time; one that only went on with another size is none."""
    starts = (s for s in spells if s.start >= start and s.since != AT_ONCE)
    return sorted(max(0.0, s.start - s.since) for s in starts)


def _owed(queue: Mapping[str, Any], resource: str) -> dict[str, Any]:
    deserved = queue["deserved"].get(resource, 0.0)
    used = queue["usage"].get(resource, 0.0)
    return {
        "name": queue["name"],
        "resource": resource,
        "deserved": deserved,
        "used": used,
        # Only who wants more is owed something.
        "owed": max(0.0, deserved - used) if queue["queued"] else 0.0,
        "borrowed": max(0.0, used - deserved),
    }


def _waits(spells: Sequence[Spell], start: float) -> dict[str, Any]:
    """Of all starts in that time."""
    waits = _waited(spells, start)
    classes = []
    below = 0.0
    for limit in (*WAITS, float("inf")):
        count = sum(1 for wait in waits if below <= wait < limit)
        classes.append({"below": None if limit == float("inf") else limit, "starts": count})
        below = limit
    return {
        "starts": len(waits),
        "median": quantile(waits, 0.5),
        "p90": quantile(waits, 0.9),
        "p99": quantile(waits, 0.99),
        "longest": waits[-1] if waits else None,
        "classes": classes,
    }


def quantile(sorted_values: Sequence[float], part: float) -> float | None:
    """The nearest rank: a value that was there."""
    if not sorted_values:
        return None
    return sorted_values[min(len(sorted_values) - 1, int(part * len(sorted_values)))]


def _utilisation(
    spells: Sequence[Spell], total: Mapping[str, float], resource: str, start: float, end: float
) -> dict[str, Any]:
    """The part of all there is that was held: on average, and step by step."""
    have, step = total.get(resource, 0.0), (end - start) / STEPS
    used = [0.0] * STEPS
    for spell in spells if step > 0 else ():
        amount = spell.amounts.get(resource, 0.0)
        first = max(0, int((spell.start - start) / step))
        last = min(STEPS - 1, int((spell.end - start) / step))
        for number in range(first, last + 1):
            left = start + number * step
            used[number] += amount * _overlap(spell, left, left + step)
    line = [each / (have * step) if have and step > 0 else 0.0 for each in used]
    return {"average": sum(line) / STEPS, "step": step, "line": line}
