"""Agent and coordinator: proofs, restarts on either side, leases, starting over."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

from dromon.agent.process import start_ticks
from dromon.agent.protocol import is_proof, proof

SLEEPS = "print('up'); import time; time.sleep(60)"


def test_proofs_of_the_two_sides_differ():
    nonces = ("a", "b")
    assert is_proof(proof(b"k", "agent", nonces), b"k", "agent", nonces)
    assert not is_proof(proof(b"k", "agent", nonces), b"k", "coordinator", nonces)
    assert not is_proof(proof(b"k", "agent", nonces), b"other", "agent", nonces)


def test_member_survives_its_coordinator_and_the_next_one_is_found(stage):
    first = stage.coordinator(epoch=1)
    stage.launch(stage.python(SLEEPS))
    pid = first.wait_for("started")["pid"]
    first.die()
    second = stage.coordinator(epoch=2)
    assert second.wait_for("started")["pid"] == pid
    assert second.said("hello")[0]["epoch"] == 2
    second.send({"op": "stop", "grace": 5.0, "reason": "stop"})
    assert second.wait_for("exited")["exit"]["cause"] == "stopped"


def test_exit_while_nobody_listens_is_told_to_the_next(stage):
    first = stage.coordinator(epoch=1)
    wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nraise SystemExit(6)"
    stage.launch(stage.python(wait))
    first.wait_for("started")
    first.die()
    (stage.work / "go").touch()
    assert stage.exit()["code"] == 6
    assert stage.claim().is_alive
    second = stage.coordinator(epoch=2)
    assert second.wait_for("exited")["exit"]["code"] == 6
    stage.wait_until_gone()


def test_exit_is_told_until_it_is_acknowledged(stage):
    first = stage.coordinator(epoch=1, dismisses=False)
    stage.launch(stage.plan(["true"]))
    first.wait_for("exited")
    first.die()
    second = stage.coordinator(epoch=2)
    second.wait_for("exited")
    stage.wait_until_gone()


def test_agent_waits_for_a_coordinator_that_is_not_there_yet(stage):
    stage.launch(stage.plan(["true"]))
    stage.claim()
    assert stage.play(stage.plan(["true"]))["code"] == 0


def test_coordinator_without_the_key_is_not_obeyed(stage):
    impostor = stage.coordinator(epoch=1, key=b"wrong", trusts=True)
    stage.launch(stage.plan(["true"]))
    impostor.wait_for("ready", 3)  # it comes back and back
    assert not impostor.said("started")
    impostor.die()
    stage.coordinator(epoch=2).wait_for("exited")


def test_talk_over_tcp(stage):
    assert stage.play(stage.plan(["true"]), tcp=True)["code"] == 0


def test_member_is_stopped_when_its_lease_runs_out(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.python(SLEEPS, lease=0.5, grace=0.1))
    coordinator.wait_for("started")
    coordinator.die()
    exit = stage.exit()
    assert (exit["cause"], exit["stopped"]) == ("lost", True)


def test_lease_is_renewed_by_answers(stage):
    coordinator = stage.coordinator()
    coordinator.renews = True
    stage.launch(stage.python("import time; time.sleep(1.5)", lease=0.8))
    assert stage.exit()["code"] == 0
    assert len(coordinator.said("alive")) > 3


def test_answer_counts_from_when_it_was_asked_for(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.python(SLEEPS, lease=1.0, grace=0.1))
    first = coordinator.wait_for("alive")
    while not (stage.directory() / "exit.json").exists():
        try:  # long on its way: said anew, it renews nothing
            coordinator.send({"op": "alive", "asked": first["asked"]})
        except (OSError, IndexError):
            break
        time.sleep(0.05)
    assert stage.exit()["cause"] == "lost"


def test_coordinator_that_welcomes_and_then_says_nothing_is_left_for_the_next(stage):
    silent = stage.coordinator(epoch=1)
    stage.launch(stage.python(SLEEPS, lease=4.0))
    silent.wait_for("started")
    following = stage.coordinator(epoch=2)
    following.renews = True
    following.wait_for("started")
    assert not (stage.directory() / "exit.json").exists()
    following.send({"op": "stop", "grace": 0.0, "reason": "stop"})
    following.wait_for("exited")


def test_agent_starts_over_in_place(stage):
    coordinator = stage.coordinator(dismisses=False)
    Path(stage.record.work(2)).mkdir(parents=True)
    stage.launch(stage.plan("pwd; exit $DROMON_RUN", ports=1))
    coordinator.wait_for("exited")
    first = stage.claim(1)
    coordinator.send({"op": "again", "run": 2, "attempt": 2})
    assert stage.exit(2)["code"] == 2
    assert stage.claim(2).pid == first.pid
    assert stage.log(1) == [("out", str(stage.work).encode())]
    assert stage.log(2) == [("out", stage.record.work(2).encode())]
    coordinator.wait_for("exited", 2)
    coordinator.send({"op": "bye"})
    assert len(coordinator.said("ready")) == 2


def test_stale_agent_ends_its_member_and_leaves_without_a_word(stage):
    coordinator = stage.coordinator(dismisses=False)
    stage.launch(stage.python(SLEEPS))
    coordinator.wait_for("started")
    coordinator.send({"op": "stop", "grace": 0.0, "reason": "stale"})
    coordinator.send({"op": "bye"})
    assert stage.exit()["stopped"]
    stage.wait_until_gone()


def test_older_coordinator_is_not_listened_to(stage):
    first = stage.coordinator(epoch=5)
    stage.launch(stage.python(SLEEPS))
    first.wait_for("started")
    first.die()
    old = stage.coordinator(epoch=4)
    newer = stage.coordinator(epoch=6)
    newer.wait_for("started")
    assert not old.heard


def test_agent_of_a_removed_job_ends_its_member_and_leaves(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.python(SLEEPS))
    member = coordinator.wait_for("started")["pid"]
    owner = stage.claim()
    coordinator.die()
    shutil.rmtree(stage.directory())
    end = time.monotonic() + 60
    while owner.is_alive or start_ticks(member):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_broken_coordinator_file_is_tried_again(stage):
    Path(stage.record.coordinator).write_text("{")
    stage.launch(stage.plan(["true"]))
    stage.claim()
    Path(stage.record.coordinator).write_text(json.dumps({"address": "pigeon:x", "epoch": 1}))
    assert stage.play(stage.plan(["true"]))["code"] == 0


def test_nonsense_on_the_line_is_answered_by_a_new_line(stage):
    coordinator = stage.coordinator()
    stage.launch(stage.python(SLEEPS))
    coordinator.wait_for("started")
    coordinator.send_bytes(b"\xff" * 64)
    coordinator.wait_for("started", 2)
    os.kill(stage.claim().pid, signal.SIGTERM)
    stage.exit()
