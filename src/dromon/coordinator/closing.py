"""The end of a job: outputs brought home by the agents, then the agents sent away.

Members have directories of their own, and may have written the same path: each tells first what
it has, and of the same path the first rank's is kept.

No socket here: whoever decides sends, and tells what it heard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dromon.agent.frames import Message

if TYPE_CHECKING:
    from dromon.coordinator.deciding import Deciding

OUTPUTS = 1800.0  # seconds that bringing outputs home may take
RETURN = 60.0  # seconds in which agents come back to the next coordinator
FAREWELL = 10.0  # seconds that agents get to leave


class Closing:
    """`awaited`: members whose agents are there, but have not come to this coordinator yet."""

    def __init__(self, deciding: Deciding, awaited: Iterable[str] = ()) -> None:
        self._deciding = deciding
        self.outputs: dict[str, dict[str, Any]] = {}  # path -> as the agent told it
        self._asked: dict[int, str] = {}
        self._found: dict[str, list[str]] = {}  # member -> paths it has
        self._shares: dict[str, list[str]] | None = None  # member -> paths it keeps, once decided
        self._left = False
        self.is_done = False
        self._awaited = set(awaited)
        self.deadline = deciding.now() + (RETURN if self._awaited else OUTPUTS)
        for member, peer in list(deciding.coordinator.peers.items()):
            self._ask(peer, member)
        self._go_on()

    def _ask(self, peer: int, member: str) -> None:
        attempt = self._deciding.gang.attempt
        if not self._deciding.request["outputs"] or not attempt:
            return
        question: Message = {"op": "keep", "attempt": attempt}
        if self._shares is not None:
            question["paths"] = self._shares.get(member, [])
        if question.get("paths") != []:
            self._asked[peer] = member
            self._deciding.send(peer, question)

    def on_kept(self, member: str, message: Message) -> None:
        if "found" in message:
            self._found[member] = message["found"]
        for output in message.get("outputs", ()):
            self.outputs[output["path"]] = {**output, "member": member}
        for peer, name in list(self._asked.items()):
            if name == member:
                del self._asked[peer]
        self._go_on()

    def on_hello(self, peer: int, member: str) -> None:
        self._deciding.coordinator.peers[member] = peer
        if self._left:
            self._deciding.send(peer, {"op": "bye"})
            return
        self._ask(peer, member)
        self._no_longer_awaited(member)

    def on_lost(self, member: str) -> None:
        """Its container is over."""
        self._no_longer_awaited(member)

    def _no_longer_awaited(self, member: str) -> None:
        if member in self._awaited:
            self._awaited.discard(member)
            if not self._awaited:
                self.deadline = self._deciding.now() + OUTPUTS
        self._go_on()

    def on_gone(self) -> None:
        there = set(self._deciding.coordinator.peers.values())
        for peer in [p for p in self._asked if p not in there]:
            member = self._asked.pop(peer)
            if self._deciding.has_place(member):
                self._awaited.add(member)  # it comes back, unless YARN says that it is over
                self.deadline = self._deciding.now() + RETURN
        self._go_on()

    def pass_time(self, now: float) -> None:
        if now >= self.deadline:
            if self._left:
                self.is_done = True
            if self._awaited:  # who has come may take its time
                self._awaited.clear()
                self.deadline = now + OUTPUTS
            else:
                self._asked.clear()
            self._go_on()

    def _rank(self, member: str) -> int:
        known = self._deciding.gang.members.get(member)
        return known.rank if known is not None and known.rank is not None else 1 << 30

    def _divide(self) -> None:
        taken: set[str] = set()
        self._shares = {}
        for member in sorted(self._found, key=self._rank):
            self._shares[member] = [path for path in self._found[member] if path not in taken]
            taken.update(self._shares[member])
        peers = self._deciding.coordinator.peers
        for member, peer in list(peers.items()):
            self._ask(peer, member)
        gone = {m for m, paths in self._shares.items() if paths and m not in peers}
        self._awaited |= {m for m in gone if self._deciding.has_place(m)}
        self.deadline = self._deciding.now() + (RETURN if self._awaited else OUTPUTS)

    def _go_on(self) -> None:
        deciding = self._deciding
        if self._shares is None and not (self._asked or self._awaited):
            self._divide()
        if self._asked or self._awaited:
            return
        if not self._left:
            self._left = True
            self.deadline = deciding.now() + FAREWELL
            for peer in list(deciding.coordinator.peers.values()):
                deciding.send(peer, {"op": "bye"})
        if not deciding.coordinator.peers:
            self.is_done = True
