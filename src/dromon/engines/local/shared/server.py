"""The arbiter's socket: open to all, and everybody is who the kernel says. Frames in, frames out.

One connection can hurt only itself: messages are small, few connections to a user, and whoever
does not read what is sent, or speaks nonsense, is hung up on.
"""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.engines.local.client import peer_uid
from dromon.engines.local.shared.people import People, Person
from dromon.engines.local.shared.wire import Misspoken
from dromon.errors import DromonError, EngineError

log = logging.getLogger("dromon.arbiter")
LARGEST = 1 << 20  # bytes of a message
UNREAD = 4 << 20  # bytes a connection may leave unread
MOST = 64  # connections of one user

Answer = Callable[["Connection", Message], Message | None]


class Doors:
    """Who is connected, counted by user."""

    def __init__(
        self, people: People, answer: Answer, gone: Callable[["Connection"], None]
    ) -> None:
        self.people = people
        self.answer = answer
        self.gone = gone
        self.open: Counter[int] = Counter()

    def connection(self) -> "Connection":
        return Connection(self)


class Connection(asyncio.Protocol):
    """Anybody's. It becomes a daemon's by its first word, `hello`."""

    transport: asyncio.Transport
    person: Person
    home = ""
    door = ""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._unpacker = Unpacker(LARGEST)
        self.is_open = False
        self.is_daemon = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        uid = peer_uid(transport.get_extra_info("socket"))
        if self._doors.open[uid] >= MOST:
            log.warning("user %d has %d connections already", uid, MOST)
            transport.abort()
            return
        self.person = self._doors.people.of(uid)
        self._doors.open[uid] += 1
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._unpacker.feed(data):
                if not self.is_open:
                    return
                self._received(message)
        except (FrameError, RecursionError) as error:
            self._hang_up(f"nonsense: {error}")

    def _received(self, message: Message) -> None:
        number = message.get("n")
        try:
            found = self._doors.answer(self, message)
            if found is not None:
                self.send({"ok": True, "n": number, **found})
        except DromonError as error:
            self.send({"ok": False, "n": number, **error.to_json()})
        except Exception as error:
            if not isinstance(error, (Misspoken, KeyError, TypeError, ValueError)):
                log.exception("answering %s", str(message.get("op"))[:40])
            if number is None:  # what it told us is lost; when it comes back it tells it all again
                self._hang_up(f"{str(message.get('op'))[:40]}: {error!r}")
                return
            failed = EngineError(f"the arbiter cannot answer that: {error!r}"[:400])
            self.send({"ok": False, "n": number, **failed.to_json()})

    def _hang_up(self, why: str) -> None:
        log.warning("hung up on %s: %s", self.person.name, why[:200])
        self.close()

    def send(self, message: dict[str, Any]) -> None:
        if not self.is_open:
            return
        self.transport.write(pack(message))
        if self.transport.get_write_buffer_size() > UNREAD:
            self._hang_up("it does not read")

    def close(self) -> None:
        if self.is_open:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open:
            self.is_open = False
            self._doors.open[self.person.uid] -= 1
            self._doors.gone(self)


async def listen(path: str, doors: Doors) -> asyncio.AbstractServer:
    """Serve on a Unix socket that everybody can open."""
    partial = f"{path}.{os.getpid()}"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(partial)
        os.chmod(partial, 0o666)
        os.rename(partial, path)
    except OSError:
        sock.close()
        raise
    loop = asyncio.get_running_loop()
    return await loop.create_unix_server(doors.connection, sock=sock, backlog=1024)
