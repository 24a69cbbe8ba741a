"""Pods without a cluster: each is a process with directories of its own, on this machine."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dromon.agent.record import Record
from dromon.engines.gang import gang_plan
from dromon.packaging import lightapp
from dromon.spec import Job

KEY = "k" * 64
START = """
import sys
sys.path.insert(0, sys.argv[1])
from dromon.engines.kubernetes.pod.main import main
from dromon.engines.kubernetes.pod.places import Places
root, words, line, page, first = sys.argv[3:]
sys.exit(main(sys.argv[2], Places(root, words, int(line), int(page), first)))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stage:
    """One job and its pods. `has_store`: they share a directory."""

    def __init__(self, folder: Path, has_store: bool = True, **job: Any) -> None:
        self.folder = folder
        self.job = Job.from_data({"name": "job", **job})
        self.id = "job-aaaaaa"
        self.store = folder / "store" if has_store else None
        self.home = Record(str(folder / "store" / "jobs" / self.id))
        self.light = lightapp.build(str(folder / "light"), engine="kubernetes").path
        self.ports = (free_port(), free_port())
        self.first = "127.0.0.1"  # where the first pod is said to be
        self.ways: dict[str, int] = {}  # member -> the port at which it looks for the coordinator
        self.lease = 60.0
        self.artifacts: dict[str, Any] = {}
        self.checkpoints = f"{self.home.root}/checkpoints" if has_store else ""
        self.pods: dict[str, subprocess.Popen[bytes]] = {}
        self.printed: dict[str, Path] = {}

    @property
    def request(self) -> dict[str, Any]:
        roles = {
            name: {
                "command": role.command, "replicas": role.replicas, "min": role.min,
                "processes": role.processes, "gpus": 0, "memory": role.resources.memory or 0,
                "env": {k: v for k, v in {**self.job.env, **role.env}.items() if v is not None},
            }
            for name, role in self.job.roles.items()
        }  # fmt: skip
        return {
            "name": "job", "roles": roles, "gang": gang_plan(self.id, self.job).to_json(),
            "framework": self.job.framework, "config": self.job.config,
            "checkpoints": self.checkpoints,
            "payload": None, "python": sys.executable, "grace": self.job.stop_grace,
            "lease": self.lease, "volumes": {}, "inherited": {}, "outputs": list(self.job.outputs),
            "artifacts": self.artifacts, "supplied": [], "secret": None, "volcano": True,
            "store": {"path": str(self.store)} if self.store else None, "blobs": "",
        }  # fmt: skip

    def start(self, *members: str) -> None:
        names = [f"{n}-{i}" for n, r in self.job.roles.items() for i in range(r.replicas)]
        for member in members or names:
            self._start(member)

    def _start(self, member: str) -> None:
        number = len(list(self.folder.glob(f"{member}.pod*")))
        root = self.folder / f"{member}.pod{number}"
        for name in ("request", "secret", "run", "light"):
            (root / name).mkdir(parents=True)
        (root / "request/request.json").write_text(json.dumps(self.request))
        (root / "secret/key").write_text(KEY)
        os.symlink(self.light, root / "light/light.pyz")
        role, _, index = member.rpartition("-")
        self.printed[member] = root / "printed"
        line = self.ways.get(member, self.ports[0])
        words = [role, str(root), str(root / "last"), str(line), str(self.ports[1]), self.first]
        with open(root / "printed", "wb") as out:
            self.pods[member] = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", START, self.light, *words],
                stdout=out, cwd="/",
                env={
                    "PATH": os.environ["PATH"], "VC_TASK_INDEX": index,
                    "DROMON_POD": f"{self.id}-{member}", "DROMON_NODE": "node1",
                    "DROMON_POD_IP": "127.0.0.1",
                },
            )  # fmt: skip

    def kill(self, member: str) -> None:
        """As when the pod is gone: all of its processes at once."""
        mark = os.fsencode(str(self.printed[member].parent))
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "cmdline").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
            except (OSError, ProcessLookupError):
                continue
        self.pods[member].wait()

    def code(self, member: str, timeout: float = 60) -> int:
        return self.pods[member].wait(timeout)

    def codes(self) -> dict[str, int]:
        return {member: self.code(member) for member in self.pods}

    def last_words(self, member: str) -> dict[str, Any]:
        return dict(json.loads((self.printed[member].parent / "last").read_text()))

    def status(self) -> dict[str, Any]:
        try:
            return dict(json.loads(Path(self.home.path("status.json")).read_text()))
        except FileNotFoundError:
            return {}

    def until(self, claim: Any, timeout: float = 60) -> None:
        deadline = time.monotonic() + timeout
        while not claim():
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.02)

    def close(self) -> None:
        for pod in self.pods.values():
            if pod.poll() is None:
                pod.send_signal(signal.SIGTERM)
        for pod in self.pods.values():
            try:
                pod.wait(10)
            except subprocess.TimeoutExpired:
                pod.kill()
                pod.wait()
        for member in self.pods:  # a container would take its agent with it
            self.kill(member)
