"""GPUs: names, variables, and the locks users share."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dromon.agent.devices import Device, Locks, allowed, discover, visible


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


def test_each_maker_has_its_own_variable():
    nvidia = [device(i) for i in range(4)]
    assert visible([nvidia[1], nvidia[3]], nvidia) == {
        "CUDA_VISIBLE_DEVICES": "1,3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    amd = [device(i, "MI300X", "amd") for i in range(4)]
    assert visible([amd[2]], amd) == {"HIP_VISIBLE_DEVICES": "2"}


def test_a_member_without_gpus_sees_none_of_those_there_are():
    assert visible([], [device(0)])["CUDA_VISIBLE_DEVICES"] == ""
    assert visible([], [device(0, "MI300X", "amd")]) == {"HIP_VISIBLE_DEVICES": "-1"}
    assert visible([], []) == {}


def test_where_the_kernel_hides_the_others_a_gpu_is_named_and_not_counted():
    two = [device(0), device(1)]
    assert visible([two[1]], two, gated=True)["CUDA_VISIBLE_DEVICES"] == two[1].uuid


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("2,0", [0, 2]),
        ("GPU-1", [1]),
        ("1,-1,2", [1]),
        ("NoDevFiles", []),
    ],
)
def test_what_is_hidden_from_the_daemon_is_not_handed_out(said, left):
    environ = {} if said is None else {"CUDA_VISIBLE_DEVICES": said}
    assert [d.index for d in allowed([device(i) for i in range(3)], environ)] == left


def test_one_makers_variable_hides_nothing_of_anothers():
    amd = device(0, "MI300X", "amd")
    assert allowed([amd], {"CUDA_VISIBLE_DEVICES": ""}) == [amd]
    assert allowed([amd], {"ROCR_VISIBLE_DEVICES": "1"}) == []


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


def test_a_lock_is_always_one_on_the_file_that_has_the_name_now(tmp_path: Path):
    """Old files in a temporary directory may be cleaned away; the name must stay the truth."""
    locks = Locks(str(tmp_path))
    first = locks.take("GPU-1", {"user": "ann"})
    os.unlink(tmp_path / "GPU-1.lock")
    second = locks.take("GPU-1", {"user": "bob"})
    assert second is not None
    assert locks.holder("GPU-1") == {"user": "bob"}
    os.close(first)
    assert locks.holder("GPU-1") == {"user": "bob"}
    os.close(second)


def test_whoever_asks_for_the_holder_does_not_make_a_gpu_look_taken(tmp_path: Path):
    """A reader has the lock for a moment; that is no reason to pass a free GPU over."""
    locks = Locks(str(tmp_path))
    script = (
        "import sys; from dromon.agent.devices import Locks\n"
        "locks = Locks(sys.argv[1]); print(flush=True)\n"
        "while True: locks.holder('GPU-1')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
    ) as reader:
        reader.stdout.readline()
        taken = 0
        for _ in range(50):
            fd = locks.take("GPU-1", {})
            if fd is not None:
                taken += 1
                os.close(fd)
        reader.kill()
    assert taken >= 45


def test_parts_of_a_gpu_are_held_together_where_somebody_counts_them(tmp_path: Path):
    counted, alone = Locks(str(tmp_path), together=True), Locks(str(tmp_path))
    first = counted.take("GPU-1", {"job": "a"}, part=True)
    second = counted.take("GPU-1", {"job": "b"}, part=True)
    assert first is not None
    assert second is not None
    assert alone.take("GPU-1", {"job": "c"}, part=True) is None, "nobody counts that one"
    assert counted.take("GPU-1", {"job": "d"}) is None
    os.close(second)
    assert alone.holder("GPU-1") == {"job": "b", "part": True}
    os.close(first)
    assert alone.holder("GPU-1") is None
    whole = counted.take("GPU-1", {"job": "d"})
    assert whole is not None
    assert counted.take("GPU-1", {"job": "e"}, part=True) is None
    os.close(whole)


def test_what_may_not_be_locked_is_held_by_its_owner(tmp_path: Path):
    locks = Locks(str(tmp_path))
    os.symlink("/etc/passwd", tmp_path / "GPU-1.lock")
    assert locks.take("GPU-1", {}) is None
    assert locks.holder("GPU-1") == {"user": pwd.getpwuid(os.getuid()).pw_name}
    assert Path("/etc/passwd").read_text()


def test_the_shared_directory_is_open_to_everybody_and_sticky(tmp_path: Path):
    locks = Locks(str(tmp_path / "shared"))
    os.close(locks.take("GPU-1", {}))
    assert os.stat(locks.root).st_mode & 0o7777 == 0o1777
    assert os.stat(tmp_path / "shared" / "GPU-1.lock").st_mode & 0o777 == 0o666


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")
def test_two_accounts_share_one_directory_of_locks():
    root = tempfile.mkdtemp(prefix="dromon-locks-", dir="/tmp")
    os.chmod(root, 0o1777)
    locks = Locks(root)

    def as_nobody(work: Callable[[], bool]) -> bool:
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            os._exit(0 if work() else 1)
        return os.waitpid(child, 0)[1] == 0

    fd = locks.take("GPU-1", {"user": "ann"})
    assert as_nobody(lambda: locks.take("GPU-1", {"user": "bob"}) is None)
    assert as_nobody(lambda: locks.holder("GPU-1") == {"user": "ann"})
    os.close(fd)
    assert as_nobody(lambda: locks.take("GPU-1", {"user": "bob"}) is not None)
    assert as_nobody(lambda: locks.take("GPU-2", {"user": "bob"}) is not None)
    for name in ("GPU-1", "GPU-2"):  # made by one, then by the other
        again = locks.take(name, {"user": "ann"})
        assert again is not None
        os.close(again)
    shutil.rmtree(root)
