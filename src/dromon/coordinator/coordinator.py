"""One job's coordinator: events and agents' messages in, effects out. No sockets, no clock.

Effects come in the order in which they must happen. `Keep` goes first: what an agent is told, or
what is launched, may only follow once the event behind it is on disk.
"""

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple, Union

from dromon.agent.frames import Message
from dromon.frameworks.world import Member, World
from dromon.lifecycle import events as ev
from dromon.lifecycle.gang import Gang

Peer = int  # the connection of one agent, numbered by whoever owns the sockets


@dataclass(frozen=True)
class Keep:
    """Put this event on the job's journal."""

    event: ev.Event
    now: float


@dataclass(frozen=True)
class Send:
    peer: Peer
    message: Message


BYE: Message = {"op": "bye"}
STALE: Message = {"op": "stop", "grace": 0.0, "reason": "stale"}

Effect = Union[Keep, Send, ev.Launch, ev.Release, ev.Finish]


@dataclass(frozen=True)
class Beat:
    """What an agent last said of its member's use of the machine."""

    time: float
    memory: int = 0
    gpu: Mapping[str, float] = None  # type: ignore[assignment]


class Coordinator:
    """Holds the gang and the agents' connections of one job.

    `in_place`: agents stay between attempts and are told `again` (their place cannot be given
    back piecemeal); otherwise they are sent away with `bye` and launched anew. An agent in place
    that has no run, or an earlier one, is room for the gang: it stays until the job is over.
    """

    def __init__(
        self, gang: Gang, *, shapes: Mapping[str, Tuple[int, int]], in_place: bool = False
    ) -> None:
        self.gang = gang
        self.shapes = shapes  # role -> (processes, GPUs) of each member
        self.in_place = in_place
        self.peers: Dict[str, Peer] = {}
        self.beats: Dict[str, Beat] = {}
        self.saved: Optional[float] = None  # when the gang's work was last, as far as it said
        self._owed_stops: Dict[str, ev.StopMember] = {}

    # ---- the engine's side ----------------------------------------------------------------------

    def on_event(self, event: ev.Event, now: float) -> List[Effect]:
        """Something happened that the gang must know. Always journalled first."""
        effects: List[Effect] = [Keep(event, now)]
        for command in self.gang.step(event, now):
            effects += self._carry_out(command)
        if self.gang.is_terminal and self.in_place:
            effects += [Send(peer, BYE) for peer in self.peers.values()]
        return effects

    def replay(self, event: ev.Event, now: float) -> None:
        """Hear again what the journal kept; nothing is sent, only what is owed is remembered."""
        for command in self.gang.step(event, now):
            self._carry_out(command)

    # ---- the agents' side -----------------------------------------------------------------------

    def on_hello(self, peer: Peer, member: str, run: int) -> List[Effect]:
        """An agent has proved itself; run 0: it has none yet. A stale one is told to end what it
        runs and, unless its place is wanted, to leave."""
        known = self.gang.members.get(member)
        is_live = known is not None and known.is_live
        if known is not None and is_live and known.run == run:
            self.peers[member] = peer
            return self._owed(member, run)
        if self.in_place and not self.gang.is_terminal:
            if known is not None and is_live and not known.host and run < known.run:
                # It was launched, and whoever was to run it has not been here.
                self.peers[member] = peer
                again = self._again(peer, known.run, self.gang.attempt)
                return [again, *self._owed(member, known.run)]
            if not is_live or not run:
                self.peers[member] = peer
                return [Send(peer, STALE)] if run else []
        return [Send(peer, STALE), Send(peer, BYE)]

    def _owed(self, member: str, run: int) -> List[Effect]:
        """The stop that this run has not heard of yet."""
        owed = self._owed_stops.get(member)
        return [self._stop(owed)] if owed is not None and owed.run == run else []

    def on_message(
        self, peer: Peer, member: str, run: int, message: Message, now: float
    ) -> List[Effect]:
        """`run` is what the agent said hello with; an agent in place has come further since, and
        every message names the run it is about."""
        op, run = message.get("op"), int(message.get("run", run))
        if op == "alive":
            return [Send(peer, {"op": "alive", "asked": message["asked"]})]
        if op == "ready":
            ports = tuple(int(p) for p in message["ports"])
            return self.on_event(ev.MemberReady(member, run, str(message["host"]), ports), now)
        if op == "started":
            return self.on_event(ev.MemberStarted(member, run, int(message["pid"])), now)
        if op == "exited":
            effects: List[Effect] = []
            known = self.gang.members.get(member)
            if known is not None and known.run == run and known.exit is None:
                effects += self.on_event(ev.MemberExited(member, run, message["exit"]), now)
            if not self.in_place or self.gang.is_terminal:
                effects.append(Send(peer, BYE))
            return effects
        if op == "saved":
            self.saved = max(self.saved or 0.0, now - float(message["ago"]))
        if op == "beat":
            self.beats[member] = Beat(now, int(message.get("memory", 0)), message.get("gpu") or {})
        return []

    def on_gone(self, peer: Peer) -> Optional[str]:
        """A connection ended; which member's was it? That alone does not mean it is lost."""
        for member, known in self.peers.items():
            if known == peer:
                del self.peers[member]
                return member
        return None

    # ---- commands -------------------------------------------------------------------------------

    def _carry_out(self, command: ev.Command) -> List[Effect]:
        if isinstance(command, ev.OpenBarrier):
            # One message for all of them: whoever sends it can encode it once.
            message: Message = {"op": "world", "world": self.world(command).to_json()}
            return [
                Send(self.peers[member], message)
                for member in command.deliver_to
                if member in self.peers
            ]
        if isinstance(command, ev.StopMember):
            self._owed_stops[command.member] = command
            return [self._stop(command)] if command.member in self.peers else []
        if isinstance(command, ev.Launch):
            self._owed_stops.pop(command.member, None)
            peer = self.peers.get(command.member)
            if self.in_place and peer is not None:
                return [self._again(peer, command.run, command.attempt)]
            return [command]
        if isinstance(command, (ev.Release, ev.Finish)):
            return [command]
        return []

    def _stop(self, command: ev.StopMember) -> Send:
        message = {"op": "stop", "grace": command.grace, "reason": command.reason}
        return Send(self.peers[command.member], message)

    @staticmethod
    def _again(peer: Peer, run: int, attempt: int) -> Send:
        return Send(peer, {"op": "again", "run": run, "attempt": attempt})

    def world(self, opened: ev.OpenBarrier) -> World:
        members = []
        for name, rank, host, ports in opened.world:
            role, _, index = name.rpartition("-")
            processes, gpus = self.shapes[role]
            members.append(Member(role, int(index), rank, host, tuple(ports), processes, gpus))
        plan = self.gang.plan
        return World(plan.job, opened.attempt, plan.framework, tuple(members))
