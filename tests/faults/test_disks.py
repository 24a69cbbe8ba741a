"""State directories that are full, read-only or on a network: said in words, and nothing is lost.

A real network filesystem cannot be had in a test: for NFS only the pure function is shown, on the
text the kernel gives for such a mount; what it leads to is the same refusal as for the others.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench import Bench, eventually

from dromon.engines.home import NETWORK_FILESYSTEMS, filesystem_of

MIB = 1 << 20


@pytest.fixture
def mount(home: Path) -> Iterator[Callable[..., None]]:
    """`mount(*words)`, undone at the end, after the daemon has left."""
    places: list[str] = []

    def on(*words: str) -> None:
        done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"may not mount here: {done.stderr.strip()}")
        places.append(words[-1])

    yield on
    daemon = Path(home, "daemon.pid")
    if daemon.exists():
        pid = daemon.read_text().strip()
        subprocess.run(["kill", pid], capture_output=True, check=False)
        eventually(lambda: not is_daemon(pid, home), "the daemon does not leave")
    for place in reversed(places):
        subprocess.run(["umount", "-l", place], capture_output=True, check=False)


def is_daemon(pid: str, home: Path) -> bool:
    try:
        return str(home).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def fill(folder: Path) -> Path:
    """A file that takes all room that is left."""
    ballast = folder / "ballast"
    with open(ballast, "wb") as file:
        try:
            while True:
                file.write(bytes(64 * 1024))
                file.flush()
        except OSError:
            pass
    with open(ballast, "ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x")
        except OSError:
            return ballast


@pytest.fixture
def small(bench: Bench, mount: Callable[..., None]) -> Bench:
    """A bench whose state directory has 16 MiB."""
    mount("-t", "tmpfs", "-o", "size=16m,mode=700", "dromon-test", str(bench.home))
    return bench


def test_a_full_disk_refuses_a_submit_in_words_and_nothing_is_half_accepted(small: Bench):
    assert small("run", "--", "echo", "1").stdout == "1\n"
    small.write("data.bin", os.urandom(2 * MIB))
    ballast = fill(small.home)
    refused = small("run", "--", "echo", "2", code=None, env={"CANARY": "a-secret-value"})
    assert refused.returncode in (65, 69), refused.stderr
    assert "No space left" in refused.stderr or "full" in refused.stderr
    assert "hint: " in refused.stderr
    (small.folder / "data.bin").unlink()
    words = ("run", "--secret", "CANARY", "--", "echo", "3")
    refused = small(*words, code=None, env={"CANARY": "a-secret-value"})
    assert refused.returncode in (65, 69), refused.stderr
    assert "hint: " in refused.stderr
    assert os.listdir(small.home / "secrets") == []
    assert len(small("ps", "-a").stdout.splitlines()) == 2, "a heading and the first job"
    ballast.unlink()
    assert small("run", "--", "echo", "4").stdout == "4\n"


def test_a_disk_that_is_full_from_the_start_is_told(small: Bench):
    ballast = fill(small.home)
    said = small("run", "--", "true", code=69).stderr
    assert "No space left on device" in said
    assert "hint: " in said
    ballast.unlink()
    small("run", "--", "true")


def test_a_job_whose_disk_fills_up_still_ends_with_its_own_verdict(small: Bench):
    """Neither its output nor its exit record nor the journal has room; once there is some, all is
    as if nothing had been, but for the lines that say what was dropped."""
    small.write("train.py", (
        "import os, sys, time\n"
        "go = sys.argv[1]\n"
        "print('begun')\n"
        "while not os.path.exists(go): time.sleep(0.02)\n"
        "for n in range(20000): print('x' * 79)\n"
        "raise SystemExit(7)\n"
    ))  # fmt: skip
    go = small.folder.parent / "go"
    id = small.submit("train.py", "--", str(go))
    eventually(lambda: small.text(id) == "begun\n", "it never came up")
    ballast = fill(small.home)
    daemon = small.daemon()
    go.touch()
    eventually(lambda: not small.members(id), "it is stuck in printing")
    small("ps", code=0)
    ballast.unlink()
    job = small.over(id)
    assert (job["state"], job["verdict"]["code"]) == ("failed", 7), job["verdict"]
    [exit] = [m["exit"] for m in job["members"]]
    assert exit["dropped_lines"] > 0
    assert "No space left on device" in exit["message"]
    assert small.daemon() == daemon, "the daemon did not survive"
    assert small("run", "--", "echo", "next").stdout == "next\n"


def test_a_job_that_cannot_be_laid_out_fails_in_words_and_the_next_one_runs(small: Bench):
    """The disk fills up while it waits in the queue."""
    blocker = small.submit("--cpus", str(os.cpu_count()), "--", "sleep", "600")
    small.until(blocker, "running")
    small.write("data.bin", os.urandom(MIB))
    id = small.submit("--", "echo", "ran")
    (small.folder / "data.bin").unlink()
    ballast = fill(small.home)
    with open(ballast, "r+b") as file:
        file.truncate(ballast.stat().st_size - 256 * 1024)  # for the journal, not for the code
    small("stop", blocker, "--grace", "0")
    job = small.over(id)
    assert (job["state"], job["verdict"]["cause"]) == ("failed", "internal")
    assert "No space left on device" in job["verdict"]["message"]
    ballast.unlink()
    assert small("run", "--", "echo", "next").stdout == "next\n"


def test_a_read_only_state_directory_is_told_and_written_to_nowhere_else(
    bench: Bench, mount: Callable[..., None]
):
    mount("--bind", str(bench.home), str(bench.home))
    mount("-o", "remount,ro,bind", str(bench.home))
    for words in (("run", "--", "true"), ("ps",), ("daemon", "start")):
        said = bench(*words, code=69).stderr
        assert f"cannot use the state directory {bench.home}: Read-only file system" in said
        assert "hint: Point DROMON_HOME" in said


def test_a_state_directory_that_is_none_is_told(bench: Bench, tmp_path: Path):
    (tmp_path / "file").touch()
    said = bench("ps", code=69, env={"DROMON_HOME": str(tmp_path / "file")}).stderr
    assert "cannot use the state directory" in said
    assert "hint: " in said


def test_a_state_directory_taken_apart_under_the_daemon_is_told(bench: Bench):
    bench("run", "--", "true")
    shutil.rmtree(bench.home / "blobs")
    shutil.rmtree(bench.home / "secrets")
    bench.write("data.bin", b"x")
    said = bench("run", "--secret", "A", "--", "true", code=None, env={"A": "value"})
    assert said.returncode in (65, 69), said.stderr
    assert "No such file or directory" in said.stderr
    assert "hint: " in said.stderr
    bench("ps", "-a")


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "cifs", "lustre", "fuse.sshfs"])
def test_a_network_filesystem_is_recognised(kind: str):
    mountinfo = (
        "22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
        f"90 22 0:52 / /home rw,relatime shared:47 - {kind} server:/export rw,vers=4.2\n"
        "91 90 0:53 / /home/me/fast\\040disk rw - xfs /dev/sdb1 rw\n"
    )
    assert filesystem_of("/home/me/.local/state/dromon", mountinfo) == kind
    assert kind in NETWORK_FILESYSTEMS
    assert filesystem_of("/home/me/fast disk/dromon", mountinfo) == "xfs"
    assert filesystem_of("/homely", mountinfo) == "ext4"


@pytest.mark.faults
def test_a_slow_disk_lays_the_code_out_once(bench: Bench):
    """The daemon looks after members nobody hears of every two seconds; copying may take longer.
    A blob that is a pipe stands for the slow disk."""
    blocker = bench.submit("--cpus", str(os.cpu_count()), "--", "sleep", "600")
    bench.until(blocker, "running")
    bench.write("data.bin", b"from the pipe\n")
    id = bench.submit("--", "cat", "data.bin")
    [blob] = [p for p in (bench.home / "blobs").rglob("*")
              if p.is_file() and p.read_bytes() == b"from the pipe\n"]  # fmt: skip
    blob.unlink()
    os.mkfifo(blob)
    bench("stop", blocker, "--grace", "0")
    bench.until(id, "starting")
    time.sleep(5)  # several rounds
    with open(blob, "wb") as pipe:
        pipe.write(b"from the pipe\n")
    job = bench.over(id)
    assert job["state"] == "succeeded", job["verdict"]
    assert bench.text(id) == "from the pipe\n"
