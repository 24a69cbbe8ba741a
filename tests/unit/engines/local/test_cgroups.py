"""Memory limits by the kernel, where this user may set them."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from dromon.engines.local.cgroups import Cgroups

LIMIT = 48 << 20
GREEDY = "data = bytearray(200 << 20); print(len(data))"


@pytest.fixture
def cgroups() -> Cgroups:
    found = Cgroups.probe()
    if found is None:
        pytest.skip("no cgroup may be made here")
    return found


def inside(path: str, script: str) -> "subprocess.CompletedProcess[str]":
    join = f"echo $$ > {path}/cgroup.procs && exec python3 -c '{script}'"
    return subprocess.run(["bash", "-c", join], capture_output=True, text=True)


def test_where_nothing_is_mounted_there_is_none(tmp_path: Path):
    assert Cgroups.probe(str(tmp_path)) is None


def test_a_directory_that_only_looks_like_one_is_found_out(tmp_path: Path):
    """The probe puts a process into it and asks the kernel where that process is."""
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "memory" in controllers.split(","):
                (tmp_path / "memory" / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
            if not controllers:
                (tmp_path / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    assert Cgroups.probe(str(tmp_path)) is None


def test_a_member_over_its_limit_is_ended_by_the_kernel(cgroups: Cgroups):
    path = cgroups.make(f"dromon-test-{os.getpid()}-over", LIMIT)
    ended = inside(path, GREEDY)
    assert ended.returncode == -9, ended.stderr
    cgroups.remove(path)
    assert not os.path.exists(path)


def test_a_member_under_its_limit_is_left_alone(cgroups: Cgroups):
    path = cgroups.make(f"dromon-test-{os.getpid()}-under", LIMIT)
    assert inside(path, "print(1)").stdout == "1\n"
    cgroups.remove(path)


def test_all_of_one_job_go_and_others_stay(cgroups: Cgroups):
    base = f"dromon-test-{os.getpid()}"
    mine = [cgroups.make(f"{base}-a-worker-{i}", LIMIT) for i in range(2)]
    other = cgroups.make(f"{base}-ab-worker-0", LIMIT)
    cgroups.remove_all(f"{base}-a-")
    assert [os.path.exists(p) for p in (*mine, other)] == [False, False, True]
    cgroups.remove(other)


def test_removing_what_is_gone_is_no_error(cgroups: Cgroups):
    cgroups.remove(os.path.join(cgroups.parent, "dromon-never-was"))


def test_a_job_over_its_memory_is_told_so_and_leaves_no_cgroup_behind(cgroups, local, jobs):
    """Also when the daemon that made it was killed meanwhile."""
    go = jobs.cwd.parent / "go"
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
    id = jobs.run("python3", "-c", wait + GREEDY, resources={"memory": LIMIT})
    jobs.until(id, "running")
    mine = [n for n in os.listdir(cgroups.parent) if n.startswith(f"dromon-{id}-")]
    assert len(mine) == 1
    os.kill(int(local.client.ask("daemon_status")["pid"]), 9)
    go.touch()
    status = local.wait(id, 60)
    assert (status.state, status.verdict["cause"]) == ("failed", "out_of_memory")
    deadline = time.monotonic() + 10
    while os.path.exists(os.path.join(cgroups.parent, mine[0])) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(os.path.join(cgroups.parent, mine[0]))
