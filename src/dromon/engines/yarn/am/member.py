"""What a member's container runs: a front that YARN knows, and behind it the agent.

    python -I -S light.pyz yarn-member worker-0

YARN ends a container by signals to one process group: SIGTERM, and a quarter of a second later
SIGKILL. A member runs in a session of its own, so that the front alone would die; the agent
behind it sees that at once and ends everything.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from dromon.agent import devices, process
from dromon.agent.main import close_on_exec, run_agent
from dromon.agent.plan import AgentPlan, in_place
from dromon.agent.record import Record
from dromon.engines.yarn.am import volumes
from dromon.engines.yarn.am.container import Container
from dromon.engines.yarn.am.secrets import Secrets, load_secrets
from dromon.hadoop.webhdfs import WebHdfs

REQUEST = "request.json"
BEAT = 10.0  # seconds: one master hears hundreds of agents
# Of the container's own variables, those a member gets too.
PASSED_ON = (
    "HOME", "USER", "LOGNAME", "LANG", "TZ", "JAVA_HOME", "HADOOP_CONF_DIR", "HADOOP_HOME",
    "HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME", "HADOOP_YARN_HOME", "HADOOP_TOKEN_FILE_LOCATION",
    "CONTAINER_ID", "LOCAL_DIRS", "LOG_DIRS", "NM_HOST",
)  # fmt: skip


def main(member: str) -> int:
    with open(REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    secrets = load_secrets()
    record = Record(os.path.abspath("record"))
    _lay_out_record(record, request, secrets)
    close_on_exec()
    life, alive = os.pipe()
    pid = os.fork()
    if pid:
        os.close(life)
        return _stand_in_front(pid)
    code = 70
    try:
        os.close(alive)
        cluster = request["cluster"]
        hdfs = WebHdfs(cluster["webhdfs"], cluster["user"], secrets.hdfs_token)
        log_dir = os.environ["LOG_DIRS"].split(",")[0]
        plan = _plan(request, member, record, secrets)
        # Held for as long as this process lives, and nothing outlives it: see the front.
        shown, _held = devices.claim(
            request["roles"][plan.role]["gpus"], devices.Locks(),
            {"user": os.environ.get("USER", ""), "job": plan.job},
        )  # fmt: skip
        plan = dataclasses.replace(plan, env={**plan.env, **shown})
        container = Container(request, member, record, log_dir, hdfs)
        threading.Thread(target=_end_with, args=(life, container), daemon=True).start()
        run_agent(plan, container)
        code = 0
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _stand_in_front(agent: int) -> int:
    signal.signal(signal.SIGTERM, lambda *_: os.kill(agent, signal.SIGTERM))
    process.become_subreaper()  # what the agent leaves behind becomes ours, and ends here
    status = 0
    pid = 0
    while pid != agent:
        pid, status = os.waitpid(-1, 0)
    while process.reap()[1]:
        process.signal_tree(signal.SIGKILL)
        time.sleep(0.01)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _end_with(life: int, container: Container) -> None:
    """The front is gone: nothing of this container may live on. How its member ends now is not
    the member's doing, and is not told."""
    os.read(life, 1)
    container.is_over = True
    process.signal_tree(signal.SIGKILL)
    os._exit(128 + signal.SIGKILL)


def _lay_out_record(record: Record, request: Mapping[str, Any], secrets: Secrets) -> None:
    os.makedirs(record.root, mode=0o700, exist_ok=True)
    address = {
        "address": os.environ["DROMON_COORDINATOR"],
        "epoch": int(os.environ["DROMON_EPOCH"]),
    }
    _write(record.coordinator, json.dumps(address).encode())
    _write(record.key, secrets.key)
    if request["config"]:
        _write(record.config, json.dumps(request["config"]).encode())
    if secrets.supplied:
        _write(record.path("secret"), json.dumps(secrets.supplied).encode())
    if request["checkpoints"]:
        os.makedirs(request["checkpoints"], mode=0o700, exist_ok=True)
        os.symlink(request["checkpoints"], record.checkpoints)
    else:
        os.makedirs(record.checkpoints, exist_ok=True)


