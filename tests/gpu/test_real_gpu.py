"""What only a machine with a real NVIDIA GPU can show: discovery, isolation, sharing, training.

Needs torch with CUDA in the Python that runs the tests. Elsewhere these are skipped, with reason.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dromon.agent import devices, gpu

DEVICES = [d for d in gpu.devices() if d.vendor == "nvidia"]
pytestmark = pytest.mark.skipif(not DEVICES, reason="no NVIDIA GPU on this machine")

SEE = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())"
TRAIN = """
import json, time, torch
import dromon
device = torch.device("cuda")
torch.manual_seed(0)
inputs = torch.randn(65536, 512, device=device)
wanted = inputs @ torch.randn(512, 1, device=device)
model = torch.nn.Sequential(
    torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)
).to(device)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
until = time.time() + 12  # long enough for the agent to measure the GPU twice
first = last = None
while time.time() < until:
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    last = loss.item()
    first = last if first is None else first
dromon.context().report(first=first, last=last)
print(json.dumps({"first": first, "last": last, "device": torch.cuda.get_device_name()}))
assert last < first / 10
"""


def python(code: str) -> list[str]:
    return ["--", sys.executable, "-c", code]


def test_the_machine_knows_its_gpus_as_the_driver_does(dromon):
    asked = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    node = json.loads(dromon("nodes", "-o", "json").stdout)[0]
    assert {(g["uuid"], g["name"]) for g in node["gpus"]} == {
        tuple(part.strip() for part in line.split(",")) for line in asked.strip().splitlines()
    }


def test_a_member_sees_exactly_the_gpus_it_was_given(dromon):
    assert dromon("run", "--gpus", "1", *python(SEE)).stdout.split() == ["True", "1"]


def test_a_member_without_gpus_sees_none(dromon):
    assert dromon("run", *python(SEE)).stdout.split() == ["False", "0"]


def test_more_gpus_than_there_are_is_refused_at_once(dromon):
    found = dromon("run", "--gpus", str(len(DEVICES) + 1), *python(SEE))
    assert found.returncode == 65
    assert "GPU" in found.stderr


def test_a_real_training_uses_the_gpu_and_its_record_says_how_much(dromon, tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    found = dromon("run", "--gpus", "1", "--", sys.executable, str(script), timeout=110)
    assert found.returncode == 0, found.stderr
    show = json.loads(dromon("show", "@last", "-o", "json").stdout)
    used = show["members"][0]["exit"]["gpu"]
    assert used["peak_memory"] > 100e6, used
    assert used["mean_use"] > 0, used
    assert show["metrics"]["last"]["last"] < show["metrics"]["first"]["last"] / 10


def test_the_next_job_waits_for_the_gpu_and_is_told_who_has_it(dromon):
    everything = str(len(DEVICES))
    first = dromon("run", "-d", "--gpus", everything, "--", "sleep", "60").stdout.strip()
    second = dromon("run", "-d", "--gpus", everything, "--", "true").stdout.strip()
    assert first in dromon("why", second).stdout
    dromon("stop", "--grace", "1", first)
    deadline = time.monotonic() + 30
    while "succeeded" not in dromon("ps", "-a", "-o", "json").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_two_daemons_never_hand_out_the_same_gpu(dromon, tmp_path: Path):
    other = {"DROMON_HOME": str(tmp_path / "h")}
    everything = str(len(DEVICES))
    dromon("run", "-d", "--gpus", everything, "--", "sleep", "60")
    try:
        theirs = dromon("run", "-d", "--gpus", everything, "--", "true", env=other).stdout.strip()
        time.sleep(1)
        status = json.loads(dromon("ps", "-a", "-o", "json", env=other).stdout)
        assert [job["state"] for job in status] == ["queued"]
        dromon("stop", "--grace", "1", "@last")
        deadline = time.monotonic() + 30
        while "succeeded" not in dromon("ps", "-a", "-o", "json", env=other).stdout:
            assert time.monotonic() < deadline, dromon("why", theirs, env=other).stdout
            time.sleep(0.2)
    finally:
        dromon("daemon", "stop", env=other)


def seen_with(variables: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SEE], capture_output=True, text=True, check=True,
        env={**os.environ, **variables},
    )  # fmt: skip
    return done.stdout.strip()


def test_a_container_that_asked_for_none_sees_none(tmp_path):
    shown, held = devices.claim(0, devices.Locks(str(tmp_path)), {"job": "one"})
    assert held == []
    assert seen_with(shown) == "False 0"


def test_a_container_sees_as_many_as_it_asked_for_and_holds_them(tmp_path):
    locks = devices.Locks(str(tmp_path))
    shown, held = devices.claim(1, locks, {"job": "one"})
    assert len(held) == 1
    assert seen_with(shown) == "True 1"
    if len(DEVICES) > 1:
        other, more = devices.claim(1, locks, {"job": "two"})
        assert other["CUDA_VISIBLE_DEVICES"] != shown["CUDA_VISIBLE_DEVICES"]
        held += more
    free = [d for d in DEVICES if locks.holder(d.uuid) is None]
    assert len(free) == len(DEVICES) - len(held)
    for fd in held:
        os.close(fd)
    assert all(locks.holder(d.uuid) is None for d in DEVICES)
