"""The command line over one state directory, with an eye on the processes behind it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dromon.agent.record import Record

Done = subprocess.CompletedProcess[str]
LIMIT = 60.0  # seconds after which something that should happen will not happen any more


class Bench:
    """What a user types, in a folder of its own, and what happens below."""

    def __init__(self, run: Callable[..., Done], home: Path, folder: Path) -> None:
        self._run = run
        self.home = home
        self.folder = folder

    def __call__(self, *words: str, code: int | None = 0, **options: Any) -> Done:
        """`dromon WORDS`; whatever happens, it is nothing Dromon cannot explain."""
        done = self._run(*words, **{"cwd": self.folder, **options})
        said = f"dromon {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert code is None or done.returncode == code, said
        assert "this is a bug" not in done.stderr, said
        assert "fault of Dromon's" not in done.stderr, said
        return done

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def submit(self, *words: str, **options: Any) -> str:
        return self("run", "-d", *words, **options).stdout.strip()

    def show(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("show", id, "-o", "json").stdout)
        return found

    def status(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.show(id)["status"]
        return found

    def until(self, id: str, *states: str) -> dict[str, Any]:
        """Its status once it has one of these states."""
        found: dict[str, Any] = {}

        def is_so() -> bool:
            nonlocal found
            found = self.status(id)
            return found["state"] in states

        eventually(is_so, lambda: f"{id} is {found['state']}, not {' or '.join(states)}")
        return found

    def over(self, id: str) -> dict[str, Any]:
        return self.until(id, "succeeded", "failed", "stopped")

    def record(self, id: str) -> Record:
        return Record(str(self.home / "jobs" / id))

    # ---- processes ------------------------------------------------------------------------------

    def daemon(self) -> int:
        return int((self.home / "daemon.pid").read_text())

    def kill_daemon(self) -> None:
        pid = self.daemon()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_alive(pid), "a killed daemon lives on")

    def launcher(self) -> int:
        mine = [
            pid for pid in processes() if parent(pid) == self.daemon() and "launcher" in words(pid)
        ]
        assert len(mine) == 1, mine
        return mine[0]

    def agent(self, id: str, member: str = "worker-0", run: int = 1) -> int:
        """The agent that has claimed this run, once there is one."""
        path = Path(self.record(id).run(member, run), "claim")
        eventually(path.exists, f"nobody claimed {path}")
        return int(json.loads(path.read_text())["pid"])

    def members(self, id: str) -> list[int]:
        """Processes that run for this job, their children too."""
        marker = f"DROMON_MEMBER={id}/".encode()
        return [pid for pid in processes() if any(
            each.startswith(marker) for each in environ(pid).split(b"\0")
        )]  # fmt: skip

    def text(self, id: str) -> str:
        """All it printed."""
        return self("logs", id).stdout


@pytest.fixture
def bench(home: Path, dromon: Callable[..., Done], tmp_path: Path) -> Bench:
    folder = tmp_path / "work"
    folder.mkdir()
    return Bench(dromon, home, folder)


def eventually(is_so: Callable[[], bool], why: str | Callable[[], str], wait: float = 0.03) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(why if isinstance(why, str) else why())
        time.sleep(wait)


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def environ(pid: int) -> bytes:
    return _read(pid, "environ")


def words(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def is_alive(pid: int) -> bool:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in (b"Z", b"X")


def peak_memory(pid: int) -> int:
    """The most it ever had resident, in bytes."""
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


# ---- as somebody else ---------------------------------------------------------------------------

PROBE = "import dromon.cli.main, pydantic, ruamel.yaml"
CLI = (
    "import os, sys; os.chdir(sys.argv.pop(1)); from dromon.cli.main import main; sys.exit(main())"
)
NOBODY = 65534


def as_nobody() -> Callable[..., Done]:
    """Runs a Python program as the user `nobody`, who must be able to reach an interpreter."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    site = os.path.dirname(os.path.dirname(pytest.__file__))
    source = Path(__file__).parents[2] / "src"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{source}:{site}", "HOME": "/nonexistent"}
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"

    def run(python: str, code: str, *words: str, **more: str) -> Done:
        return subprocess.run(
            [python, "-c", code, *words], env={**env, **more}, user=NOBODY, group=NOBODY,
            extra_groups=[], cwd="/", capture_output=True, text=True, timeout=LIMIT,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            if run(python, PROBE).returncode == 0:
                return lambda code, *words, **more: run(python, code, *words, **more)
        except OSError:
            continue
    pytest.skip("the user nobody can reach no interpreter that has Dromon")


@pytest.fixture
def nobody() -> Callable[..., Done]:
    return as_nobody()
