"""Frames over a socket, and on a Unix socket descriptors beside them. Blocks only when asked to.

What is said over it is `protocol`'s and `launcher`'s matter.
"""

import array
import socket
from collections import deque
from typing import Deque, List, Optional, Sequence, Tuple

from dromon.agent.frames import Message, Unpacker, pack

MOST_FDS = 250  # Linux passes no more than 253 at once
_READ = 1 << 16
_ROOM = socket.CMSG_SPACE(MOST_FDS * array.array("i").itemsize)
_CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)  # arithmetic with enumerations is slow
DONT_WAIT = int(socket.MSG_DONTWAIT)


class Line:
    """`waiting` holds what was said and not yet listened to."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.waiting: Deque[Message] = deque()
        self._unpacker = Unpacker()
        self._fds: List[int] = []  # received, in the order of the messages they belong to

    def receive(self, flags: int = 0) -> bool:
        """Read once; False when the other side is gone. Raises OSError, FrameError."""
        data, ancillary, _, _ = self.socket.recvmsg(_READ, _ROOM, flags | _CLOEXEC)
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                self._fds += numbers
        self.waiting += self._unpacker.feed(data)
        return bool(data)

    def wait(self) -> Optional[Message]:
        """The next message, however long it takes; None when the other side is gone."""
        while not self.waiting:
            if not self.receive():
                return None
        return self.waiting.popleft()

    def fds_of(self, message: Message) -> List[int]:
        """The descriptors that came with it; to be asked for in the order of the messages."""
        count = int(message.get("fds", 0))
        fds = self._fds[:count]
        del self._fds[:count]
        return fds


def send(sock: socket.socket, message: Message, fds: Sequence[int] = ()) -> None:
    """With copies of `fds`. Blocks until all is said; raises OSError when nobody listens."""
    data = memoryview(pack({**message, "fds": len(fds)}))
    sent = sock.sendmsg([data], rights(fds))
    if sent < len(data):
        sock.sendall(data[sent:])


def rights(fds: Sequence[int]) -> "List[Tuple[int, int, array.array[int]]]":
    """What sendmsg wants beside the bytes, to pass copies of these descriptors on."""
    if len(fds) > MOST_FDS:
        raise ValueError(f"{len(fds)} descriptors are more than one message can carry")
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
