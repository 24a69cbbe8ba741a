"""The launcher: one small process that has the agent imported and forks one for each launch.

    python -m dromon.agent.launcher [FD]    a Unix stream socket to the daemon; 3 unless told

It has no secrets, no threads and hardly any memory, so that a fork is quick. Still most of an
agent's cost is the pages it touches for the first time after its fork. So an agent may be given a
line to the daemon, one end of a pair of sockets that nobody else can have: it need not connect or
prove itself, and once it is dismissed and has left nothing behind, it waits on that line for its
next launch. When the daemon is gone the launcher leaves, and idle agents with it; those at work
stay, and find the next daemon by the record. The daemon's side is `send_launch`.
"""

import gc
import os
import signal
import socket
import sys
from typing import List, NoReturn, Optional, Sequence

from dromon.agent import claim, context, protocol  # noqa: F401  (imported before the fork)
from dromon.agent.frames import FrameError, Message
from dromon.agent.line import Line, send
from dromon.agent.main import close_on_exec, run_agent
from dromon.agent.plan import AgentPlan

SOCKET = 3


def send_launch(
    sock: socket.socket,
    plan: AgentPlan,
    fds: Sequence[int] = (),
    line: Optional[socket.socket] = None,
    at_once: bool = False,
) -> None:
    """Have an agent live for this plan. Copies of `fds` become its `keep_fds`, and one of `line`
    its line to the daemon.

    Blocks while the launcher is busy. Raises OSError when there is no launcher any more.
    """
    lines = [] if line is None else [line.fileno()]
    send(sock, {**launch(plan, at_once), "line": bool(lines)}, [*lines, *fds])


def launch(plan: AgentPlan, at_once: bool = False, last: Optional[AgentPlan] = None) -> Message:
    """What an idle agent is told on its line to live for this plan. `at_once`: the next word
    follows, and the agent need not say that it is ready for it. `last`: what it lived for before,
    most of which need not be said again."""
    asked = plan.to_json() if last is None else plan.beyond(last)
    return {"op": "launch", "plan": asked, "at_once": at_once, "like": last is not None}


class Launcher:
    def __init__(self, sock: socket.socket) -> None:
        self._inbox = Line(sock)

    def serve(self) -> None:
        """Until the daemon is gone."""
        inbox = self._inbox
        while inbox.receive():
            launches = [(message, inbox.fds_of(message)) for message in inbox.waiting]
            inbox.waiting.clear()
            for number, (message, fds) in enumerate(launches):
                if os.fork() == 0:
                    inbox.socket.close()
                    for _, others in launches[number + 1 :]:
                        for fd in others:
                            os.close(fd)
                    _be_agent(message, fds)
                for fd in fds:
                    os.close(fd)


def _be_agent(message: Message, fds: List[int]) -> NoReturn:
    """Live for this launch, and for those that come after it."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line = Line(socket.socket(fileno=fds.pop(0))) if message["line"] else None
        following: Optional[Message] = message
        plan: Optional[AgentPlan] = None
        while following is not None:
            plan = _plan(following, plan, fds)
            if not run_agent(plan, line=line, at_once=bool(following.get("at_once"))):
                break
            assert line is not None
            os.chdir("/")
            following = line.wait()
            while following is not None and following.get("op") != "launch":
                following = line.wait()  # a word to the life before
            fds = line.fds_of(following) if following is not None else []
    finally:
        os._exit(0)


def _plan(message: Message, last: Optional[AgentPlan], fds: List[int]) -> AgentPlan:
    asked = {**message["plan"], "keep_fds": fds}
    if last is not None and message.get("like"):
        return last.with_json(asked)
    return AgentPlan.from_json(asked)


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
