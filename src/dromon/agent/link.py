"""The agent's line to its coordinator: find it, prove ourselves, be sure of it, come back.

Where the coordinator is and the key are read from the record at each attempt: the next coordinator
may live somewhere else. Where every coordinator of a job lives at one address, the record names no
epoch, and what it says of itself counts alone. An agent that was born with a line starts with that
one, which is proof enough. What is said over the line is decided elsewhere; see `protocol`.
"""

import errno
import json
import os
import select
import socket
import time
from typing import Callable, Dict, Optional, Tuple

from dromon.agent.files import read_small
from dromon.agent.frames import FrameError, Message, pack
from dromon.agent.line import DONT_WAIT, Line
from dromon.agent.loop import READ, WRITE, Loop
from dromon.agent.protocol import VERSION, is_proof, proof
from dromon.agent.record import Record

FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
ANSWER_WAIT = 10.0  # a coordinator that has not proved itself by then is tried again


class Link:
    """`identity` gives job, member and run; `state` what must be said again after every hello;
    `on_closed_record` is called when the key is gone: the job is over, and nobody will answer;
    `seek` when the coordinator does not answer where the record says it is; `on_up` whenever it
    has proved itself; `born` is the line this process was forked with, if there is one."""

    def __init__(
        self,
        loop: Loop,
        record: Record,
        identity: Callable[[], Dict[str, object]],
        state: Callable[[], Optional[Message]],
        on_message: Callable[[Message], None],
        on_closed_record: Callable[[], None] = lambda: None,
        seek: Callable[[], None] = lambda: None,
        born: Optional[Line] = None,
        on_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._record = record
        self._identity = identity
        self._state = state
        self._on_message = on_message
        self._on_closed_record = on_closed_record
        self._seek = seek
        self._born = born  # until it is lost
        self._on_up = on_up
        self._line: Optional[Line] = None
        self._out = bytearray()
        self._key = b""
        self._nonces: Tuple[str, str] = ("", "")
        self._said_ready = False
        self._epoch = 0
        self._wait = FIRST_WAIT
        self.is_up = False
        self.up_since = 0.0
        # The coordinator was there at this moment at least. What it says may be long on its way,
        # so an answer counts from when it was asked for.
        self.heard = time.monotonic()

    def open(self) -> None:
        """Try to connect now; keep trying until it is up."""
        self.close()
        if self._born is not None:
            self._line = self._born
            self._loop.watch(self._line.socket.fileno(), READ, self._ready)
            self._welcomed()
            self._listen(self._line)  # it may have been read with the launch
            return
        try:
            address, epoch = _read_coordinator(self._record.coordinator)
            if epoch is not None and epoch < self._epoch:
                raise ConnectionRefusedError("an older coordinator")
            self._epoch = self._epoch if epoch is None else epoch
            try:
                self._key = read_small(self._record.key).strip()
            except FileNotFoundError:
                self._on_closed_record()
                raise
            self._line = Line(_connect(address))
        except (OSError, ValueError, KeyError, TypeError):
            self._retry()
            return
        self._loop.watch(self._line.socket.fileno(), READ, self._ready)
        self._loop.after("link", ANSWER_WAIT, self._lost)

    @property
    def is_born(self) -> bool:
        """Whether it still is the line this process was born with."""
        return self._born is not None and self._line is self._born

    def close(self) -> None:
        self._loop.cancel("link")
        line = self._line
        if line is not None:
            self.let_go()
            self._born = None
            line.socket.close()

    def give_back(self, message: Message) -> None:
        """It is for whoever takes up the line."""
        if self._line is not None:
            self._line.waiting.appendleft(message)

    def let_go(self) -> None:
        """Listen no more; what else is said on the line is for whoever takes it up."""
        self.is_up = False
        if self._line is not None:
            self._loop.forget(self._line.socket.fileno())
            self._line = None
            self._out = bytearray()

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
        line = self._line
        if line is None:
            return
        self._out += data
        try:
            sent = line.socket.send(self._out, DONT_WAIT)
            del self._out[:sent]
        except BlockingIOError:
            pass
        except OSError:  # reading will notice, once what was still said to us has been read
            self._out.clear()
        if self._out:
            self._loop.watch(line.socket.fileno(), READ | WRITE, self._ready)

    def _ready(self, events: int) -> None:
        line = self._line
        if line is None:
            return
        if events & select.POLLOUT:
            self._loop.watch(line.socket.fileno(), READ, self._ready)
            self._write(b"")
        if not events & READ:
            return
        try:
            is_there = line.receive(DONT_WAIT)
        except BlockingIOError:
            return
        except (OSError, FrameError):
            is_there = False
        if not is_there:
            self._lost()
            return
        self._listen(line)

    def _listen(self, line: Line) -> None:
        while line.waiting and self._line is line:  # what is said may lead to its end
            message = line.waiting.popleft()
            if self.is_up:
                if message.get("op") == "alive":
                    self.heard = max(self.heard, float(message["asked"]))
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
        self.is_up, self.up_since = True, time.monotonic()
        self._wait = FIRST_WAIT
        state = self._state()
        if state is not None and not (self._said_ready and state["op"] == "ready"):
            self.send(state)
        self._on_up()


def _read_coordinator(path: str) -> Tuple[str, Optional[int]]:
    data = json.loads(read_small(path))
    return str(data["address"]), int(data["epoch"]) if "epoch" in data else None


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
