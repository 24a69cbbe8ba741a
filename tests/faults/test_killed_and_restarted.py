"""Any process of ours killed, the machine restarted, the clock set: nothing is lost, nothing runs
twice, nobody is stuck."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bench import Bench, eventually, is_alive, processes, words

from dromon.agent import exitrecord

MEMBER = """
import os, sys, time
with open(sys.argv[1], "a") as ledger:
    ledger.write(os.environ["DROMON_MEMBER"] + "\\n")
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
"""


class Ledger:
    """Jobs that write one line when they start and end when they are told to."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.path = bench.folder.parent / "ledger"
        self.go = bench.folder.parent / "go"
        bench.write("member.py", MEMBER)

    def submit(self, *words: str) -> str:
        return self.bench.submit("member.py", *words, "--", str(self.path), str(self.go))

    def lines(self, id: str = "") -> list[str]:
        found = self.path.read_text().splitlines() if self.path.exists() else []
        return sorted(line for line in found if line.startswith(id))

    def until(self, id: str, count: int) -> None:
        eventually(lambda: len(self.lines(id)) >= count, lambda: f"{self.lines()}")

    def end(self, id: str) -> dict[str, object]:
        self.go.touch()
        return self.bench.over(id)


@pytest.fixture
def ledger(bench: Bench) -> Ledger:
    return Ledger(bench)


# ---- the launcher and the agents ----------------------------------------------------------------


def test_a_killed_launcher_is_replaced_and_its_agents_go_on(bench: Bench, ledger: Ledger):
    first = ledger.submit("-n", "2", "--cpus", "0.5")
    ledger.until(first, 2)
    launcher = bench.launcher()
    os.kill(launcher, signal.SIGKILL)
    eventually(lambda: not is_alive(launcher), "it lives on")
    second = ledger.submit("--cpus", "0.5")
    ledger.until(second, 1)
    assert bench.launcher() != launcher
    assert ledger.end(first)["state"] == "succeeded"
    assert bench.over(second)["state"] == "succeeded"
    assert ledger.lines() == sorted(
        [f"{first}/worker-0/1", f"{first}/worker-1/1", f"{second}/worker-0/1"]
    )


def test_a_launcher_killed_with_a_launch_in_its_hands_loses_nothing(bench: Bench, ledger: Ledger):
    bench("daemon", "start")  # no agent is idle, so that the launcher is needed
    launcher = bench.launcher()
    os.kill(launcher, signal.SIGSTOP)  # so that it has the message and does nothing about it
    id = ledger.submit()
    bench.until(id, "running")  # it stands at the barrier without its agent
    os.kill(launcher, signal.SIGKILL)
    ledger.until(id, 1)
    assert ledger.end(id)["state"] == "succeeded"
    assert ledger.lines() == [f"{id}/worker-0/1"]


def test_a_killed_agent_takes_its_member_along_and_the_job_says_so(bench: Bench, ledger: Ledger):
    id = ledger.submit("-n", "2", "--cpus", "0.5")
    ledger.until(id, 2)
    old = bench.members(id)
    assert len(old) == 2
    os.kill(bench.agent(id, "worker-1"), signal.SIGKILL)
    ledger.until(id, 4)  # a lost member costs no retry: the gang starts anew
    assert not [pid for pid in old if is_alive(pid)]
    timeline = bench.show(id)["timeline"]
    assert [e["detail"] for e in timeline if e["event"] == "MemberLost"] == [
        {"member": "worker-1", "run": 1, "message": "its agent was killed"}
    ]
    job = ledger.end(id)
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert len(ledger.lines()) == 4


def test_agent_and_daemon_killed_together_leave_no_member_behind(bench: Bench, ledger: Ledger):
    id = ledger.submit()
    ledger.until(id, 1)
    old = bench.members(id)
    bench.kill_daemon()
    os.kill(bench.agent(id), signal.SIGKILL)
    bench("ps")
    ledger.until(id, 2)
    assert not [pid for pid in old if is_alive(pid)]
    assert ledger.end(id)["state"] == "succeeded"


# ---- the machine and the clock ------------------------------------------------------------------


def set_clock(bench: Bench, boot: str | None = None, shift: float = 0.0) -> None:
    """What the journal would say had the last daemon lived in another boot, or under a clock that
    was set differently."""
    with sqlite3.connect(bench.home / "journal.db") as db:
        [value] = db.execute("SELECT value FROM meta WHERE key='clock'").fetchone()
        was, offset = value.split()
        new = f"{boot or was} {float(offset) + shift!r}"
        db.execute("UPDATE meta SET value=? WHERE key='clock'", (new,))
    db.close()


