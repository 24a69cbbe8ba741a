"""Programs that do what none should: the verdict is right, nothing survives, nothing stalls."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench import Bench, eventually, is_alive, peak_memory, words

MIB = 1 << 20


def test_one_that_ignores_sigterm_is_killed_after_its_grace(bench: Bench):
    bench.write(
        "deaf.py",
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\nwhile True: time.sleep(60)\n",
    )
    id = bench.submit("deaf.py")
    eventually(lambda: bench.text(id) == "deaf\n", "it never came up")
    bench("stop", id, "--grace", "1")
    job = bench.over(id)
    [member] = job["members"]
    assert (job["state"], job["verdict"]["cause"]) == ("stopped", "stopped")
    assert member["exit"]["signal"] == signal.SIGKILL
    assert "did not end within its grace and was killed" in member["exit"]["message"]
    assert bench.members(id) == []


DAEMONISE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600) # {mark}"],
                  {})
    os._exit(0)
os.wait()
time.sleep(0.2)
print("gone", flush=True)
"""


def test_one_that_daemonises_leaves_nothing_behind(bench: Bench):
    """The grandchild has a session of its own, no terminal, no output, not even an environment."""
    mark = bench.home.name
    bench.write("fork.py", DAEMONISE.replace("{mark}", mark))
    done = bench("run", "fork.py")
    assert done.stdout == "gone\n"
    assert "succeeded" in done.stderr
    left = [p for p in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in words(p)]
    assert not [p for p in left if "sleep(600)" in words(p) and is_alive(p)]


def test_one_that_closes_its_outputs_goes_on_to_its_own_end(bench: Bench):
    bench.write(
        "mute.py",
        "import os, time\nprint('last words', flush=True)\nos.close(1); os.close(2)\n"
        "time.sleep(0.3)\nopen(os.environ['DROMON_CHECKPOINT_DIR'] + '/end', 'w').close()\n"
        "os._exit(5)\n",
    )
    done = bench("run", "mute.py", code=5)
    assert done.stdout == "last words\n"
    id = bench.status("@last")["id"]
    assert os.path.exists(os.path.join(bench.record(id).checkpoints, "end"))


def test_bytes_that_are_no_text_reach_the_user_and_harm_nobody(bench: Bench):
    code = r"import os; os.write(1, b'a\xff\xfeb\n\x00\x1b[2J\n' + bytes(range(128, 256)) + b'\nz')"
    done = bench("run", "--", sys.executable, "-c", code)
    lines = done.stdout.splitlines()
    assert lines[0] == "a\ufffd\ufffdb"
    assert lines[-1] == "z"
    bench("logs", "@last", "-o", "json")
    bench("show", "@last", "-o", "json")


PRINTER = """
import os, sys
line = b"x" * 79 + b"\\n"
block = line * 12800
for _ in range(int(sys.argv[1])):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
open("printed", "w").close()
while not os.path.exists("seen"):
    __import__("time").sleep(0.01)
print("the end")
"""


def print_much(bench: Bench, megabytes: int) -> None:
    """Blocks of 1,024,000 bytes. What is held in memory stays below the agent's own limit of
    64 MiB and is given to the disk; the daemon never sees any of it."""
    bench.write("printer.py", PRINTER)
    id = bench.submit("printer.py", "--", str(megabytes))
    agent = bench.agent(id)
    work = Path(bench.record(id).work(1))
    eventually((work / "printed").exists, "it is stuck in printing")
    used = {"agent": peak_memory(agent), "daemon": peak_memory(bench.daemon())}
    (work / "seen").touch()
    job = bench.over(id)
    assert job["state"] == "succeeded", job["verdict"]
    assert used["agent"] < (64 + 64) * MIB, used
    assert 0 < used["daemon"] < 200 * MIB, used
    [exit] = [m["exit"] for m in job["members"]]
    size = os.path.getsize(bench.record(id).log("worker-0", 1))
    assert exit["dropped_lines"] == 0
    assert size == megabytes * 12800 * 80 + len("the end\n")
    assert bench("logs", id, "--tail", "1").stdout == "the end\n"


