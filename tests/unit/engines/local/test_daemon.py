"""The daemon's life: it leaves when idle, stays when told, and leaves nothing behind."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.engines.local.engine import LocalEngine


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    root = tempfile.mkdtemp(prefix="dromon-", dir="/tmp")
    made = LocalEngine(root)
    yield made
    found = made.client.ask_running("daemon_stop")
    if found is not None:
        made.client.wait_gone(int(found["pid"]))
    shutil.rmtree(root, ignore_errors=True)


def spawn(engine: LocalEngine, *options: str) -> int:
    """Start a daemon with these options; its process id, once it serves."""
    ready, theirs = os.pipe()
    command = [sys.executable, "-m", "dromon.engines.local.spawn", "--home", engine.home.root]
    subprocess.run([*command, *options, "--ready", str(theirs)], pass_fds=(theirs,), check=True)
    os.close(theirs)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    return int(engine.client.ask("daemon_status")["pid"])


def is_alive(pid: int) -> bool:
    """A process nobody has reaped yet is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_idle_daemon_leaves_by_itself_and_takes_its_sockets_along(engine):
    pid = spawn(engine, "--idle", "0.2")
    engine.client.wait_gone(pid)
    assert not is_alive(pid)
    assert not os.path.exists(engine.home.socket)
    assert engine.client.ask_running("daemon_status") is None


def test_a_daemon_with_a_job_does_not_leave(engine, on, tmp_path):
    pid = spawn(engine, "--idle", "0.2")
    id = on(engine, tmp_path).run("sleep 1; echo done")
    assert engine.wait(id, 60).state == "succeeded"
    assert [line.text for line in engine.logs(id, False)] == ["done"]
    engine.client.wait_gone(pid)
    assert not is_alive(pid)


def test_a_daemon_somebody_listens_to_does_not_leave(engine):
    pid = spawn(engine, "--idle", "0.2")
    with engine.client.connect():
        time.sleep(1)
        assert is_alive(pid)
    engine.client.wait_gone(pid)
    assert not is_alive(pid)


@pytest.mark.parametrize("told", ["at its start", "later"])
def test_a_daemon_told_to_stay_stays(engine, told):
    if told == "later":
        pid = spawn(engine, "--idle", "0.2")
        engine.client.ask("daemon_stay", stay=True)
    else:
        pid = spawn(engine, "--idle", "0.2", "--stay")
    time.sleep(1)
    assert is_alive(pid)
    engine.client.ask("daemon_stay", stay=False)
    engine.client.wait_gone(pid)
    assert not is_alive(pid)


def test_a_second_daemon_of_the_same_home_leaves_the_first_alone(engine):
    pid = spawn(engine)
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; from dromon.engines.local.daemon import main; "
         "sys.exit(main())", "--home", engine.home.root],
        timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0
    assert int(engine.client.ask("daemon_status")["pid"]) == pid


def test_stopping_the_daemon_leaves_jobs_running_and_the_next_one_takes_them_over(
    engine, on, tmp_path
):
    pid = spawn(engine)
    jobs = on(engine, tmp_path)
    go = tmp_path / "go"
    id = jobs.run(f"echo started; while ! test -e {go}; do sleep 0.05; done; echo over")
    jobs.until(id, "running")
    engine.client.ask("daemon_stop")
    engine.client.wait_gone(pid)
    go.touch()
    assert engine.wait(id, 60).state == "succeeded"
    assert [line.text for line in engine.logs(id, False)] == ["started", "over"]


def test_its_log_says_that_it_came_and_went(engine):
    pid = spawn(engine)
    engine.client.ask("daemon_stop")
    engine.client.wait_gone(pid)
    text = Path(engine.home.path("daemon.log")).read_text()
    assert f"serves {engine.home.root}" in text
    assert "daemon leaves" in text
