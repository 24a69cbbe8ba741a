"""A machine that root shares: members begin as their user, inside fences that hold.

Pretended GPUs have pretended device files here; the kernel's rules for files are the real ones.
"""

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import eventually, is_alive
from people import Machine, User, end_all

from dromon.engines.local.shared.fences import whose

SMALL = ("--cpus", "0.1", "queue=research")


@pytest.fixture
def fenced(machine: Machine) -> Iterator[Machine]:
    """Root's arbiter, under the keeper's account, in the foreground as a container runs it."""
    devices = machine.folder / "devices"
    devices.mkdir()
    for number in range(2):
        make_node(devices / f"FAKE-{number}")
    process = share(machine)
    try:
        eventually((machine.place / "arbiter.sock").exists, "no arbiter came")
        yield machine
    finally:
        end_all({machine.ann.uid, machine.bob.uid})  # so that nobody is in a cgroup any more
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(30)
        remove_cgroups(machine)


def share(machine: Machine) -> "subprocess.Popen[bytes]":
    env = {
        **machine.ann.env, "HOME": "/root", "DROMON_HOME": str(machine.folder / "root"),
        "DROMON_ACCOUNT": machine.keeper.name, "ROOTS_OWN": "secret",
        "DROMON_FAKE_DEVICES": str(machine.folder / "devices"),
    }  # fmt: skip
    return subprocess.Popen(
        [machine.ann.python, "-m", "dromon.cli", "daemon", "share", "--foreground"],
        env=env,
        cwd="/",
    )


def arbiter_of(machine: Machine) -> int:
    return int((machine.folder / "root/shared/arbiter.pid").read_text())