def test_fifty_megabytes_of_output_are_kept_in_constant_memory(bench: Bench):
    print_much(bench, 50)


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_gigabyte_of_output_is_kept_in_constant_memory(bench: Bench):
    print_much(bench, 1000)


FILL = """
import mmap, os, sys
fd = os.open("/dev/shm/tensor", os.O_RDWR | os.O_CREAT)
block = b"x" * (1 << 20)
for _ in range(64):
    os.write(fd, block)
print("had room")
"""


def can_unshare() -> bool:
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def test_a_full_shared_memory_is_named_in_the_verdict(bench: Bench):
    """On a /dev/shm of its own, so that the machine's memory is left alone."""
    if not can_unshare():
        pytest.skip("needs the right to make a mount namespace")
    bench.write("fill.py", FILL)
    mount = "mount -t tmpfs -o size=8m shm /dev/shm && exec python fill.py"
    bench("run", "--", "unshare", "-m", "sh", "-c", mount, code=1)
    job = bench.status("@last")
    assert "OSError: [Errno 28] No space left on device" in job["verdict"]["message"]


def has_cgroups(bench: Bench) -> bool:
    return "cgroup v" in bench("nodes").stdout


def test_a_member_over_its_memory_limit_is_out_of_memory_with_both_figures(bench: Bench):
    bench.write("job.yaml", (
        "resources: {memory: 64MiB}\n"
        "command: [python, -c, 'x = []\n\n  while True: x.append(bytearray(1 << 20))']\n"
    ))  # fmt: skip
    done = bench("run", "job.yaml", code=None)
    assert done.returncode not in (0, 70)
    job = bench.status("@last")
    assert (job["state"], job["verdict"]["cause"]) == ("failed", "out_of_memory"), job["verdict"]
    said = job["verdict"]["message"]
    assert re.search(r"used [\d.]+ MiB .* limit (is|of) 64.0 MiB", said), said
    assert said in done.stderr or "out of memory" in done.stderr


def test_a_child_killed_for_memory_is_the_members_cause_too(bench: Bench):
    """The kernel takes the biggest process; the shell above it only sees that it is gone."""
    if not has_cgroups(bench):
        pytest.skip("a single process is only killed by a cgroup, and none may be made here")
    bench.write("grow.py", "x = []\nwhile True: x.append(bytearray(1 << 20))\n")
    bench("run", "--memory", "64MiB", "--", "sh", "-c", "python grow.py; exit 9", code=9)
    job = bench.status("@last")
    assert (job["state"], job["verdict"]["cause"]) == ("failed", "out_of_memory"), job["verdict"]
    assert "its limit is 64.0 MiB" in job["verdict"]["message"]


def test_shared_memory_counts_against_the_limit_too(bench: Bench):
    if not has_cgroups(bench):
        pytest.skip("shared memory is only counted by cgroups, and none may be made here")
    if not can_unshare():
        pytest.skip("needs the right to make a mount namespace")
    bench.write("fill.py", FILL)
    mount = "mount -t tmpfs -o size=256m shm /dev/shm && exec python fill.py"
    bench("run", "--memory", "32MiB", "--", "unshare", "-m", "sh", "-c", mount, code=None)
    job = bench.status("@last")
    assert (job["state"], job["verdict"]["cause"]) == ("failed", "out_of_memory"), job["verdict"]


# ---- the barrier --------------------------------------------------------------------------------


def test_one_that_ends_at_once_leaves_the_other_to_the_jobs_time_limit(bench: Bench):
    """Rank 1 waits for ever for a rank 0 that has left in peace."""
    bench.write("job.yaml", (
        "name: pair\nreplicas: 2\nresources: {cpus: 0.5}\nmax_duration: 2s\nstop_grace: 1s\n"
        "command: 'test $DROMON_RANK = 0 || exec sleep 600'\n"
    ))  # fmt: skip
    bench("run", "job.yaml", code=None)
    job = bench.status("pair")
    assert (job["state"], job["verdict"]["cause"]) == ("failed", "timeout"), job["verdict"]
    by = {m["member"]: m["exit"] for m in job["members"]}
    assert by["worker-0"]["code"] == 0
    assert by["worker-1"]["stopped"]
    assert bench.members(job["id"]) == []


