"""What runs in a pod: a runtime that keeps its processes together, an agent, and in the first pod
the coordinator beside it.

    python -m dromon.engines.memory.pod HOME JOB MEMBER

SIGTERM asks the pod to end, SIGQUIT is the runtime's way to say that it is killed: no process of a
pod outlives it either way.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from dromon.agent.main import run_agent
from dromon.agent.plan import AgentPlan, in_place
from dromon.agent.record import Record
from dromon.engines.memory.shell import RELEASED, Shell, replayed

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main(home: str, job: str, member: str) -> int:
    record = Record(os.path.join(home, "jobs", job))
    with open(record.request) as file:
        request = json.load(file)
    first = f"{next(iter(request['roles']))}-0"
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)  # no cluster, no pods
    coordinator = 0
    if member == first:
        coordinator = _fork(lambda: _coordinate(home, record, request))
    agent = _fork(lambda: _serve(record, request, member))
    code = _supervise(agent, coordinator)
    _sweep()
    return code


# ---- the runtime --------------------------------------------------------------------------------


def _fork(run: Callable[[], int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        code = run()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _supervise(agent: int, coordinator: int) -> int:
    """The pod's exit code. The coordinator's word is the last, and only if the agent is through."""
    codes: dict[int, int] = {}
    was_told = False
    while True:
        number = signal.sigwait((signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD))
        if number == signal.SIGQUIT:
            return 128 + signal.SIGKILL
        if number == signal.SIGTERM:
            was_told = True
            if agent not in codes:
                os.kill(agent, signal.SIGTERM)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            codes[pid] = os.waitstatus_to_exitcode(status)
        if agent in codes and (was_told or codes[agent] != 0):
            return 128 + signal.SIGTERM if was_told else codes[agent] & 0xFF
        if coordinator in codes and (agent in codes or codes[coordinator] == RELEASED):
            return codes[coordinator] & 0xFF
        if agent in codes and not coordinator:
            return 0


def _sweep() -> None:
    """Whoever is left was adopted by this process when its parent ended."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            children = [int(pid) for pid in file.read().split()]
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


# ---- the coordinator ----------------------------------------------------------------------------


def _coordinate(home: str, record: Record, request: Mapping[str, Any]) -> int:
    from dromon.engines import outputs
    from dromon.packaging import snapshot
    from dromon.storage.blobs import BlobStore

    blobs = BlobStore(os.path.join(home, "blobs"))

    def lay_out(attempt: int) -> None:
        if os.path.isdir(record.work(attempt)):
            return
        if request["code"] is None:
            os.makedirs(record.work(attempt))
        else:
            snapshot.materialise(request["code"], blobs, record.work(attempt))

    def keep(attempt: int) -> None:
        outputs.keep(record, attempt, request["outputs"], blobs)

    return Shell(record, request, lay_out, keep).run()


# ---- the agent ----------------------------------------------------------------------------------


def _serve(record: Record, request: Mapping[str, Any], member: str) -> int:
    if replayed(record, request).is_terminal:
        return 0  # the controller gave it new pods although it was over
    run_agent(_plan(record, request, member))
    return 0


def _plan(record: Record, request: Mapping[str, Any], member: str) -> AgentPlan:
    asked = request["roles"][member.rpartition("-")[0]]
    return in_place(
        request,
        member,
        record.root,
        asked["command"],
        env={**request["facts"].get("inherited", {}), **asked["env"]},
        secrets=record.path("secret") if request["supplied"] else "",
        grace=request["gang"]["stop_grace"],
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
