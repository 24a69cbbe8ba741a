"""A shared machine with a real GPU: who is on it without having asked is seen, and left alone; and
where root shares it, a GPU is opened by who has it and by nobody else.

The second part needs root, `useradd`, an NVIDIA GPU that nobody uses, and a checkout and a Python
that other users can read (not below /root); no systemd:

    .venv/bin/python -m pytest -v -rs tests/gpu/test_shared_gpu.py

It makes four users and removes them, and leaves the device files as they were.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.agent import gpu
from dromon.engines.local.shared.fences import whose

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


# ---- with root ----------------------------------------------------------------------------------

# Which GPUs CUDA finds, and whether the first can be used; nothing but the driver is needed.
CUDA = """
import ctypes, os
print("visible", os.environ.get("CUDA_VISIBLE_DEVICES"))
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit("no libcuda")
count = ctypes.c_int()
print("init", cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count)), count.value)
if count.value:
    context, memory = ctypes.c_void_p(), ctypes.c_void_p()
    made = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    print("memory", made, cuda.cuMemAlloc_v2(ctypes.byref(memory), 1 << 20), flush=True)
"""


@pytest.fixture
def gated(machine) -> Iterator:
    """Root's arbiter in the foreground, over the real GPUs."""
    for user in machine.users:
        for name in ("DROMON_FAKE_GPUS", "DROMON_FAKE_PROCESSES"):
            user.env.pop(name, None)
    paths = [Path(f"/dev/nvidia{device.minor}") for device in DEVICES]
    before = {path: path.stat() for path in paths}
    env = {
        **machine.ann.env, "HOME": "/root", "DROMON_HOME": str(machine.folder / "root"),
        "DROMON_ACCOUNT": machine.keeper.name,
    }  # fmt: skip
    words = [machine.ann.python, "-m", "dromon.cli", "daemon"]
    process = subprocess.Popen([*words, "share", "--foreground"], env=env, cwd="/")
    try:
        until((machine.place / "arbiter.sock").exists, lambda: "no arbiter came")
        yield machine
        subprocess.run([*words, "unshare"], env=env, cwd="/", check=True)
        process.wait(30)
        for path, was in before.items():  # it left them as they were
            assert (path.stat().st_uid, path.stat().st_mode) == (was.st_uid, was.st_mode)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        for path, was in before.items():
            os.chown(path, was.st_uid, was.st_gid)
            path.chmod(was.st_mode & 0o7777)


def test_a_real_gpu_is_opened_by_who_has_it_and_by_nobody_else(gated):
    ann, bob = gated.ann, gated.bob
    path = f"/dev/nvidia{DEVICES[0].minor}"
    # Nobody has it. She cannot open it, and knows of it all the same: the arbiter says so.
    until(lambda: whose(path) == 0, lambda: f"it is {whose(path)}'s")
    assert "Permission denied" in ann.run("bash", "-c", f": <>{path}").stderr
    (node,) = json.loads(ann("nodes", "-o", "json").stdout)
    assert node["total"]["gpus"] == len(DEVICES)
    assert any("by the device file" in note for note in node["notes"]), node["notes"]

    wants = ("--gpus", str(len(DEVICES)), "--cpus", "0.1", "queue=research", "--")
    said = ann("run", *wants, ann.python, "-c", CUDA).stdout.splitlines()
    assert said[0].startswith("visible GPU-")
    assert said[1:] == [f"init 0 0 {len(DEVICES)}", "memory 0 0"]

    id = ann.submit(*wants, ann.python, "-c", f"{CUDA}\nimport time; time.sleep(600)")
    until(lambda: "memory 0 0" in ann("logs", id).stdout, lambda: ann("logs", id).stdout)
    # Whatever the driver's library of hers has tried: a root's that uses it would have opened it.
    until(lambda: whose(path) == ann.uid, lambda: f"it is {whose(path)}'s")
    assert "Permission denied" in bob.run("bash", "-c", f": <>{path}").stderr
    denied = bob.run(bob.python, "-c", CUDA).stdout
    assert "memory 0 0" not in denied, denied
    # The arbiter sees who is on it, and nobody is who should not be.
    assert "outside Dromon" not in ann("nodes").stdout
    ann("stop", id, "--grace", "0")
    until(lambda: whose(path) == 0, lambda: "it stays hers")
    # And the next in the line has it.
    assert "memory 0 0" in bob("run", *wants, bob.python, "-c", CUDA).stdout