@pytest.fixture
def half_gang(bench: Bench) -> str:
    """A gang of two whose second member never reaches the barrier: its run is claimed by
    somebody (this very process) who does nothing with it."""
    from dromon.agent import claim

    blocker = bench.submit("--cpus", str(os.cpu_count()), "--", "sleep", "600")
    bench.until(blocker, "running")
    bench.write("job.yaml", (
        "name: half\nreplicas: 2\nframework: torch\nresources: {cpus: 0.5}\n"
        "command: echo started $DROMON_ATTEMPT; exec sleep 600\n"
    ))  # fmt: skip
    id = bench.submit("job.yaml")
    folder = bench.record(id).run("worker-1", 1)
    os.makedirs(folder)
    assert claim.take(folder)
    bench("stop", blocker, "--grace", "0")
    bench.over(blocker)
    bench.until(id, "starting")
    return id


def let_go(bench: Bench, id: str) -> None:
    """The claim of the second member is nobody's any more, as after the death of its agent."""
    dead = {"pid": 1, "start_ticks": 1, "boot_id": "another"}
    Path(bench.record(id).run("worker-1", 1), "claim").write_text(json.dumps(dead))


def both_ran(bench: Bench, id: str) -> None:
    eventually(lambda: len(bench.text(id).splitlines()) == 2, "the gang never gathered")
    assert {line.partition("| ")[2] for line in bench.text(id).splitlines()} == {"started 2"}
    bench("stop", id)
    assert bench.over(id)["state"] == "stopped"
    assert bench.members(id) == []


def test_a_gang_that_does_not_gather_starts_no_member_and_says_whom_it_waits_for(
    bench: Bench, half_gang: str
):
    bench.agent(half_gang)
    assert "waiting for worker-1" in bench("why", half_gang).stdout
    assert bench.members(half_gang) == []
    let_go(bench, half_gang)
    both_ran(bench, half_gang)


def test_an_agent_killed_while_it_waits_at_the_barrier_is_replaced(bench: Bench, half_gang: str):
    os.kill(bench.agent(half_gang), signal.SIGKILL)

    def said() -> bool:
        return any(e["event"] == "MemberLost" for e in bench.show(half_gang)["timeline"])

    eventually(said, "nobody noticed")
    assert bench.members(half_gang) == []
    let_go(bench, half_gang)
    both_ran(bench, half_gang)


@pytest.mark.parametrize("framework", ["torch", "none"])
def test_a_gang_that_never_gathers_can_be_stopped_and_never_starts_later(
    bench: Bench, framework: str
):
    """The launcher hangs, so that no agent ever comes; it wakes when the job is over. Where an
    agent has nothing to reserve, nobody waits for it at the barrier."""
    bench("daemon", "start")  # no agent of an earlier job is idle
    os.kill(bench.launcher(), signal.SIGSTOP)
    try:
        bench.write("job.yaml", (
            f"name: half\nreplicas: 2\nframework: {framework}\nresources: {{cpus: 0.5}}\n"
            "command: echo started; sleep 600\n"
        ))  # fmt: skip
        id = bench.submit("job.yaml")
        if framework == "none":
            bench.until(id, "running")
        else:
            bench.until(id, "starting")
            assert "waiting for worker-0, worker-1" in bench("why", id).stdout
        bench("stop", id)
        assert bench.over(id)["state"] == "stopped"
    finally:
        os.kill(bench.launcher(), signal.SIGCONT)
    assert bench("run", "--", "echo", "next").stdout == "next\n"
    assert bench.text(id) == ""
    assert bench.members(id) == []