def make_node(path: Path) -> None:
    """A device as the driver makes it, /dev/null behind it; a file where no nodes may be made."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        path.touch()
    path.chmod(0o666)


def remove_cgroups(machine: Machine) -> None:
    """Of users who will not come again, whose members outlived the arbiter."""
    for user in machine.users:
        for folder in Path("/sys/fs/cgroup").glob(f"**/dromon/{user.uid}"):
            for path, _, _ in os.walk(folder, topdown=False):
                os.rmdir(path)
            if not [each for each in folder.parent.iterdir() if each.is_dir()]:
                folder.parent.rmdir()


def printed(user: User, *words: str) -> str:
    return user("run", *words).stdout


def test_members_of_a_shared_machine_are_their_users_and_nobody_elses(fenced: Machine):
    ann, bob = fenced.ann, fenced.bob
    devices = fenced.folder / "devices"
    script = (
        "id -un; id -Gn; umask; cat /proc/self/status | grep -E '^(Cap(Eff|Prm)|NoNewPrivs)';"
        f"for n in 0 1; do (: <>{devices}/FAKE-$n) 2>/dev/null && echo opened $n; done; env"
    )
    said = printed(ann, "--gpus", "1", *SMALL, "--", "bash", "-c", script)
    lines = said.splitlines()
    assert lines[:2] == [ann.name, ann.name]
    assert "CapEff:\t0000000000000000" in lines
    assert "CapPrm:\t0000000000000000" in lines
    opened = [line for line in lines if line.startswith("opened")]
    assert opened == ["opened 0"], "one GPU is hers, the other nobody's"
    assert "ROOTS_OWN" not in said

    # While it is hers it is nobody else's, also not of who uses no Dromon at all.
    id = ann.submit("--gpus", "1", *SMALL, "--", "sleep", "600")
    ann.until(id, "running")
    try_all = f"for n in 0 1; do : <>{devices}/FAKE-$n; done"
    assert "Permission denied" in bob.run("bash", "-c", try_all).stderr
    assert whose(str(devices / "FAKE-0")) == ann.uid
    ann("stop", id, "--grace", "0")
    eventually(lambda: whose(str(devices / "FAKE-0")) == 0, "it stays hers")


def test_daemons_hear_from_the_arbiter_which_gpus_there_are(fenced: Machine):
    ann = fenced.ann
    ann.env = {k: v for k, v in ann.env.items() if k != "DROMON_FAKE_GPUS"}  # she finds none
    said = printed(ann, "--gpus", "1", *SMALL, "--", "printenv", "CUDA_VISIBLE_DEVICES")
    assert said == "0\n"
    (node,) = json.loads(ann("nodes", "-o", "json").stdout)
    assert node["total"]["gpus"] == 2
    assert any("by the device file" in note for note in node["notes"])


def test_a_gate_opened_behind_roots_back_is_closed_again(fenced: Machine):
    ann, bob, gate = fenced.ann, fenced.bob, fenced.folder / "devices/FAKE-0"
    id = ann.submit("--gpus", "1", *SMALL, "--", "sleep", "600")
    ann.until(id, "running")
    os.chown(gate, 0, 0)
    gate.chmod(0o666)  # as the helper of NVIDIA's driver does
    eventually(lambda: whose(str(gate)) == ann.uid, "it stays open")
    assert "Permission denied" in bob.run("bash", "-c", f": <>{gate}").stderr


def test_memory_of_a_users_members_is_limited_by_root_where_the_kernel_lets_it(fenced: Machine):
    ann = fenced.ann
    notes = json.loads(ann("nodes", "-o", "json").stdout)[0]["notes"]
    if not any("for all members of a user together" in note for note in notes):
        pytest.skip("root may make no cgroup here")
    said = printed(ann, "--memory", "100MiB", *SMALL, "--", "cat", "/proc/self/cgroup")
    own = next(line for line in said.splitlines() if f"/dromon/{ann.uid}/" in line)
    controllers, path = own.split(":", 2)[1:]
    id = ann.submit("--memory", "100MiB", *SMALL, "--", "sleep", "600")
    ann.until(id, "running")
    version1 = controllers == "memory"
    mount = Path("/sys/fs/cgroup") / ("memory" if version1 else "")
    folder = mount / path.lstrip("/").partition(f"/{ann.uid}/")[0] / str(ann.uid)
    limit = folder / ("memory.limit_in_bytes" if version1 else "memory.max")
    assert int(limit.read_text()) == (100 << 20) + (64 << 20)
    # It is hers to divide, and not hers to raise.
    assert ann.run("mkdir", str(folder / "own")).returncode == 0
    assert ann.run("bash", "-c", f"echo 1000000000 >{limit}").returncode != 0
    (folder / "own").rmdir()


def test_members_outlive_the_arbiter_and_root_reads_not_a_word(fenced: Machine):
    ann, bob = fenced.ann, fenced.bob
    id = ann.submit("--gpus", "1", *SMALL, "--", "sleep", "600")
    ann.until(id, "running")
    launcher = str(fenced.place / "launcher.sock")
    say = (
        "import os, socket, sys\n"
        "with socket.socket(socket.AF_UNIX) as sock:\n"
        "    sock.connect(sys.argv[1])\n"
        "    sock.sendall(os.urandom(100000))\n"
        "    sock.settimeout(10)\n"
        "    print(sock.recv(100).decode())\n"
    )
    assert bob.run(bob.python, "-c", say, launcher).returncode == 0
    arbiter = arbiter_of(fenced)
    assert os.stat(f"/proc/{arbiter}").st_uid == fenced.keeper.uid, "only the launcher is root's"
    os.kill(arbiter, signal.SIGTERM)
    eventually(lambda: not is_alive(arbiter), "it does not leave")
    assert ann.state(id) == "running"


def test_roots_part_killed_and_started_again_finds_members_and_gates_as_they_were(fenced: Machine):
    ann, gate = fenced.ann, fenced.folder / "devices/FAKE-0"
    id = ann.submit("--gpus", "1", *SMALL, "--", "sleep", "600")
    ann.until(id, "running")
    arbiter = arbiter_of(fenced)
    root = int(Path(f"/proc/{arbiter}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(root, signal.SIGKILL)
    eventually(lambda: not is_alive(arbiter), "an arbiter without root's part stays")
    again = share(fenced)  # as systemd does
    try:
        eventually(lambda: arbiter_of(fenced) != arbiter, "no arbiter came")
        assert ann.state(id) == "running"
        assert whose(str(gate)) == ann.uid
        second = ann.submit("--gpus", "1", *SMALL, "--", "true")
        ann.until(second, "succeeded")
    finally:
        again.send_signal(signal.SIGTERM)
        again.wait(30)
