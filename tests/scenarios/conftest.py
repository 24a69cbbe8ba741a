"""A machine with pretended GPUs, a site file, a real daemon; jobs that end when they are told."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dromon.cli.main import main
from dromon.engines.base import JobStatus, Waiting
from dromon.engines.local.engine import LocalEngine

# Saves its work when it is asked to stop, and says so; goes on from there.
WORK = """
echo "$DROMON_ATTEMPT from $(cat $DROMON_CHECKPOINT_DIR/state 2>/dev/null || echo nothing)"
trap 'echo work > $DROMON_CHECKPOINT_DIR/state; exit 143' TERM
while [ ! -e {flag} ]; do sleep 0.02; done
"""


class Box:
    """One machine, as its administrator and its users have it."""

    def __init__(self, root: Path, gpus: int) -> None:
        self.root = root
        self.site = root / "site.yaml"
        self.home = tempfile.mkdtemp(prefix="dromon-", dir="/tmp")
        self.engine = LocalEngine(self.home, fake_gpus=gpus)
        self.ids: dict[str, str] = {}

    def submit(self, name: str, *, gpus: int = 1, **keys: Any) -> str:
        """A job that works until `finish(name)`."""
        command = WORK.format(flag=self.root / name)
        resources = {"gpus": gpus, "cpus": 0}
        data = {"name": name, "command": command, "resources": resources, "stop_grace": 5, **keys}
        request = {"cwd": str(self.root), "environ": dict(os.environ), "data": data}
        id = self.ids[name] = str(self.engine.start(request)["id"])
        return id

    def finish(self, *names: str) -> None:
        for name in names:
            (self.root / name).touch()

    def until(self, name: str, *states: str) -> JobStatus:
        for status in self.engine.watch(self.ids[name]):
            if status.state in states:
                return status
        raise AssertionError(f"{name} never was {states}")

    def end(self, name: str) -> JobStatus:
        return self.engine.wait(self.ids[name], 60)

    def states(self, *names: str) -> list[str]:
        return [self.engine.status(self.ids[name]).state for name in names]

    def speaks(self, name: str) -> None:
        """Until its program is at work, and can be warned."""
        deadline = time.monotonic() + 20
        while not self.said(name):
            assert time.monotonic() < deadline, f"{name} said nothing"
            time.sleep(0.05)

    def waits(self, name: str, *reasons: str) -> Waiting:
        """Why it waits, once that is one of these reasons."""
        deadline = time.monotonic() + 20
        while True:
            found = self.engine.why(self.ids[name])
            if found is not None and found.reason in reasons:
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def said(self, name: str) -> list[str]:
        lines = self.engine.logs(self.ids[name], follow=False)
        return [line.text for line in lines if line.stream == "out"]

    def restart_daemon(self) -> None:
        pid = int(self.engine.client.ask("daemon_stop")["pid"])
        self.engine.client.wait_gone(pid)

    def has_members(self, name: str, count: int) -> JobStatus:
        """Until it runs with so many."""
        deadline = time.monotonic() + 40
        while True:
            status = self.engine.status(self.ids[name])
            up = [member for member in status.members if member.state == "up"]
            if status.state == "running" and len(up) == len(status.members) == count:
                return status
            assert time.monotonic() < deadline, status
            time.sleep(0.05)

    def kill_daemon(self) -> None:
        pid = int(self.engine.client.ask("daemon_status")["pid"])
        os.kill(pid, signal.SIGKILL)
        self.engine.client.wait_gone(pid)

    def close(self) -> None:
        for status in (self.engine.client.ask_running("list", active=True) or {"jobs": []})["jobs"]:
            self.engine.stop(status["id"], 0.0)
            self.engine.wait(status["id"], 60)
        found = self.engine.client.ask_running("daemon_stop")
        if found is not None:
            self.engine.client.wait_gone(int(found["pid"]))
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Box]]:
    """`machine(gpus, site)`: with so many GPUs, under this site file."""
    made: list[Box] = []
    monkeypatch.setenv("DROMON_SHARED", "")
    monkeypatch.setenv("DROMON_CONFIG", str(tmp_path / "config"))

    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def make(gpus: int, site: str) -> Box:
        box = Box(tmp_path, gpus)
        box.site.write_text(site)
        monkeypatch.setenv("DROMON_SITE", str(box.site))
        monkeypatch.setenv("DROMON_HOME", box.home)
        monkeypatch.setenv("DROMON_FAKE_GPUS", str(gpus))
        made.append(box)
        return box

    yield make
    for box in made:
        box.close()


@pytest.fixture
def dromon(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Types a command at the machine; what it said."""

    def call(*words: str, code: int = 0) -> str:
        assert main(list(words)) == code
        out, err = capfd.readouterr()
        return out + err

    return call


def moment(seconds: float) -> str:
    """So long from now, as a site file writes it."""
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()


@pytest.fixture
def at() -> Callable[[float], str]:
    return moment
