"""Sizes compared, added and told: what fits where, what is missing, in numbers and words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dromon.engines.yarn.am.asks import Size
from dromon.engines.yarn.reports import GPU


def fits(asked: Size, room: Size) -> bool:
    return (
        asked.memory <= room.memory
        and asked.vcores <= room.vcores
        and all(count <= room.others.get(kind, 0) for kind, count in asked.others.items())
    )


def over(used: Size, limit: Size) -> bool:
    """YARN lets a user's last container go over the limit, and rounds a part of a core up."""
    return used.memory > limit.memory or used.vcores > max(limit.vcores, 1)


def total(a: Size, b: Size) -> Size:
    kinds = {*a.others, *b.others}
    others = {kind: a.others.get(kind, 0) + b.others.get(kind, 0) for kind in kinds}
    return Size(a.memory + b.memory, a.vcores + b.vcores, others)


def times(size: Size, count: int) -> Size:
    others = {kind: n * count for kind, n in size.others.items()}
    return Size(size.memory * count, size.vcores * count, others)


def less(a: Size, b: Size) -> Size:
    others = {kind: max(n - b.others.get(kind, 0), 0) for kind, n in a.others.items()}
    return Size(max(a.memory - b.memory, 0), max(a.vcores - b.vcores, 0), others)


def nearness(asked: Size, room: Size) -> tuple[float, int]:
    """How much of what is asked for is there; then how much memory."""
    parts = [(room.memory, asked.memory), (room.vcores, asked.vcores)]
    parts += [(room.others.get(kind, 0), count) for kind, count in asked.others.items()]
    return min(min(has / want, 1.0) for has, want in parts if want), room.memory


def missing(asked: Size, room: Size) -> Mapping[str, float]:
    short = less(asked, room)
    amounts = {
        "memory": short.memory * 2.0**20,
        "cpus": float(short.vcores),
        **{"gpus" if kind == GPU else kind: float(n) for kind, n in short.others.items()},
    }
    return {name: amount for name, amount in amounts.items() if amount}


def short(ask: Size, used: Size, limit: Size) -> list[str]:
    """The kinds of which there would be too much; one that is not asked for is no obstacle."""
    found = ["memory"] if ask.memory and used.memory + ask.memory > limit.memory else []
    found += ["vcores"] if ask.vcores and used.vcores + ask.vcores > limit.vcores else []
    return found + [
        kind
        for kind, count in ask.others.items()
        if count and used.others.get(kind, 0) + count > limit.others.get(kind, 0)
    ]


def told(size: Size, kinds: Sequence[str]) -> str:
    """Only these kinds of it, in words; all of it where none is named."""
    if not kinds:
        return str(size)
    words = {"memory": f"{size.memory} MB", "vcores": cores(size.vcores)}
    return ", ".join(words.get(kind, f"{size.others.get(kind, 0)} {kind}") for kind in kinds)


def cores(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"


def figure(said: str, key: str) -> Size | None:
    """A figure in YARN's diagnostics: ``key = <memory:64, vCores:1, yarn.io/gpu: 1>``."""
    match = re.search(re.escape(key) + r"\s*=\s*<([^>]*)>", said)
    if match is None:
        return None
    found = dict(re.findall(r"([\w./-]+):\s*(\d+)", match[1]))
    memory, vcores = int(found.pop("memory", 0)), int(found.pop("vCores", 0))
    return Size(memory, vcores, {kind: int(count) for kind, count in found.items()})
