"""Agents that were ended from outside: they know that, and YARN knows why. Pure.

YARN ends a container over its memory as it ends any other, by a signal; its agent can only say
that its place was taken away. What YARN says of the container follows a moment later, and is
waited for: room that was taken is no fault of the member, too much memory is.
"""

from __future__ import annotations

from typing import NamedTuple

from dromon.agent.frames import Message

WAIT = 8.0  # seconds; a node tells with its next beat, which the master hears with one of its own


class Parting(NamedTuple):
    """What an agent said last, and from when on nothing else is waited for."""

    until: float
    peer: int
    member: str
    message: Message


class Partings:
    def __init__(self) -> None:
        self._open: dict[str, Parting] = {}  # by container

    @property
    def first(self) -> float:
        """When the next one is waited for no longer."""
        return min((parting.until for parting in self._open.values()), default=float("inf"))

    def put(self, container: str, peer: int, member: str, message: Message, now: float) -> None:
        self._open.setdefault(container, Parting(now + WAIT, peer, member, message))

    def take(self, container: str) -> Parting | None:
        return self._open.pop(container, None)

    def passed(self, now: float) -> list[Parting]:
        """Those of which YARN has not said anything in time; each is given once."""
        over = [container for container, one in self._open.items() if one.until <= now]
        return [self._open.pop(container) for container in over]
