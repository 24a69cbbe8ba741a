"""A command's side of the socket: the daemon is started once, and its words come through."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dromon.engines.home import Home
from dromon.engines.local.client import Client, Talk, WentAway
from dromon.errors import DaemonUnreachable, StateDirectoryUnusable, UsageError


def test_many_commands_at_once_start_one_daemon(serve):
    script = (
        "import sys\n"
        "from dromon.engines.local.client import Client\n"
        "from dromon.engines.home import Home\n"
        "print(Client(Home(sys.argv[1])).ask('daemon_status')['pid'])\n"
    )
    with serve() as engine:
        started = [
            subprocess.Popen([sys.executable, "-c", script, engine.home.root],
                             stdout=subprocess.PIPE, text=True)
            for _ in range(6)
        ]  # fmt: skip
        pids = {each.communicate()[0].strip() for each in started}
    assert len(pids) == 1
    assert pids != {""}


def test_a_daemon_that_is_leaving_is_waited_for_and_followed_by_another(serve):
    with serve() as engine:
        for _ in range(5):
            pid = int(engine.client.ask("daemon_status")["pid"])
            os.kill(pid, signal.SIGTERM)
            assert int(engine.client.ask("daemon_status")["pid"])
        engine.client.wait_gone(pid)
        assert int(engine.client.ask("daemon_status")["pid"]) != pid


def test_a_killed_daemon_is_replaced_and_knows_what_the_last_one_accepted(serve, on, tmp_path):
    with serve() as engine:
        jobs = on(engine, tmp_path)
        id = jobs.run("echo alive")
        os.kill(int(engine.client.ask("daemon_status")["pid"]), signal.SIGKILL)
        assert engine.wait(id, 60).state == "succeeded"


def test_asking_a_running_daemon_only_starts_none(tmp_path: Path):
    client = Client(Home(str(tmp_path / "home")))
    assert client.ask_running("daemon_status") is None
    with pytest.raises(DaemonUnreachable, match="no daemon runs"):
        client.connect(start=False)
    assert not (tmp_path / "home" / "journal.db").exists()


def test_why_a_daemon_cannot_start_comes_through_in_its_own_words(serve):
    with serve() as engine:
        root = Path(engine.home.root)
        (root / "journal.db").write_bytes(b"this is no database, but it is long enough" * 100)
        with pytest.raises(StateDirectoryUnusable, match="cannot open the journal"):
            engine.client.ask("daemon_status")
        said = json.loads((root / "daemon.error").read_text())
        assert said["error"] == "StateDirectoryUnusable"


def test_a_daemon_that_dies_of_something_else_is_told_by_its_last_line(serve):
    with serve() as engine:
        os.mkdir(engine.home.path("daemon.log"))  # where a file should be
        with pytest.raises(StateDirectoryUnusable, match="ended at once") as dead:
            engine.client.ask("daemon_status")
        assert "daemon.crash" in dead.value.hint


def test_the_daemon_gets_nothing_secret_from_whoever_starts_it(serve, monkeypatch):
    monkeypatch.setenv("CANARY_TOKEN", "canary-in-the-environment")
    with serve() as engine:
        pid = engine.client.ask("daemon_status")["pid"]
        assert b"canary" not in Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.parametrize("said", ["many", "-1", "1.5"])
def test_a_wrong_number_of_fake_gpus_is_a_mistake_in_words(serve, monkeypatch, said):
    monkeypatch.setenv("DROMON_FAKE_GPUS", said)
    with serve() as engine, pytest.raises(UsageError, match="DROMON_FAKE_GPUS"):
        engine.client.ask("daemon_status")


def test_fake_gpus_come_from_the_environment(serve, monkeypatch):
    monkeypatch.setenv("DROMON_FAKE_GPUS", "3")
    with serve() as engine:
        assert engine.nodes()[0].total["gpus"] == 3


def test_a_daemon_that_hangs_up_is_noticed(tmp_path: Path):
    ours, theirs = socket.socketpair()
    talk = Talk(ours)
    theirs.sendall(b"\0\0\0\x10half of it")
    theirs.close()
    with pytest.raises(WentAway):
        talk.answer()
    talk.close()


def test_an_answer_may_come_in_pieces():
    ours, theirs = socket.socketpair()
    body = json.dumps({"ok": True, "text": "x" * 100_000}).encode()

    def slowly() -> None:
        whole = len(body).to_bytes(4, "big") + body
        for start in range(0, len(whole), 9_999):
            theirs.sendall(whole[start : start + 9_999])

    sender = threading.Thread(target=slowly)
    sender.start()
    with Talk(ours) as talk:
        assert len(talk.answer()["text"]) == 100_000
    sender.join()
    theirs.close()
