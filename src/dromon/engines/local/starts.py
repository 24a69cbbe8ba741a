"""The pace at which the members of a large gang are let go once their barrier is open.

A machine starts no more programs at once than it has cores. A hundred let go together only take
the caches and the memory from each other, and all of them are up later than they could be. So a
few start at once, and another one when one of them has ended or has had its time; more of them
when the processors are idle. What an agent is told after its world still comes after it.
"""

import asyncio
from collections.abc import Callable
from itertools import islice

from dromon.agent.files import read_small
from dromon.agent.frames import Message

AHEAD = 2  # for each core: one that starts, and one that is next
LOOK = 0.01  # without an end for so long, we look whether the processors are idle
PATIENCE = 0.03  # after so long one is taken for started


class Starts:
    """`send` carries a message to an agent; `cores` is how many of them can really run at once."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, send: Callable[[int, Message], None], cores: int
    ) -> None:
        self._loop = loop
        self._send = send
        self._cores = cores
        self._most = AHEAD * self._cores
        self._waiting: dict[int, Message] = {}  # agent -> the world it is still to be told
        self._starting: dict[int, float] = {}  # agent -> since when
        self._last = 0.0  # when one was let go
        self._is_due = False
        self._look: asyncio.TimerHandle | None = None

    def send(self, peer: int, message: Message) -> None:
        if message.get("op") == "world":
            self._waiting[peer] = message
            self._let_go()
            return
        world = self._waiting.pop(peer, None)
        if world is not None:
            self._send(peer, world)
        self._send(peer, message)

    def ended(self, peer: int) -> None:
        """Its member has, or the agent itself is gone."""
        self._waiting.pop(peer, None)
        if self._starting.pop(peer, None) is not None and self._waiting and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._let_go)  # then its agent is idle, and takes the next

    def _let_go(self) -> None:
        self._is_due = False
        now = self._loop.time()
        if len(self._starting) >= self._most:
            late = now - PATIENCE
            self._starting = {p: since for p, since in self._starting.items() if since > late}
        room = self._most - len(self._starting)
        for peer in list(islice(self._waiting, max(room, 0))):
            self._last = self._starting[peer] = now
            self._send(peer, self._waiting.pop(peer))
        if not self._waiting:
            self._most = AHEAD * self._cores
        elif self._look is None:
            self._look = self._loop.call_later(LOOK, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        quiet = self._loop.time() - self._last
        if quiet < LOOK:
            self._look = self._loop.call_later(LOOK - quiet, self._look_again)
            return
        if running() <= self._cores:  # we are one of them
            self._starting.clear()
            self._most *= 2
        self._let_go()


def running() -> int:
    """How many threads of this machine use a processor now, or want one; 0 when nobody knows."""
    try:
        return int(read_small("/proc/loadavg").split()[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        return 0
