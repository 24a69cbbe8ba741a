"""The agent's line to its coordinator: find it, prove ourselves, be sure of it, come back.

Where the coordinator is and the key are read from the record at each attempt: the next coordinator
may live somewhere else. What is said over the line is decided elsewhere; see `protocol`.
"""

import errno
import json
import os
import select
import socket
import time
from typing import Callable, Dict, Optional, Tuple

from dromon.agent.files import read_small
from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.agent.loop import READ, WRITE, Loop
from dromon.agent.protocol import VERSION, is_proof, proof
from dromon.agent.record import Record

FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
ANSWER_WAIT = 10.0  # a coordinator that has not proved itself by then is tried again


class Link:
    """`identity` gives job, member and run; `state` what must be said again after every hello;
    `on_closed_record` is called when the key is gone: the job is over, and nobody will answer;
    `seek` when the coordinator does not answer where the record says it is."""

    def __init__(
        self,
        loop: Loop,
        record: Record,
        identity: Callable[[], Dict[str, object]],
        state: Callable[[], Optional[Message]],
        on_message: Callable[[Message], None],
        on_closed_record: Callable[[], None] = lambda: None,
        seek: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._record = record
        self._identity = identity
        self._state = state
        self._on_message = on_message
        self._on_closed_record = on_closed_record
        self._seek = seek
        self._socket: Optional[socket.socket] = None
        self._unpacker = Unpacker()
        self._out = bytearray()
        self._key = b""
        self._nonces: Tuple[str, str] = ("", "")
        self._said_ready = False
        self._epoch = 0
        self._wait = FIRST_WAIT
        self.is_up = False
        self.heard = time.monotonic()  # when the coordinator last said anything

    def open(self) -> None:
        """Try to connect now; keep trying until it is up."""
        self.close()
        try:
            address, epoch = _read_coordinator(self._record.coordinator)
            if epoch < self._epoch:
                raise ConnectionRefusedError("an older coordinator")
            self._epoch = epoch
            try:
                self._key = read_small(self._record.key).strip()
            except FileNotFoundError:
                self._on_closed_record()
                raise
            self._socket = _connect(address)
        except (OSError, ValueError, KeyError, TypeError):
            self._retry()
            return
        self._unpacker = Unpacker()
        self._out = bytearray()
        self._loop.watch(self._socket.fileno(), READ, self._ready)
        self._loop.after("link", ANSWER_WAIT, self._lost)

    def close(self) -> None:
        self.is_up = False
        self._loop.cancel("link")
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def send(self, message: Message) -> None:
        """Say it if the line is up; if not, `state` will say what matters once it is."""
        if self.is_up:
            self._write(pack(message))

    def _retry(self) -> None:
        self._seek()
        # Spread by pid, so that a gang does not come back as one.
        self._loop.after("link", self._wait * (0.75 + os.getpid() % 64 / 128), self.open)
        self._wait = min(self._wait * 2, LONGEST_WAIT)

    def _lost(self) -> None:
        self.close()
        self._retry()

    # ---- bytes ----------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        sock = self._socket
        if sock is None:
            return
        self._out += data
        try:
            sent = sock.send(self._out)
            del self._out[:sent]
        except BlockingIOError:
            pass
        except OSError:  # reading will notice, once what was still said to us has been read
            self._out.clear()
        if self._out:
            self._loop.watch(sock.fileno(), READ | WRITE, self._ready)

    def _ready(self, events: int) -> None:
        sock = self._socket
        if sock is None:
            return
        if events & select.POLLOUT:
            self._loop.watch(sock.fileno(), READ, self._ready)
            self._write(b"")
        if not events & READ:
            return
        try:
            data = sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        try:
            messages = self._unpacker.feed(data)
        except FrameError:
            self._lost()
            return
        for message in messages:
            if self._socket is not sock:  # closed by what was said before
                return
            if self.is_up:
                self.heard = time.monotonic()
                self._on_message(message)
                continue
            try:
                self._greet(message)
            except (FrameError, KeyError, TypeError, ValueError):
                self._lost()

    # ---- words ----------------------------------------------------------------------------------

    def _greet(self, message: Message) -> None:
        """The dialogue of proofs, until both sides have given theirs."""
        op = message.get("op")
        if op == "challenge":
            self._nonces = (str(message["nonce"]), os.urandom(16).hex())
            hello = {
                "op": "hello",
                "version": VERSION,
                "nonce": self._nonces[1],
                "mac": proof(self._key, "agent", self._nonces),
                "epoch": self._epoch,
                **self._identity(),
            }
            # At the barrier every round trip counts, so `ready` does not wait for the welcome:
            # there is nothing secret in it. Nothing is obeyed before the welcome.
            state = self._state()
            self._said_ready = state is not None and state["op"] == "ready"
            more = pack(state) if state is not None and self._said_ready else b""
            self._write(pack(hello) + more)
        elif op == "welcome":
            epoch = int(message["epoch"])
            if not is_proof(str(message["mac"]), self._key, "coordinator", self._nonces):
                raise FrameError("not our coordinator")
            if epoch < self._epoch:
                raise FrameError("an older coordinator")
            self._epoch = epoch
            self._welcomed()

    def _welcomed(self) -> None:
        self._loop.cancel("link")
        self.is_up = True
        self.heard = time.monotonic()
        self._wait = FIRST_WAIT
        state = self._state()
        if state is not None and not (self._said_ready and state["op"] == "ready"):
            self.send(state)


def _read_coordinator(path: str) -> Tuple[str, int]:
    data = json.loads(read_small(path))
    return str(data["address"]), int(data.get("epoch", 0))


def _connect(address: str) -> socket.socket:
    """A socket that is connecting and does not block. Addresses: unix:/path, tcp:host:port."""
    kind, _, rest = address.partition(":")
    if kind == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            _connect_unix(sock, rest)
        except OSError:
            sock.close()
            raise
        return sock
    if kind != "tcp":
        raise ValueError(f"not an address: {address}")
    host, _, port = rest.rpartition(":")
    family, kind_of, protocol, _, place = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_STREAM
    )[0]
    sock = socket.socket(family, kind_of, protocol)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    code = sock.connect_ex(place)
    if code not in (0, errno.EINPROGRESS):
        sock.close()
        raise OSError(code, os.strerror(code))
    return sock


def _connect_unix(sock: socket.socket, path: str) -> None:
    """Also where the path is longer than the 107 bytes a socket's address has room for."""
    if len(os.fsencode(path)) < 108:
        sock.connect(path)
        return
    directory, name = os.path.split(path)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sock.connect(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)
