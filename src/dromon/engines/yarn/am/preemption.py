"""YARN asks for containers back: which are given, and who must stop. Pure.

Whatever does no work goes first; YARN counts it against what it wants. Only where that is not
enough are members at work asked to save and stop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """`release`: containers to give back at once; `stop`: members whose containers must follow."""

    release: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()


def answer(wanted: Collection[str], held: Mapping[str, str], working: Collection[str]) -> Answer:
    """`wanted`: containers YARN named; `held`: every container we have -> its member; `working`:
    members that must not be taken away without a word."""
    named = [container for container in wanted if container in held]
    idle = [container for container in named if held[container] not in working]
    busy = [container for container in named if held[container] in working]
    others = [c for c, member in held.items() if member not in working and c not in idle]
    instead = others[: len(busy)]
    enough = len(instead) >= len(busy)
    return Answer((*idle, *instead), () if enough else tuple(held[c] for c in busy))
