"""GPUs: names, variables, and the locks users share."""

import os
import subprocess
import sys
from pathlib import Path

from dromon.engines.local.gpus import Device, Locks, discover, visible


def device(index: int, name: str = "NVIDIA A100-SXM4-80GB", vendor: str = "nvidia") -> Device:
    return Device(index, f"GPU-{index}", name, 80 << 30, vendor)


def test_kinds_are_the_short_names_people_use():
    names = {
        "NVIDIA A100-SXM4-80GB": "a100",
        "NVIDIA H200": "h200",
        "Tesla V100-PCIE-16GB": "v100",
        "NVIDIA GeForce RTX 3090": "rtx3090",
        "Fake F100": "f100",
    }
    assert {name: device(0, name).kind for name in names} == names


def test_each_vendor_has_its_own_variable():
    assert visible([device(1), device(3)])["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert visible([device(0, "MI300X", "amd")])["HIP_VISIBLE_DEVICES"] == "0"


def test_a_member_without_gpus_sees_none():
    assert visible([]) == {"CUDA_VISIBLE_DEVICES": ""}


def test_fake_gpus_are_as_many_as_asked():
    assert [d.index for d in discover(3)] == [0, 1, 2]


def test_a_gpu_is_held_by_one_at_a_time_and_the_holder_is_known(tmp_path: Path):
    mine, theirs = Locks(str(tmp_path)), Locks(str(tmp_path))
    fd = mine.take("GPU-1", {"user": "ann", "job": "train-aaaaaa"})
    assert fd is not None
    assert theirs.take("GPU-1", {"user": "bob"}) is None
    assert theirs.holder("GPU-1") == {"user": "ann", "job": "train-aaaaaa"}
    other = theirs.take("GPU-2", {"user": "bob"})
    assert other is not None
    os.close(fd)
    assert theirs.holder("GPU-1") is None
    os.close(other)


def test_a_lock_is_held_as_long_as_any_process_has_its_descriptor(tmp_path: Path):
    locks = Locks(str(tmp_path))
    fd = locks.take("GPU-1", {})
    assert fd is not None
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        pass_fds=(fd,), stdin=subprocess.PIPE,
    )  # fmt: skip
    os.close(fd)
    assert locks.take("GPU-1", {}) is None
    child.communicate()
    again = locks.take("GPU-1", {})
    assert again is not None
    os.close(again)
