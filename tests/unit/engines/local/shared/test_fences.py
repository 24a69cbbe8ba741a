"""Gates of GPUs: whose file it is, that is who may open it. On real device nodes, as root."""

import os
import pwd
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.engines.local.shared.fences import Gates, device_files, handing_on, own_group, whose
from dromon.engines.local.shared.orders import EVERYBODY

ARBITER, ANN, BOB = 61001, 61002, 61003
NAMES = {"arbiter": ARBITER, "ann": ANN, "bob": BOB}


@pytest.fixture
def nodes() -> Iterator[Path]:
    """Two files as the driver makes them; behind them is /dev/null."""
    if os.getuid() != 0:
        pytest.skip("only root can make device nodes")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            for number in (0, 3):
                os.mknod(folder / f"nvidia{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
                os.chmod(folder / f"nvidia{number}", 0o666)
        except PermissionError:
            pytest.skip("no device nodes may be made here")
        (folder / "nvidiactl").touch()
        yield folder


def who(path: Path) -> list[str]:
    """Who can open it, to read and to write."""
    return [name for name, uid in NAMES.items() if opens(path, uid)]


def opens(path: Path, uid: int) -> bool:
    done = subprocess.run(
        ["bash", "-c", f": <>{path}"], user=uid, group=uid, extra_groups=[], cwd="/",
        capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode == 0


def test_only_its_user_and_the_arbiter_open_a_gpu(nodes):
    files = device_files(0, str(nodes))
    assert files == {0: f"{nodes}/nvidia0", 3: f"{nodes}/nvidia3"}
    if who(nodes / "nvidia0") != ["arbiter", "ann", "bob"]:
        pytest.skip("no device nodes may be opened here")
    gates = Gates(files, ARBITER)
    assert who(nodes / "nvidia0") == ["arbiter"]
    gates.give(0, ANN)
    gates.give(7, ANN)  # there is no such GPU
    assert who(nodes / "nvidia0") == ["arbiter", "ann"]
    assert who(nodes / "nvidia3") == ["arbiter"]
    gates.give(3, EVERYBODY)  # several have parts of it
    assert who(nodes / "nvidia3") == ["arbiter", "ann", "bob"]
    gates.take(0)
    assert who(nodes / "nvidia0") == ["arbiter"]
    gates.open()
    found = {(p.stat().st_uid, p.stat().st_mode & 0o777) for p in nodes.glob("nvidia?")}
    assert found == {(0, 0o666)}


def test_who_has_a_gpu_cannot_open_it_to_others(nodes):
    """As NVIDIA's libraries try to, in the hands of whoever uses them."""
    Gates(device_files(0, str(nodes)), ARBITER).give(0, ANN)
    if (nodes / "nvidia0").stat().st_uid == ANN:
        pytest.skip("this filesystem has no access control lists")
    for command in (f"chmod 666 {nodes}/nvidia0", f"setfacl -m o:rw {nodes}/nvidia0"):
        subprocess.run(
            ["bash", "-c", command], user=ANN, group=ANN, extra_groups=[], cwd="/",
            capture_output=True, check=False,
        )  # fmt: skip
    assert who(nodes / "nvidia0") == ["arbiter", "ann"]


def test_a_gate_that_the_driver_opens_again_is_closed(nodes):
    gates = Gates(device_files(0, str(nodes)), ARBITER)
    gates.give(0, ANN)
    os.chown(nodes / "nvidia0", 0, 0)
    os.chmod(nodes / "nvidia0", 0o666)
    assert whose(str(nodes / "nvidia0")) == EVERYBODY
    gates.look()
    assert who(nodes / "nvidia0") == ["arbiter", "ann"]


def test_in_the_wardens_next_life_running_members_keep_their_gpus(nodes):
    Gates(device_files(0, str(nodes)), ARBITER).give(0, ANN)
    gates = Gates(device_files(0, str(nodes)), ARBITER)
    assert who(nodes / "nvidia0") == ["arbiter", "ann"]
    assert who(nodes / "nvidia3") == ["arbiter"]
    gates.open()
    assert who(nodes / "nvidia0") == ["arbiter", "ann", "bob"]


def test_it_is_said_where_the_driver_may_undo_it(nodes, tmp_path):
    said = tmp_path / "params"
    files = device_files(0, str(nodes))
    said.write_text("ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\n")
    assert "NVreg_ModifyDeviceFiles=0" in Gates(files, ARBITER, str(said)).words["gpus"]
    said.write_text("ModifyDeviceFiles: 0\n")
    assert "NVreg" not in Gates(files, ARBITER, str(said)).words["gpus"]
    assert Gates({}).words == {}


def test_a_group_that_others_share_opens_nothing_for_the_arbiter():
    counts: dict[int, list[pwd.struct_passwd]] = {}
    for each in pwd.getpwall():
        counts.setdefault(each.pw_gid, []).append(each)
    shared = next((users for users in counts.values() if len(users) > 1), None)
    if shared is None:
        pytest.skip("no two accounts here share a group")
    assert own_group(shared[0]) is None


# ---- cgroups of version 2 -----------------------------------------------------------------------


def group(path: Path, controllers: str, handed_on: str = "") -> Path:
    """A group on paper; the files of the kernel's are written in the same way."""
    path.mkdir()
    (path / "cgroup.controllers").write_text(controllers)
    (path / "cgroup.subtree_control").write_text(handed_on)
    return path


def test_one_above_us_that_hands_its_controllers_on_is_left_as_it_is(tmp_path):
    root = group(tmp_path / "root", "cpu memory", "cpu memory")
    slice = group(root / "slice", "cpu memory", "memory cpu pids")
    own = group(slice / "unit", "cpu memory")
    assert handing_on(str(own), str(root)) == str(slice)
    assert (slice / "cgroup.subtree_control").read_text() == "memory cpu pids"
    assert not (own / "arbiter").exists()


def test_our_own_group_hands_its_controllers_on_and_is_left_by_us(tmp_path):
    root = group(tmp_path / "root", "cpu memory", "memory")
    own = group(root / "unit", "cpu memory")
    assert handing_on(str(own), str(root)) == str(own)
    assert (own / "cgroup.subtree_control").read_text() == "+memory +cpu"
    assert (own / "arbiter" / "cgroup.procs").read_text() == str(os.getpid())


def test_where_ours_was_given_none_the_nearest_above_that_has_them_is_taken(tmp_path):
    root = group(tmp_path / "root", "cpu io memory")
    own = group(group(root / "container", "") / "task", "")
    assert handing_on(str(own), str(root)) == str(root)
    assert not (own / "arbiter").exists()
    assert (root / "cgroup.subtree_control").read_text() == "+memory +cpu"


def test_where_nobody_has_them_there_are_none_and_it_is_said(tmp_path):
    root = group(tmp_path / "root", "hugetlb")
    with pytest.raises(OSError, match="no cgroup above this process hands on"):
        handing_on(str(group(root / "own", "hugetlb")), str(root))
