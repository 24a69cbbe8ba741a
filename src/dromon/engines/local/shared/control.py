"""Sharing this machine and ending that, as commands do it: where the arbiter lives, and starting
its process.
"""

import json
import os
import shutil
import subprocess
import sys
from typing import Any, NoReturn

from dromon.engines.home import Home
from dromon.engines.local.client import START_LIMIT, daemon_environment, pretended_gpus
from dromon.engines.local.shared import place
from dromon.engines.local.shared.link import is_answered, question
from dromon.errors import DaemonUnreachable, UsageError, from_json

ROOTS_STATE = "/var/lib/dromon"
ACCOUNT = "dromon"  # under which root's arbiter runs, unless $DROMON_ACCOUNT names another


def found() -> place.Place:
    """The arbiter's place, or an error that says how to come by one."""
    at = place.find()
    if at is None:
        raise UsageError(
            "this machine is not shared: there is no arbiter",
            hint="`dromon daemon share` starts one, under any account.",
        )
    return at


def state() -> str:
    """Where an arbiter of this account keeps its journal."""
    if os.getuid() == 0 and "DROMON_HOME" not in os.environ:
        return ROOTS_STATE
    return Home().path("shared")


def status() -> dict[str, Any] | None:
    """How the arbiter of this machine is; None where there is none."""
    at = place.find()
    if at is None:
        return None
    if not is_answered(at):
        return {"place": at.root, "answers": False}
    answer = question(at, "status")
    return {k: v for k, v in answer.items() if k not in ("ok", "n")}


def share(fake_gpus: int) -> dict[str, Any]:
    """Start an arbiter that outlives this command; how it is then."""
    at = place.find()
    if at is not None and is_answered(at):
        return {**(status() or {}), "was": True}
    ready, theirs = os.pipe()
    command = [*words(fake_gpus), "--ready", str(theirs)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        cwd="/", start_new_session=True, env=daemon_environment(), pass_fds=(theirs,),
    )  # fmt: skip
    os.close(theirs)
    try:
        _wait(ready, process)
    finally:
        os.close(ready)
    return status() or {}


def words(fake_gpus: int) -> list[str]:
    """The command that is the arbiter, in the foreground."""
    candidates = place.candidates()
    if not candidates:
        raise UsageError(f"${place.VARIABLE} is empty: this shell wants no arbiter")
    # /run can be written by root alone.
    root = candidates[0] if os.getuid() == 0 or len(candidates) == 1 else candidates[1]
    fake_gpus = fake_gpus or pretended_gpus()
    fake = ["--fake-gpus", str(fake_gpus)] * bool(fake_gpus)
    is_root = os.getuid() == 0
    module = f"dromon.engines.local.shared.{'warden' if is_root else 'process'}"
    account = ["--account", os.environ.get("DROMON_ACCOUNT", ACCOUNT)] * is_root
    return [sys.executable, "-m", module, "--place", root, "--state", state(), *account, *fake]


def foreground(fake_gpus: int) -> NoReturn:
    """Be the arbiter, for a service or a container."""
    command = words(fake_gpus)
    os.execve(sys.executable, command, daemon_environment())


def _wait(ready: int, process: "subprocess.Popen[bytes]") -> None:
    import select

    if not select.select([ready], [], [], START_LIMIT)[0]:
        raise DaemonUnreachable(f"the arbiter did not answer within {START_LIMIT:.0f} s")
    if os.read(ready, 1):
        return
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace").strip()
    try:
        raise from_json(json.loads(said))
    except ValueError:
        last = said.splitlines()[-1] if said else "without a word"
        raise DaemonUnreachable(f"the arbiter ended at once: {last}") from None


def unshare() -> dict[str, Any]:
    """End it for good; every daemon decides for itself again."""
    at = found()
    if is_answered(at):
        return question(at, "leave")
    if at.owner != os.getuid():
        raise UsageError(f"{at.root} is not yours, and its arbiter does not answer")
    shutil.rmtree(at.root, ignore_errors=True)
    return {}


def act(action: str, fake_gpus: int, in_foreground: bool) -> dict[str, Any]:
    """What `dromon daemon` does with the arbiter."""
    if action == "share":
        if in_foreground:
            foreground(fake_gpus)
        return share(fake_gpus)
    if action == "unshare":
        return unshare()
    from dromon.engines.local.shared import service

    return {"said": service.install() if action == "install" else service.uninstall()}