def _write(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def _plan(request: Mapping[str, Any], member: str, record: Record, secrets: Secrets) -> AgentPlan:
    asked = request["roles"][member.rpartition("-")[0]]
    return in_place(
        request,
        member,
        record.root,
        _command(request, asked["command"]),
        host=address(request, os.environ["DROMON_COORDINATOR"].partition(":")[2]),
        env=_environment(request, asked),
        secrets=record.path("secret") if secrets.supplied else "",
        grace=request["grace"],
        memory=asked["memory"],
        lease=request["lease"],
        beat=BEAT,
        place=os.environ["CONTAINER_ID"],
    )


def address(request: Mapping[str, Any], other: str) -> str:
    """The IP under which other nodes reach this one: some frameworks take no names.

    What a name means here may be this machine alone (127.0.1.1 on many), so it is asked from
    which address packets to the cluster's other machines go."""
    cluster = request["cluster"]
    others = [other, *cluster["scheduler"]]
    others += [url.rpartition("//")[2] for url in cluster["webhdfs"]]
    found = []
    for place in others:
        host, _, port = place.rpartition(":")
        try:
            family, kind, _, _, where = socket.getaddrinfo(
                host.strip("[]"), int(port.strip("/")), type=socket.SOCK_DGRAM
            )[0]
            with socket.socket(family, kind) as probe:
                probe.connect(where)
                found.append(str(probe.getsockname()[0]))
        except (OSError, ValueError):
            continue
    outside = [address for address in found if not address.startswith("127.") and address != "::1"]
    return next(iter(outside or found), os.environ["NM_HOST"])


def _command(request: Mapping[str, Any], command: Any) -> Any:
    python = os.path.abspath(request["python"]) if "/" in request["python"] else request["python"]
    if request["payload"]:
        here = os.path.abspath("function")
        return [python, os.path.join(here, "run.py"), os.path.join(here, "payload")]
    here = os.getcwd()
    paths = {name: volumes.path_of(name, v, here) for name, v in request["volumes"].items()}

    def filled(text: str) -> str:
        for name, path in paths.items():
            text = text.replace(request["volumes"][name]["mark"], path)
        return text

    if isinstance(command, str):
        return filled(command)
    if command[0] in ("python", "python3"):
        command = [python, *command[1:]]
    return [filled(word) for word in command]


def _environment(request: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, str]:
    env = {k: os.environ[k] for k in PASSED_ON if k in os.environ}
    env["PATH"] = ":".join([*_programs(request["python"]), os.environ.get("PATH", os.defpath)])
    # `import dromon` for context() works in any environment, without installing it there.
    env["PYTHONPATH"] = os.path.abspath("light.pyz")
    env["PYTHONNOUSERSITE"] = "1"  # what the node's ~/.local has is not part of the job
    env["DROMON_JOB_NAME"] = request["name"]
    for name, volume in request["volumes"].items():
        variable = "DROMON_VOLUME_" + name.upper().replace("-", "_")
        env[variable] = volumes.path_of(name, volume, os.getcwd())
    return {**env, **request["inherited"], **asked["env"]}


def _programs(python: str) -> list[str]:
    """Directories where `python`, and what is installed with it, is found."""
    if os.path.isdir("environment"):
        return [os.path.abspath("environment/bin")]
    found = shutil.which(python)
    if found is None:
        return []
    # The node's own, whatever it is called there. A link would hide where its packages are.
    os.makedirs("bin", exist_ok=True)
    for name in ("python", "python3"):
        with open(f"bin/{name}", "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {shlex.quote(found)} "$@"\n')
        os.chmod(f"bin/{name}", 0o755)
    return [os.path.abspath("bin"), os.path.dirname(found)]
