"""What a member's pod runs: a front that Kubernetes knows, behind it the agent, and in the first
pod the coordinator beside it.

    python -I -S light.pyz kubernetes-member worker

The front is the container's first process: when it ends, everything in the container does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from dromon.agent import exitrecord
from dromon.agent.main import close_on_exec, run_agent
from dromon.agent.record import Record, runs_among
from dromon.coordinator.web import Web
from dromon.engines.kubernetes.pod import company, handover, lastwords, member, places
from dromon.engines.kubernetes.pod.echo import Echo
from dromon.engines.kubernetes.pod.place import Pod
from dromon.engines.kubernetes.pod.places import Places
from dromon.engines.kubernetes.pod.shell import FEWER, GIVE_UP, STOPPED, TIME_OVER, Shell
from dromon.lifecycle import verdict

OOM_GROUP = "/sys/fs/cgroup/memory.oom.group"
RESERVED = (FEWER, GIVE_UP, TIME_OVER, STOPPED)
RELEASED = 128 + signal.SIGTERM  # Volcano gives the job new pods
# The first pod's end has Volcano delete whoever it believes to be running: it learns of the others'
# ends a second or two late, and their output would go with them.
OTHERS_SEEN = 3.0
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 0.0)  # seconds after each attempt to begin


def main(role: str, at: Places = Places()) -> int:  # noqa: B008 - a value that never changes
    with open(at.request, encoding="utf-8") as file:
        request = json.load(file)
    name = f"{role}-{os.environ.get('VC_TASK_INDEX') or os.environ.get('VK_TASK_INDEX') or 0}"
    record = Record(at.record)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGCHLD))
    code = _settle_in(request, name, record, at)
    if code:
        return code
    is_first = name == places.first_member(request)
    if not is_first and not company.is_sure(request):
        restarts = int(os.environ.get("DROMON_VERSION") or 0)
        if not company.comes(at.first_host(request), company.patience(restarts)):
            print("the first member has no place: this one leaves", file=sys.stderr, flush=True)
            return RELEASED
    close_on_exec()
    coordinator, token = 0, os.urandom(8).hex()
    if is_first:
        coordinator = _fork(lambda: _coordinate(request, at, token))
    agent = _fork(lambda: _serve(request, name, record, at))
    echo = Echo(record.root, name)
    code = _supervise(agent, coordinator)
    _end_the_rest()
    if is_first:
        handover.leave(at.home(request), token)
    echo.finish()
    _say_last_words(name, record, at.home(request) if is_first else "", at.last_words)
    alone = sum(r["replicas"] for r in request["roles"].values()) == 1
    if is_first and code in RESERVED and not request["store"] and not alone:
        time.sleep(OTHERS_SEEN)
    return code


def _settle_in(request: Mapping[str, Any], name: str, record: Record, at: Places) -> int:
    """The pod's exit code if it cannot begin. A store that is away for a moment is waited for; an
    end without a word would have Volcano make all pods anew, again and again."""
    trouble = ""
    for pause in PAUSES:
        try:
            at.join_parts()
            member.bring(request, at)
            member.lay_out_record(record, request, name, at)
            return 0
        except OSError as error:
            trouble = f"the pod cannot begin: {error}"
        if signal.sigtimedwait((signal.SIGTERM,), pause):
            return RELEASED
    print(trouble, file=sys.stderr, flush=True)
    said = verdict.Exit(cause=verdict.INTERNAL, message=trouble).to_json()
    _leave(lastwords.compose(name, {1: said}, None), at.last_words)
    return GIVE_UP


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


def _end_the_rest() -> None:
    """Whatever is left in the container: another may be in its place from now on."""
    if os.getpid() == 1:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _coordinate(request: Mapping[str, Any], at: Places, token: str) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with the pod
    key = at.key(request)
    shell = Shell(
        request, at.home(request), key, line_port=at.line_port, token=token,
        dies_whole=_dies_whole(),
    )  # fmt: skip
    web = Web(shell, key, [], port=at.page_port)
    web.start()
    return shell.run()


def _dies_whole() -> bool:
    try:
        with open(OOM_GROUP, encoding="ascii") as file:
            return file.read().strip() == "1"
    except OSError:  # an older kernel's cgroups
        return False


def _serve(request: Mapping[str, Any], name: str, record: Record, at: Places) -> int:
    """Who was cut off from the coordinator until its lease was over, and for good, must not seem
    to have succeeded: nobody would give the gang another in its place."""
    place = Pod(request, name, record, at)
    run_agent(member.plan(request, name, record, at), place)
    exits = _exits(name, record)
    was_lost = bool(exits) and exits[max(exits)].get("cause") == verdict.LOST
    return RELEASED if place.is_orphan and was_lost else 0


def _supervise(agent: int, coordinator: int) -> int:
    """The pod's exit code. The coordinator's word is the last, and only if the agent is through."""
    codes: dict[int, int] = {}
    was_told = False
    while True:
        if signal.sigwait((signal.SIGTERM, signal.SIGCHLD)) == signal.SIGTERM:
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
            ended = os.WIFEXITED(status)
            codes[pid] = os.WEXITSTATUS(status) if ended else 128 + os.WTERMSIG(status)
        if agent in codes and (was_told or codes[agent] != 0):
            return RELEASED if was_told else codes[agent]
        if coordinator in codes and (agent in codes or codes[coordinator] not in (0, *RESERVED)):
            return codes[coordinator]
        if agent in codes and not coordinator:
            return 0


def _exits(name: str, record: Record) -> dict[int, dict[str, Any]]:
    """By run."""
    found = {}
    for who, run in runs_among(os.listdir(record.root)):
        exit = exitrecord.read(record.exit(who, run)) if who == name else None
        if exit is not None:
            found[run] = exit.to_json()
    return found


def _say_last_words(name: str, record: Record, home: str, path: str) -> None:
    """As far as it goes: a pod that cannot say them ends all the same."""
    exits = _exits(name, record)
    try:
        standing = None
        if home:
            with open(Record(home).status, encoding="utf-8") as file:
                standing = json.load(file)
    except (OSError, ValueError):
        pass
    _leave(lastwords.compose(name, exits, standing), path)


def _leave(words: str, path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(words)
    except OSError as error:
        print(f"cannot leave a termination message: {error}", file=sys.stderr, flush=True)
