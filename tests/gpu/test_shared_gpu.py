"""A shared machine with a real GPU: who is on it without having asked is seen, and left alone."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.agent import gpu

DEVICES = [d for d in gpu.devices() if d.vendor == "nvidia"]
pytestmark = pytest.mark.skipif(not DEVICES, reason="no NVIDIA GPU on this machine")
HOLD = """
import time, torch
held = [torch.zeros(1 << 20, device=f"cuda:{n}") for n in range(torch.cuda.device_count())]
print("held", flush=True)
time.sleep(120)
"""


@pytest.fixture
def shared(dromon, monkeypatch) -> Iterator[Path]:
    """An arbiter of this machine's, in a place of its own."""
    folder = Path(tempfile.mkdtemp(prefix="dromon-shared-", dir="/tmp"))
    folder.chmod(0o755)  # root's arbiter runs under an account of its own
    monkeypatch.setenv("DROMON_SHARED", str(folder / "place"))
    apart = {"DROMON_HOME": str(folder / "home")}
    began = dromon("daemon", "share", env=apart)
    assert began.returncode == 0, began.stderr
    yield folder
    dromon("daemon", "stop")
    dromon("daemon", "unshare", env=apart)
    shutil.rmtree(folder, ignore_errors=True)


def until(condition, said) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.5)


def state(dromon, id: str) -> str:
    jobs = json.loads(dromon("ps", "-a", "-o", "json").stdout)
    return next(job["state"] for job in jobs if job["id"] == id)


def test_a_gpu_used_by_a_process_outside_is_shown_with_its_owner_and_not_given(dromon, shared):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True
    ) as outside:
        try:
            assert outside.stdout is not None
            assert outside.stdout.readline() == "held\n"
            words = f"process {outside.pid}"
            until(lambda: words in dromon("nodes").stdout, lambda: dromon("nodes").stdout)
            id = dromon("run", "-d", "--gpus", "1", "--", "true").stdout.strip()
            assert words in dromon("why", id).stdout
            assert state(dromon, id) == "queued"
        finally:
            outside.kill()
    until(lambda: state(dromon, id) == "succeeded", lambda: dromon("why", id).stdout)
