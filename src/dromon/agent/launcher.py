"""The launcher: one small process that has the agent imported and lends one for each launch.

    python -m dromon.agent.launcher [FD]    a Unix stream socket to the daemon; 3 unless told

It has no secrets, no threads and hardly any memory, so that a fork is quick. Still most of an
agent's cost is the pages it touches for the first time after its fork; so an agent that was
dismissed and left nothing behind is kept for the next launch, a few of them for a minute. When the
daemon is gone the launcher leaves, and idle agents with it; those at work stay. The daemon's side
is `send_launch`.
"""

import array
import gc
import os
import select
import signal
import socket
import sys
import time
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple

from dromon.agent import claim, context, protocol  # noqa: F401  (imported before the fork)
from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.agent.main import close_on_exec, run_agent
from dromon.agent.plan import AgentPlan

SOCKET = 3
MOST_FDS = 250  # Linux passes no more than 253 at once
MOST_KEPT = 64  # agents that are known to the launcher, at work or idle; others leave when done
IDLE = 60.0
_ROOM = socket.CMSG_SPACE(MOST_FDS * array.array("i").itemsize)


def send_launch(sock: socket.socket, plan: AgentPlan, fds: Sequence[int] = ()) -> None:
    """Have an agent live for this plan. Copies of `fds` become its `keep_fds`.

    Blocks while the launcher is busy. Raises OSError when there is no launcher any more.
    """
    if len(fds) > MOST_FDS:
        raise ValueError(f"{len(fds)} descriptors are more than one message can carry")
    _send(sock, {"op": "launch", "plan": plan.to_json(), "fds": len(fds)}, fds)


def _send(sock: socket.socket, message: Message, fds: Sequence[int]) -> None:
    data = memoryview(pack(message))
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sent = sock.sendmsg([data], rights)
    if sent < len(data):
        sock.sendall(data[sent:])


class _Inbox:
    """Launch messages and their descriptors from one socket, however the bytes were cut."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._unpacker = Unpacker()
        self._fds: List[int] = []  # received, in the order of the messages they belong to

    def receive(self) -> Optional[List[Tuple[Message, List[int]]]]:
        """What one read gives, perhaps nothing whole yet; None when the other side is gone."""
        data, ancillary, _, _ = self._socket.recvmsg(1 << 18, _ROOM, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                self._fds += numbers
        if not data:
            return None
        launches = []
        for message in self._unpacker.feed(data):
            count = int(message.get("fds", 0))
            launches.append((message, self._fds[:count]))
            del self._fds[:count]
        return launches


class Launcher:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._agents: Dict[int, socket.socket] = {}
        self._idle: Dict[int, float] = {}  # since when; the last to become idle is used first

    def serve(self) -> None:
        """Until the daemon is gone."""
        inbox = _Inbox(self._socket)
        while True:
            for fd, _ in self._poll.poll(IDLE * 500 if self._idle else None):
                if fd != self._socket.fileno():
                    self._hear(fd)
                    continue
                launches = inbox.receive()
                if launches is None:
                    return
                for number, (message, fds) in enumerate(launches):
                    others = [other for _, theirs in launches[number + 1 :] for other in theirs]
                    self._launch(message, fds, others)
            self._dismiss_old()

    def _hear(self, fd: int) -> None:
        """An agent has become idle, or is gone."""
        try:
            said = self._agents[fd].recv(1)
        except OSError:
            said = b""
        if said:
            self._idle[fd] = time.monotonic()
        else:
            self._forget(fd)

    def _forget(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._idle.pop(fd, None)
        self._agents.pop(fd).close()

    def _dismiss_old(self) -> None:
        long_ago = time.monotonic() - IDLE
        for fd in [fd for fd, since in self._idle.items() if since < long_ago]:
            self._forget(fd)  # it sees the end of its channel, and leaves

    def _launch(self, message: Message, fds: List[int], others: List[int]) -> None:
        while self._idle:
            channel = next(reversed(self._idle))
            try:
                _send(self._agents[channel], message, fds)
            except OSError:  # somebody killed it
                self._forget(channel)
                continue
            del self._idle[channel]
            break
        else:
            self._fork(message, fds, others)
        for fd in fds:
            os.close(fd)

    def _fork(self, message: Message, fds: List[int], others: List[int]) -> None:
        kept = len(self._agents) < MOST_KEPT
        ours, theirs = socket.socketpair() if kept else (None, None)
        if os.fork() == 0:
            for fd in others:
                os.close(fd)
            self._socket.close()
            for channel in self._agents.values():
                channel.close()
            if ours is not None:
                ours.close()
            _be_agent(message, fds, theirs)
        if ours is not None and theirs is not None:
            theirs.close()
            self._agents[ours.fileno()] = ours
            self._poll.register(ours, select.POLLIN)


def _be_agent(message: Message, fds: List[int], channel: Optional[socket.socket]) -> NoReturn:
    """Live for this launch, and for those that come after it."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        inbox = _Inbox(channel) if channel is not None else None
        while run_agent(_plan(message["plan"], fds)) and channel is not None and inbox is not None:
            os.chdir("/")
            channel.send(b"i")
            launches: Optional[List[Tuple[Message, List[int]]]] = []
            while launches is not None and not launches:
                launches = inbox.receive()
            if launches is None:
                break
            message, fds = launches[0]
    finally:
        os._exit(0)


def _plan(data: Dict[str, Any], fds: List[int]) -> AgentPlan:
    return AgentPlan.from_json({**data, "keep_fds": fds})


def _prepare() -> None:
    """All that an agent would otherwise pay for after its fork."""
    close_on_exec()
    claim.boot_id()
    protocol.proof(b"", "", ("", ""))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # agents leave no zombies
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    gc.collect()
    gc.freeze()


def main() -> int:
    sock = socket.socket(fileno=int(sys.argv[1]) if len(sys.argv) > 1 else SOCKET)
    _prepare()
    try:
        Launcher(sock).serve()
    except (OSError, FrameError) as error:
        print(f"launcher: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
