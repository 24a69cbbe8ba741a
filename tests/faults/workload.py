"""A workload whose every step leaves a trace, so that what happened can be checked afterwards.

Each member writes one line when it starts and one when it ends into a ledger outside Dromon's
reach; each GPU it was given is a lock that only one process may hold.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from dromon.engines.base import Filter, JobStatus
from dromon.engines.local.engine import LocalEngine

MEMBER = """
import fcntl, os, sys, time
ledger, seconds, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
me = os.environ["DROMON_MEMBER"]
def note(what):
    fd = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{what} {me}\\n".encode())
    os.close(fd)
note("start")
gpus = [g for g in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if g]
held = [os.open(f"{ledger}.gpu{gpu}", os.O_CREAT | os.O_RDWR) for gpu in gpus]
for fd, gpu in zip(held, gpus):
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(f"twice-gpu{gpu}")
time.sleep(seconds)
note("end")
sys.exit(code)
"""


class Workload:
    """Jobs on one home, a daemon that is killed, and the invariants that must hold."""

    def __init__(self, root: str, seed: int, *, gpus: int = 3) -> None:
        self.random = random.Random(seed)
        self.engine = LocalEngine(os.path.join(root, "h"), fake_gpus=gpus)
        self.ledger = os.path.join(root, "ledger")
        self.work = os.path.join(root, "work")
        os.makedirs(self.work)
        Path(self.work, "member.py").write_text(MEMBER)
        self.submitted: dict[str, int] = {}  # id -> members

    def submit(self) -> str:
        members = self.random.choice([1, 1, 1, 2, 3])
        command = [
            sys.executable, "member.py", self.ledger, f"{self.random.uniform(0, 0.3):.3f}",
            str(self.random.choice([0, 0, 0, 3])),
        ]  # fmt: skip
        data = {
            "name": "w",
            "command": command,
            "replicas": members,
            "resources": {"cpus": 0.1, "gpus": self.random.choice([0, 0, 1])},
        }
        alphabet = "abcdefghijklmnopqrstuvwxyz234567"
        token = "".join(self.random.choice(alphabet) for _ in range(6))
        request = {"cwd": self.work, "environ": dict(os.environ), "token": token, "data": data}
        id = str(self.engine.client.ask("run", request=request)["id"])
        self.submitted[id] = members
        return id

    def kill_daemon(self) -> bool:
        """SIGKILL, if there is one just now."""
        try:
            pid = int(Path(self.engine.home.path("daemon.pid")).read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if self.engine.home.root.encode() not in command:
                return False  # the number belongs to somebody else by now
            os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            return False
        return True

    def wait_all(self, limit: float = 90.0) -> list[JobStatus]:
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if not self.engine.list(Filter(active_only=True)):
                return self.engine.list(Filter(active_only=False, limit=100_000))
            time.sleep(0.05)
        stuck = [(j.id, j.state, j.members) for j in self.engine.list(Filter())]
        raise AssertionError(f"still not over: {stuck}")

    # ---- what must hold -------------------------------------------------------------------------

    def check_now(self) -> None:
        """Holds at any moment."""
        notes = self._notes()
        twice = [note for note, count in notes.items() if count > 1 or note.startswith("twice")]
        assert not twice, f"ran twice, or a GPU was given twice: {twice}"
        known = {job.id for job in self.engine.list(Filter(active_only=False, limit=100_000))}
        assert set(self.submitted) <= known, f"lost: {set(self.submitted) - known}"

    def check_end(self, jobs: list[JobStatus]) -> None:
        """Holds once all jobs have ended."""
        self.check_now()
        notes = self._notes()
        for job in jobs:
            assert job.state in ("succeeded", "failed"), (job.id, job.state, job.verdict)
            if job.state == "succeeded":
                # Every member of it ran to its end, in its last run.
                ended = [n for n in notes if n.startswith(f"end {job.id}/")]
                assert len(ended) >= self.submitted[job.id], (job.id, ended)
        assert not self.orphans(), self.orphans()
        held = [d["index"] for d in self.engine.nodes()[0].gpus if d["holder"] or d["job"]]
        assert not held, f"GPUs still held: {held}"

    def _notes(self) -> Counter[str]:
        try:
            return Counter(Path(self.ledger).read_text().splitlines())
        except FileNotFoundError:
            return Counter()

    def orphans(self) -> list[str]:
        """Member processes of this home that still run."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                environ = path.read_bytes()
            except OSError:
                continue
            if b"DROMON_MEMBER=" in environ and self.engine.home.root.encode() in environ:
                found.append(path.parent.name)
        return found

    def close(self) -> None:
        found = self.engine.client.ask_running("daemon_stop")
        if found is not None:
            self.engine.client.wait_gone(int(found["pid"]))
