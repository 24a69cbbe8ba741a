import os
import signal
import subprocess
import sys
import time

import pytest

from dromon.agent import memory, process


def test_program_is_searched_in_the_members_own_path(tmp_path):
    program = tmp_path / "bin" / "tool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert process.find_program("tool", {"PATH": f"/nowhere:{program.parent}"}, "/") == str(program)
    assert process.find_program("./x", {}, "/work") == "/work/./x"
    with pytest.raises(FileNotFoundError):
        process.find_program("tool", {"PATH": "/nowhere"}, "/")
    program.chmod(0o644)
    with pytest.raises(PermissionError):
        process.find_program("tool", {"PATH": str(program.parent)}, "/")


@pytest.mark.parametrize("cgroups", [False, True])
def test_spawned_process_inherits_only_what_is_meant_for_it(tmp_path, cgroups):
    (tmp_path / "cgroup.procs").write_text("")
    kept, other = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(kept, True)
    out = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    before = os.getcwd()
    try:
        pid = process.spawn(
            "/bin/sh", ["sh", "-c", "echo $A $PWD; ls /proc/$$/fd"],
            {"A": "b", "PATH": os.environ["PATH"]}, str(tmp_path), out, out,
            [str(tmp_path)] if cgroups else [],
        )  # fmt: skip
    finally:
        os.chdir(before)
    assert os.waitpid(pid, 0)[1] == 0
    first, *fds = (tmp_path / "out").read_text().split("\n")
    assert first == f"b {tmp_path}"
    assert str(kept) in fds
    assert str(other) not in fds
    assert (tmp_path / "cgroup.procs").read_text() == ("0" if cgroups else "")
    for fd in (kept, other, out):
        os.close(fd)


@pytest.mark.parametrize("cgroups", [False, True])
def test_failed_start_raises_what_exec_says(tmp_path, cgroups):
    (tmp_path / "cgroup.procs").write_text("")
    before = os.getcwd()
    try:
        with pytest.raises(FileNotFoundError):
            process.spawn("/no/such", ["x"], {}, "/", 1, 2, [str(tmp_path)] if cgroups else [])
    finally:
        os.chdir(before)


def test_descendants_are_found_to_the_last():
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n    if os.fork() == 0: pass\n"
        "os.write(1, b'up\\n'); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    for _ in range(3):
        assert parent.stdout.readline() == b"up\n"
    found = process.descendants(parent.pid)
    assert len(found) == 2
    assert sorted(process._descendants_by_parent(parent.pid)) == sorted(found)
    used = memory.use([parent.pid, *found])
    assert used.memory > 3_000_000
    assert memory.exact([parent.pid, *found]) < used.memory
    for pid in [*found, parent.pid]:
        os.kill(pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()


def test_start_ticks_tell_processes_apart():
    child = subprocess.Popen(["sleep", "60"])
    ticks = process.start_ticks(child.pid)
    assert ticks > process.start_ticks(os.getpid()) > 0
    child.kill()
    while process.start_ticks(child.pid):  # a zombie counts as gone
        time.sleep(0.005)
    child.wait()
    assert process.start_ticks(child.pid) == 0


def test_survivor_is_found_by_its_whole_marker():
    child = subprocess.Popen(["sleep", "60"], env={process.MARKER: "job-x/worker-0/12"})
    try:
        assert process.survivors("job-x/worker-0/1") == []
        while process.survivors("job-x/worker-0/12") != [child.pid]:  # its exec is not done yet
            time.sleep(0.005)
    finally:
        assert process.kill_survivors("job-x/worker-0/12") == []
        assert child.wait() == -signal.SIGKILL


def test_out_of_memory_counters_of_both_cgroup_versions(tmp_path):
    (tmp_path / "v2").mkdir()
    (tmp_path / "v1").mkdir()
    (tmp_path / "v2" / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "v1" / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 5\n")
    both = [str(tmp_path / "v2"), str(tmp_path / "v1"), str(tmp_path / "none")]
    assert memory.oom_kills(both) == 7
    assert memory.machine_oom_kills() >= 0
    assert memory.peak(both) == 0
    (tmp_path / "v2" / "memory.peak").write_text("5000\n")
    (tmp_path / "v1" / "memory.max_usage_in_bytes").write_text("7000\n")
    assert memory.peak(both) == 7000
