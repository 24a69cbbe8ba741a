"""A daemon's line to the arbiter: what it tells goes out in order, what it asks comes back at once,
and what it is told waits for the loop. Sockets only; what is said means nothing here.
"""

import socket
import time
from collections.abc import Callable
from typing import Any

from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.engines.local.shared import place
from dromon.errors import from_json

PATIENCE = 5.0  # seconds an arbiter may take to answer before it counts as away
_READ = 1 << 18


class Link:
    def __init__(self, at: place.Place, heard: Callable[[Message], None]) -> None:
        self._heard = heard
        self._socket = place.connect(at.socket, at.owner)
        self._socket.settimeout(PATIENCE)
        self._unpacker = Unpacker()
        self._waiting: list[Message] = []
        self._number = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        try:
            self._socket.sendall(pack(message))
        except OSError as error:
            raise place.ArbiterAway(f"the arbiter is gone: {error}") from None

    def ask(self, op: str, **fields: Any) -> Message:
        """Its answer; an error it answers with is raised. What it says meanwhile is kept."""
        self._number += 1
        self.send({"op": op, "n": self._number, **fields})
        deadline = time.monotonic() + PATIENCE
        answer: Message | None = None
        while answer is None and time.monotonic() < deadline:
            for message in self._receive():
                if message.get("n") == self._number:
                    answer = message
                else:
                    self._waiting.append(message)
        if answer is not None and answer.get("ok"):
            return answer
        if answer is not None:
            raise from_json(answer)
        raise place.ArbiterAway(f"the arbiter did not answer within {PATIENCE:.0f} s")

    def deliver(self) -> None:
        """Hand on what was said while something was asked."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._heard(message)

    def readable(self) -> None:
        """The loop says that there is something."""
        for message in self._receive():
            self._heard(message)

    def _receive(self) -> list[Message]:
        try:
            data = self._socket.recv(_READ)
            if not data:
                raise place.ArbiterAway("the arbiter is gone")
            return self._unpacker.feed(data)
        except TimeoutError:
            raise place.ArbiterAway(f"no answer within {PATIENCE:.0f} s") from None
        except (OSError, FrameError) as error:
            raise place.ArbiterAway(f"the arbiter is gone: {error}") from None

    def close(self) -> None:
        self._socket.close()


def question(at: place.Place, op: str, **fields: Any) -> Message:
    """One question on a connection of its own; from any thread, and from commands."""
    link = Link(at, lambda message: None)
    try:
        return link.ask(op, **fields)
    finally:
        link.close()


def is_answered(at: place.Place) -> bool:
    """Whether anybody serves there now."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        return sock.connect_ex(at.socket) == 0
