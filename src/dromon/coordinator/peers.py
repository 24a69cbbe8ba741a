"""Agents' lines to a coordinator on another node: sockets, frames, the door. Decides nothing.

One thread turns it; `wake` makes it turn from any other.
"""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable

from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.coordinator.door import Admitted, Door

GREETING = 20.0  # seconds a connection may take to prove itself


class _Peer:
    def __init__(self, sock: socket.socket, door: Door) -> None:
        self.sock = sock
        self.door: Door | None = door
        self.since = time.monotonic()
        self.unpacker = Unpacker()
        self.out = bytearray()


class Peers:
    """`hello`, `message` and `gone` are called with the number of the connection."""

    def __init__(
        self,
        key_of: Callable[[str], bytes | None],
        epoch: int,
        hello: Callable[[int, Admitted], None],
        message: Callable[[int, Message], None],
        gone: Callable[[int], None],
        port: int = 0,
    ) -> None:
        self._key_of = key_of
        self._epoch = epoch
        self._hello = hello
        self._message = message
        self._gone = gone
        # Never the same number twice: what waits to be sent to one must not reach the next.
        self._peers: dict[int, _Peer] = {}
        self._count = 0
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("", port), backlog=1024)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def __len__(self) -> int:
        return len(self._peers)

    def wake(self) -> None:
        try:
            os.write(self._wake, b"\0")
        except BlockingIOError:  # it will turn anyway
            pass

    def turn(self, patience: float) -> None:
        """Wait for the next thing, at most that long, and handle all there is."""
        for key, events in self._selector.select(max(0.0, patience)):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fd == self._woken:
                os.read(self._woken, 4096)
            elif key.data in self._peers:
                if events & selectors.EVENT_WRITE:
                    self._flush(key.data)
                if events & selectors.EVENT_READ:
                    self._read(key.data)
        late = time.monotonic() - GREETING
        for number in [n for n, p in self._peers.items() if p.door and p.since < late]:
            self.hang_up(number)

    def send(self, number: int, message: Message) -> None:
        peer = self._peers.get(number)
        if peer is not None:
            peer.out += pack(message)
            self._flush(number)

    def hang_up(self, number: int) -> None:
        peer = self._peers.pop(number, None)
        if peer is not None:
            self._selector.unregister(peer.sock)
            peer.sock.close()
            if peer.door is None:
                self._gone(number)

    def close(self) -> None:
        """Hang up on everybody, and listen no more."""
        for number in list(self._peers):
            self.hang_up(number)
        self._selector.close()
        self._listener.close()
        os.close(self._woken)
        os.close(self._wake)

    # ---- bytes ----------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        door = Door(secrets.token_hex(16), self._key_of, self._epoch)
        self._count += 1
        number = self._count
        self._peers[number] = _Peer(sock, door)
        self._selector.register(sock, selectors.EVENT_READ, number)
        self.send(number, door.challenge())

    def _flush(self, number: int) -> None:
        peer = self._peers.get(number)
        if peer is None:
            return
        try:
            while peer.out:
                del peer.out[: peer.sock.send(peer.out)]
        except BlockingIOError:
            pass
        except OSError:  # reading will notice
            peer.out.clear()
        write = selectors.EVENT_WRITE if peer.out else 0
        self._selector.modify(peer.sock, selectors.EVENT_READ | write, number)

    def _read(self, number: int) -> None:
        peer = self._peers[number]
        try:
            data = peer.sock.recv(1 << 18)
            messages = peer.unpacker.feed(data)
        except BlockingIOError:
            return
        except (OSError, FrameError):
            data, messages = b"", []
        for message in messages:
            if self._peers.get(number) is not peer:  # hung up on by what was said before
                return
            if peer.door is None:
                self._message(number, message)
                continue
            admitted = peer.door.admit(message)
            if admitted is None:
                self.hang_up(number)
                return
            peer.door = None
            self.send(number, admitted.welcome)
            self._hello(number, admitted)
        if not data and self._peers.get(number) is peer:
            self.hang_up(number)
