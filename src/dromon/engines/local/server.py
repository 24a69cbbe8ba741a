"""The daemon's sockets: one for commands, one for agents. Frames in, frames out.

Only this user's processes are heard: the directory is 0700, the socket 0600, and the kernel says
who connects. What a command asks is answered by `desk`; agents go through the coordinator's door.
"""

import asyncio
import itertools
import logging
import os
import secrets
import socket
from collections.abc import Callable
from typing import Any, Protocol

from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.coordinator.door import Admitted, Door
from dromon.engines.local.client import peer_uid

log = logging.getLogger("dromon.server")
numbers = itertools.count(1)  # of the agents' connections
_last: tuple[Message, bytes] = ({}, b"")


def packed(message: Message) -> bytes:
    """Its bytes; made once when it goes to many in a row, as a gang's world does."""
    global _last
    if _last[0] is not message:
        _last = (message, pack(message))
    return _last[1]


class Wire(asyncio.Protocol):
    """A connection of frames; whoever is of another user is not heard."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._unpacker = Unpacker()
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if peer_uid(transport.get_extra_info("socket")) != os.getuid():
            log.warning("refused a connection of another user")
            transport.abort()
            return
        self.is_open = True
        self.opened()

    def data_received(self, data: bytes) -> None:
        if not self.is_open:
            return
        try:
            for message in self._unpacker.feed(data):
                self.received(message)
        except (FrameError, KeyError, TypeError, ValueError) as error:
            log.warning("a connection spoke nonsense: %r", error)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open:
            self.is_open = False
            self.closed()

    def send(self, message: Message) -> None:
        if self.is_open:
            self.transport.write(packed(message))

    def opened(self) -> None: ...
    def received(self, message: Message) -> None: ...
    def closed(self) -> None: ...


class Command(Wire):
    """A command's connection: requests are answered in order, watches push until it leaves."""

    def __init__(
        self, answer: Callable[["Command", Message], None], gone: Callable[["Command"], None]
    ) -> None:
        super().__init__()
        self._answer = answer
        self._gone = gone
        self.on_close: list[Callable[[], None]] = []

    def received(self, message: Message) -> None:
        self._answer(self, message)

    def closed(self) -> None:
        for each in self.on_close:
            each()
        self._gone(self)


class Peer(Protocol):
    """An agent's connection, as its job's coordinator has it."""

    number: int
    admitted: Admitted | None
    dismissed: bool  # was told `bye`: its leaving is no news

    def send(self, message: Message) -> None: ...


class Gate(Protocol):
    """What the agents' connections lead to."""

    def key_of(self, job: str) -> bytes | None: ...
    def on_hello(self, wire: Peer, admitted: Admitted) -> None: ...
    def on_message(self, wire: Peer, message: Message) -> None: ...
    def on_gone(self, wire: Peer) -> None: ...


class Agent(Wire):
    """The connection of an agent that came by itself: the door first, then its job's
    coordinator."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate
        self._door = Door(secrets.token_hex(16), gate.key_of, epoch=1)
        self.number = next(numbers)
        self.admitted: Admitted | None = None
        self.dismissed = False

    def opened(self) -> None:
        self.send(self._door.challenge())

    def received(self, message: Message) -> None:
        if self.admitted is None:
            self.admitted = self._door.admit(message)
            if self.admitted is None:
                self.transport.abort()
                return
            self.send(self.admitted.welcome)
            self._gate.on_hello(self, self.admitted)
        else:
            self._gate.on_message(self, message)

    def send(self, message: Message) -> None:
        if message.get("op") == "bye":
            self.dismissed = True
        super().send(message)

    def closed(self) -> None:
        if self.admitted is not None:
            self._gate.on_gone(self)


async def listen(path: str, make: Callable[[], Wire]) -> asyncio.AbstractServer:
    """Serve on a Unix socket that only this user can open."""
    partial = f"{path}.{os.getpid()}"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(partial)
        os.chmod(partial, 0o600)
        os.rename(partial, path)  # the old name of a dead daemon is replaced in one step
    except OSError:
        sock.close()
        raise
    loop = asyncio.get_running_loop()
    return await loop.create_unix_server(make, sock=sock, backlog=1024)


def answers(path: str) -> bool:
    """Whether somebody serves on this socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        return sock.connect_ex(path) == 0


def answer_error(wire: Command, error: Any) -> None:
    wire.send({"ok": False, **error.to_json()})
