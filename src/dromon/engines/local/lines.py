"""The agents we had forked: a line to each, while it is at work and while it is idle.

A line is one end of a pair of sockets; the other end went through the launcher to the agent, and
nobody else can have it. So what is said over it needs no proof, and it is there before the agent
is. An agent that is dismissed and stays is kept for the next launch. One that loses its line (we
were killed) comes to the door like any other.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence

from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.agent.launcher import launch
from dromon.agent.line import rights
from dromon.agent.plan import AgentPlan
from dromon.coordinator.coordinator import BYE
from dromon.coordinator.door import Admitted
from dromon.engines.local.server import Gate, Peer, numbers, packed

log = logging.getLogger("dromon.lines")
MOST_IDLE = 64
IDLE = 60.0  # seconds after which one that nobody needed may go
FAREWELL = 5.0  # after which those are told `bye` who have had no other launch
SAME_WORLD = pack({"op": "world"})
_READ = 1 << 16

Fork = Callable[[AgentPlan, Sequence[int], socket.socket, bool], None]


class Line:
    """To one agent: for one launch after the other, each with a number of its own."""

    def __init__(self, lines: "Lines", sock: socket.socket) -> None:
        sock.setblocking(False)
        self.number = 0
        self.admitted: Admitted | None = None  # once it has said anything since its launch
        self.dismissed = False  # was told `bye`: its leaving is no news
        self.idle_since = 0.0
        self.is_owed_bye = False
        self._lines = lines
        self._socket = sock
        self._launched: Admitted | None = None  # None: idle
        self._stays = False  # as it said itself
        self.plan: AgentPlan | None = None  # what it was last told to live for
        self._world: Message | None = None  # and in which world
        self._unpacker = Unpacker()
        self._out = bytearray()
        lines.loop.add_reader(sock.fileno(), self._readable)

    def begin(self, plan: AgentPlan, stood: Peer | None) -> None:
        """It is, or will be, told to live for this plan. `stood`: who stood there for it."""
        self.number = next(numbers) if stood is None else stood.number
        self.dismissed = self._stays = self.is_owed_bye = False
        self._launched = Admitted(plan.job, plan.member, plan.run, {})
        self.admitted = None if stood is None else stood.admitted

    def launch(
        self, plan: AgentPlan, fds: Sequence[int], stood: Peer | None, first: Message | None
    ) -> None:
        """Have the idle agent live for this plan. Raises OSError when it cannot hear us."""
        self.begin(plan, stood)
        data = pack({**launch(plan, first is not None, self.plan), "fds": len(fds)})
        self.plan = plan
        if first is not None:
            data += self._packed(first)
        sent = self._socket.sendmsg([data], rights(fds)) if fds else 0
        self._write(data[sent:])

    def send(self, message: Message) -> None:
        if message.get("op") == "bye":
            self.dismissed = True
            if self._stays:  # another launch says as much as `bye`
                self._rest()
                return
        self._write(self._packed(message))

    def _packed(self, message: Message) -> bytes:
        if message is self._world:
            return SAME_WORLD
        if message.get("op") == "world":
            self._world = message
        return packed(message)

    def _rest(self) -> None:
        """Its exit is on disk, and nothing else keeps it."""
        if self._launched is not None:
            self.dismissed = self.is_owed_bye = True
            self._lines.gate.on_gone(self)
            self.admitted = self._launched = None
            self._lines.keep(self)

    def say_bye(self) -> None:
        if self.is_owed_bye:
            self.is_owed_bye = False
            self._write(packed(BYE))

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._lines.forget(self)
        self._lines.loop.remove_reader(self._socket.fileno())
        self._lines.loop.remove_writer(self._socket.fileno())
        self._socket.close()
        if self.admitted is not None:
            self._lines.gate.on_gone(self)
        # Otherwise nobody has heard of it; the sweep sees to whatever it was launched for.

    # ---- bytes ----------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if self._socket.fileno() < 0:
            return
        was_full = bool(self._out)
        self._out += data
        try:
            sent = self._socket.send(self._out)
            del self._out[:sent]
        except BlockingIOError:
            pass
        except OSError:  # reading will notice, once what it still said has been read
            self._out.clear()
        if bool(self._out) == was_full:
            return
        if self._out:
            self._lines.loop.add_writer(self._socket.fileno(), self._write, b"")
        else:
            self._lines.loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            for message in self._unpacker.feed(data):
                self._received(message)
        except (FrameError, KeyError, TypeError, ValueError) as error:
            log.warning("an agent spoke nonsense: %r", error)
            data = b""
        if not data:
            self.close()

    def _received(self, message: Message) -> None:
        if self._launched is None:
            return
        if message.get("op") == "exited":
            self._stays = bool(message.get("stays"))
        if self.admitted is None:
            self.admitted = self._launched
            self._lines.gate.on_hello(self, self.admitted)
        self._lines.gate.on_message(self, message)
        if self._stays:
            self._rest()


class Lines:
    """All of them. `fork` has an agent forked that has this end of a line."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gate: Gate) -> None:
        self.loop = loop
        self.gate = gate
        self._idle: dict[Line, None] = {}  # the last to become idle is used first

    def launch(
        self,
        plan: AgentPlan,
        fds: Sequence[int],
        fork: Fork,
        stood: Peer | None = None,
        first: Message | None = None,
    ) -> Line:
        """The line to whoever will live for this plan: in the place of who `stood` for it, and
        with the `first` word that it is told."""
        while self._idle:
            line, _ = self._idle.popitem()
            try:
                line.launch(plan, fds, stood, first)
                return line
            except OSError:  # somebody killed it
                line.admitted = None  # it does not come; another one will
                line.close()
        ours, theirs = socket.socketpair()
        with theirs:
            line = Line(self, ours)
            line.begin(plan, stood)
            fork(plan, fds, theirs, first is not None)
            line.plan = plan
        if first is not None:
            line.send(first)
        return line

    def keep(self, line: Line) -> None:
        line.idle_since = self.loop.time()
        self._idle[line] = None
        if len(self._idle) > MOST_IDLE:
            first = next(iter(self._idle))
            first.say_bye()
            first.close()

    def forget(self, line: Line) -> None:
        self._idle.pop(line, None)

    def look_around(self) -> None:
        """Now and then: those that nobody needed may rest, or go."""
        now = self.loop.time()
        for line in list(self._idle):
            if now - line.idle_since > FAREWELL:
                line.say_bye()
            if now - line.idle_since > IDLE:
                line.close()