def reboot(bench: Bench, ids: list[str]) -> None:
    """Everything dies at once, and the boot that the journal and the claims tell of is over."""
    bench.kill_daemon()
    for pid in processes():
        if str(bench.home) in words(pid) and is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    for id in ids:
        root = Path(bench.record(id).root)
        for path in root.glob("*/claim"):
            claim = json.loads(path.read_text())
            if is_alive(claim["pid"]):
                os.kill(claim["pid"], signal.SIGKILL)
            path.write_text(json.dumps({**claim, "boot_id": "before"}))
        for pid in bench.members(id):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda id=id: not bench.members(id), "a killed member lives on")
    set_clock(bench, boot="before")


def test_after_a_reboot_running_jobs_start_anew_and_queued_ones_go_on(bench: Bench, ledger: Ledger):
    cpus = str(os.cpu_count())
    running = ledger.submit("--cpus", cpus)
    ledger.until(running, 1)
    queued = ledger.submit("--cpus", cpus)
    reboot(bench, [running, queued])
    bench("ps")
    ledger.until(running, 2)
    reasons = [e["detail"]["message"] for e in bench.show(running)["timeline"]
               if e["event"] == "MemberLost"]  # fmt: skip
    assert reasons == ["the machine was restarted"]
    job = ledger.end(running)
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert bench.over(queued)["state"] == "succeeded"
    assert ledger.lines(queued) == [f"{queued}/worker-0/1"]


def test_a_member_that_had_ended_before_the_reboot_is_not_run_again(bench: Bench, ledger: Ledger):
    """The daemon was dead already when it ended; only its exit record tells."""
    id = ledger.submit()
    ledger.until(id, 1)
    bench.kill_daemon()
    ledger.go.touch()
    exits, worker = bench.record(id).exits, ("worker-0", 1)
    eventually(lambda: exitrecord.find(exits, *worker) is not None, "no exit record")
    reboot_without_daemon(bench, id)
    assert bench.over(id)["state"] == "succeeded"
    assert ledger.lines() == [f"{id}/worker-0/1"]


def reboot_without_daemon(bench: Bench, id: str) -> None:
    pid = bench.agent(id)
    if is_alive(pid):
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_alive(pid), "a killed agent lives on")
    path = Path(bench.record(id).run("worker-0", 1), "claim")
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "before"}))
    set_clock(bench, boot="before")


@pytest.mark.parametrize("shift", [-86400.0, 86400.0])
def test_a_clock_that_was_set_between_two_daemons_makes_nothing_run_backwards(
    bench: Bench, ledger: Ledger, shift: float
):
    """The first daemon fixed its offset while the wall clock was a day off. What was begun then
    goes on in that time, no deadline jumps, and a job's times are in order."""
    bench("daemon", "start")
    bench.kill_daemon()
    set_clock(bench, shift=shift)
    id = ledger.submit("--max-duration", "1h")
    ledger.until(id, 1)
    bench.kill_daemon()
    bench("ps")
    job = ledger.end(id)
    assert job["state"] == "succeeded"
    assert ledger.lines() == [f"{id}/worker-0/1"]
    times = [each["time"] for each in bench.show(id)["timeline"]]
    assert times == sorted(times)
    assert job["submitted"] <= job["started"] <= job["ended"] < job["submitted"] + 3600
    assert abs(job["submitted"] - time.time() - shift) < 3600


# ---- daemons ------------------------------------------------------------------------------------


def test_of_many_daemons_started_at_once_one_serves(bench: Bench):
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda n: bench("run", "--cpus", "0.1", "--", "echo", str(n)),
                             range(4)))  # fmt: skip
    assert sorted(each.stdout for each in said) == [f"{n}\n" for n in range(4)]
    serving = [p for p in processes() if f"local.spawn --home {bench.home}" in words(p)]
    eventually(lambda: [p for p in serving if is_alive(p)] == [bench.daemon()],
               lambda: f"{[words(p) for p in serving]}")  # fmt: skip
    numbers = [job["number"] for job in json.loads(bench("ps", "-a", "-o", "json").stdout)]
    assert numbers == [1, 2, 3, 4]


NEWER = (
    "import sys, dromon; dromon.__version__ = '99.0'; from dromon.cli.main import main; "
    "sys.exit(main())"
)


def test_a_client_of_another_version_is_told_and_offered_the_restart(bench: Bench, ledger: Ledger):
    id = ledger.submit()
    ledger.until(id, 1)
    for command in (["run", "--", "true"], ["ps"], ["logs", "-f", id], ["stop", id]):
        done = subprocess.run(
            [sys.executable, "-c", NEWER, *command], capture_output=True, text=True, check=False,
            cwd=bench.folder, timeout=60,
        )  # fmt: skip
        assert done.returncode == 69, done.stderr
        assert "Dromon 0." in done.stderr
        assert "99.0" in done.stderr
        assert "hint: `dromon daemon restart`" in done.stderr
        assert "Traceback" not in done.stderr
    old = bench.daemon()
    bench("daemon", "restart")
    assert bench.daemon() != old
    assert ledger.end(id)["state"] == "succeeded"
    assert ledger.lines() == [f"{id}/worker-0/1"]
