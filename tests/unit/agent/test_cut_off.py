"""Agents whose way to the coordinator fails: they come back, and their members go on."""

import json
import time
from pathlib import Path

import pytest
from tests.unit.agent.gate import Gate

WAITS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"


@pytest.fixture
def gated(stage):
    """A coordinator that is reached through a gate, at an address that says nothing of epochs."""
    made = []

    def make():
        coordinator = stage.coordinator(tcp=True)
        coordinator.renews = True
        address = json.loads(Path(stage.record.coordinator).read_text())["address"]
        made.append(Gate(int(address.rpartition(":")[2])))
        told = {"address": f"tcp:127.0.0.1:{made[-1].port}"}
        Path(stage.record.coordinator).write_text(json.dumps(told))
        return coordinator, made[-1]

    yield make
    for gate in made:
        gate.close()


def goes_on_after(stage, coordinator, fault, mend, **how):
    """The same member, heard of again after the fault."""
    stage.launch(stage.python(WAITS, **how))
    pid = coordinator.wait_for("started")["pid"]
    before = len(coordinator.said("hello"))
    fault()
    mend()
    coordinator.wait_for("hello", before + 1)
    assert coordinator.wait_for("started", 2)["pid"] == pid
    (stage.work / "go").touch()
    assert coordinator.wait_for("exited")["exit"]["code"] == 0


def test_a_line_that_is_reset_is_made_anew(stage, gated):
    coordinator, gate = gated()
    goes_on_after(stage, coordinator, gate.cut, gate.mend)


def test_a_line_is_tried_until_the_way_is_open_again(stage, gated):
    coordinator, gate = gated()

    def later():
        time.sleep(1.0)
        gate.mend()

    goes_on_after(stage, coordinator, gate.cut, later)


def test_a_line_that_only_looks_whole_is_made_anew_before_the_lease_is_over(stage, gated):
    coordinator, gate = gated()

    def later():
        time.sleep(1.5)  # longer than two questions go unanswered
        gate.mend()

    goes_on_after(stage, coordinator, gate.swallow, later, lease=4.0)


def test_a_coordinator_that_comes_after_the_lease_finds_an_agent_that_keeps_its_next_one(
    stage, gated
):
    """Nothing runs yet, so nothing is lost; and from then on the lease is asked for as ever."""
    coordinator, gate = gated()
    gate.cut()
    stage.launch(stage.python(WAITS, run=0, attempt=0, lease=1.0))
    time.sleep(1.5)
    gate.mend()
    coordinator.wait_for("hello")
    coordinator.send({"op": "again", "run": 1, "attempt": 1})
    coordinator.wait_for("started")
    asked = len(coordinator.said("alive"))
    coordinator.wait_for("alive", asked + 6)  # that is more than a lease
    assert len(coordinator.said("hello")) == 1
    (stage.work / "go").touch()
    assert coordinator.wait_for("exited")["exit"]["code"] == 0
