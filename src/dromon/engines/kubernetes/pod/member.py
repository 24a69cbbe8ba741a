"""What a pod's agent is told: its plan, its environment, the record it finds when it starts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from dromon.agent import archives
from dromon.agent.plan import AgentPlan, in_place
from dromon.agent.record import Record
from dromon.engines.kubernetes.pod import objects, places
from dromon.engines.kubernetes.pod.places import Places

CGROUP = "/sys/fs/cgroup"  # a container sees its own
MEMORY_V1 = f"{CGROUP}/memory"


def lay_out_record(record: Record, request: Mapping[str, Any], name: str, at: Places) -> None:
    os.makedirs(record.root, mode=0o700, exist_ok=True)
    address = {"address": at.coordinator(request, name)}  # the first pod's name never changes
    _write(record.coordinator, json.dumps(address).encode())
    _write(record.key, at.key(request))
    if request["config"]:
        _write(record.config, json.dumps(request["config"]).encode())
    supplied = at.supplied(request)
    if supplied:
        _write(record.path("secret"), json.dumps(supplied).encode())
    kept = request["checkpoints"]
    if kept:
        os.makedirs(kept, exist_ok=True)
        if not os.path.lexists(record.checkpoints):
            os.symlink(kept, record.checkpoints)
    else:
        os.makedirs(record.checkpoints, exist_ok=True)
    _lay_out_programs(str(request["python"]), at)


def _lay_out_programs(python: str, at: Places) -> None:
    """`python` and `python3` for commands, whatever the image calls its own. A link would hide
    where its packages are."""
    found = shutil.which(python)
    if found is None:
        return
    os.makedirs(at.programs, exist_ok=True)
    for name in ("python", "python3"):
        path = f"{at.programs}/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {shlex.quote(found)} "$@"\n')
        os.chmod(path, 0o755)


def plan(request: Mapping[str, Any], name: str, record: Record, at: Places) -> AgentPlan:
    asked = request["roles"][name.rpartition("-")[0]]
    pod, node = os.environ.get("DROMON_POD", ""), os.environ.get("DROMON_NODE", "")
    return in_place(
        request,
        name,
        record.root,
        _command(request, asked["command"], at),
        host=os.environ.get("DROMON_POD_IP") or "127.0.0.1",
        env=_environment(request, asked, at),
        secrets=record.path("secret") if os.path.exists(record.path("secret")) else "",
        grace=request["grace"],
        memory=asked["memory"] or None,
        inside=MEMORY_V1 if os.path.isdir(MEMORY_V1) else CGROUP,
        lease=request["lease"],
        place=f"{pod}@{node}",
    )


def _command(request: Mapping[str, Any], command: Any, at: Places) -> Any:
    python = _python(request, at)
    if request["payload"] is not None:
        here = f"{at.run}/function"
        return [python, f"{here}/run.py", f"{here}/payload"]
    if not isinstance(command, str) and command[0] in ("python", "python3"):
        return [python, *command[1:]]
    return command


def _python(request: Mapping[str, Any], at: Places) -> str:
    is_shipped = places.ENVIRONMENT in request["artifacts"]
    return f"{at.environment}/bin/python" if is_shipped else str(request["python"])


def _environment(
    request: Mapping[str, Any], asked: Mapping[str, Any], at: Places
) -> dict[str, str]:
    """What the image says stays; what was for this process alone goes."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DROMON_")}
    # What is shipped comes first, then what the image has, then what it has by another name.
    is_shipped = places.ENVIRONMENT in request["artifacts"]
    shipped = [f"{at.environment}/bin"] if is_shipped else []
    env["PATH"] = ":".join([*shipped, env.get("PATH", os.defpath), at.programs])
    # `import dromon` for context() works in any environment, without installing it there.
    light = f"{at.root}/light/light.pyz"
    env["PYTHONPATH"] = ":".join(filter(None, (light, env.get("PYTHONPATH", ""))))
    env["DROMON_JOB_NAME"] = request["name"]
    for name, volume in request["volumes"].items():
        env["DROMON_VOLUME_" + name.upper().replace("-", "_")] = volume["path"]
    return {**env, **request["inherited"], **asked["env"]}


def bring(request: Mapping[str, Any], at: Places) -> None:
    """Archives that lie in an object store, as far as they are not here yet. OSError: in words."""
    if not request["blobs"]:
        return
    for name, artifact in request["artifacts"].items():
        path = at.blob(request, name)
        if not os.path.isdir(_unpacked(at).get(name, "")) and not os.path.exists(path):
            objects.fetch_one(f"{request['blobs']}/{artifact['blob']}", path, at.reach())


def _unpacked(at: Places) -> dict[str, str]:
    """Where archives beside the code are unpacked, by name."""
    return {places.ENVIRONMENT: at.environment, places.FUNCTION: f"{at.run}/function"}


def unpack(request: Mapping[str, Any], at: Places) -> None:
    """What the job ships beside its code, as far as it is not there yet. OSError: in words."""
    for name, folder in _unpacked(at).items():
        if name in request["artifacts"] and not os.path.isdir(folder):
            what = name.partition(".")[0]
            try:
                archives.unpack(at.blob(request, name), folder, at.digest(request, name))
                if request["blobs"]:
                    os.unlink(at.blob(request, name))  # it was fetched for this alone
            except FileNotFoundError as error:
                raise OSError(f"the {what} is not in the store: {error.filename}") from None
            except archives.BROKEN as error:
                raise OSError(f"the {what} cannot be unpacked: {error}") from None


def fetch(at: Places = Places()) -> int:  # noqa: B008 - a value that never changes
    """The init container: unpack the environment before the member's container starts. One that
    fails has Volcano make all pods anew, at once and for ever; so it never does, and the agent,
    which has retries and a verdict, tries again."""
    try:
        with open(at.request, encoding="utf-8") as file:
            request = json.load(file)
        at.join_parts()
        bring(request, at)
        unpack(request, at)
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
    return 0


def _write(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
