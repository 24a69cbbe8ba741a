"""The end of a job: outputs brought home by the agents, then the agents sent away.

No socket here: `Master` sends, and tells what it heard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dromon.agent.frames import Message

if TYPE_CHECKING:
    from dromon.engines.yarn.am.master import Master

OUTPUTS = 1800.0  # seconds that bringing outputs home may take
FAREWELL = 10.0  # seconds that agents get to leave


class Closing:
    def __init__(self, master: Master) -> None:
        self._master = master
        self.outputs: dict[str, dict[str, Any]] = {}  # path -> as the agent told it
        self._asked: dict[int, str] = {}
        self._left = False
        self.is_done = False
        self.deadline = master._now() + OUTPUTS
        attempt = master.gang.attempt
        if master.request["outputs"] and attempt:
            for member, peer in list(master.coordinator.peers.items()):
                self._asked[peer] = member
                master.send(peer, {"op": "keep", "attempt": attempt})
        self._go_on()

    def on_kept(self, member: str, message: Message) -> None:
        for output in message["outputs"]:
            # Members have directories of their own; of the same path the first rank's counts.
            known = self.outputs.get(output["path"])
            if known is None or self._rank(member) < self._rank(known["member"]):
                self.outputs[output["path"]] = {**output, "member": member}
        for peer, name in list(self._asked.items()):
            if name == member:
                del self._asked[peer]
        self._go_on()

    def on_hello(self, peer: int) -> None:
        self._master.peers.send(peer, {"op": "bye"})

    def on_gone(self) -> None:
        there = set(self._master.coordinator.peers.values())
        for peer in [p for p in self._asked if p not in there]:
            del self._asked[peer]
        self._go_on()

    def pass_time(self, now: float) -> None:
        if now >= self.deadline:
            if self._left:
                self.is_done = True
            self._asked.clear()
            self._go_on()

    def _rank(self, member: str) -> int:
        known = self._master.gang.members.get(member)
        return known.rank if known is not None and known.rank is not None else 1 << 30

    def _go_on(self) -> None:
        master = self._master
        if self._asked:
            return
        if not self._left:
            self._left = True
            self.deadline = master._now() + FAREWELL
            for peer in list(master.coordinator.peers.values()):
                master.send(peer, {"op": "bye"})
        if not master.coordinator.peers:
            self.is_done = True
