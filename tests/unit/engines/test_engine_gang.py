"""What every engine's gang has in common."""

import pytest

from dromon import spec
from dromon.engines.gang import gang_plan, member_status, priority, shapes
from dromon.errors import Refused
from dromon.lifecycle import states
from dromon.lifecycle.members import MemberState
from dromon.lifecycle.verdict import Exit


def test_priorities_are_classes_or_numbers():
    assert priority(7) == 7
    assert priority("low") < priority("normal") < priority("high") < priority("urgent")
    with pytest.raises(Refused, match="gold") as refused:
        priority("gold")
    assert "urgent" in refused.value.hint


def test_roles_of_a_plan_stand_in_rank_order_whatever_the_file_says():
    role = {"command": "true", "replicas": 2}
    roles = {"worker": role, "ps": role, "chief": {"command": "true"}}
    job = spec.load_data({"framework": "tensorflow", "roles": roles}, "request", [])
    plan = gang_plan("train-aaaaaa", spec.resolve(job, id="train-aaaaaa", name="train"))
    assert [(r.name, r.replicas) for r in plan.roles] == [("chief", 1), ("worker", 2), ("ps", 2)]
    assert {r.name: r.ending for r in plan.roles}["ps"] == "serves"


def test_shapes_are_processes_and_gpus_of_each_role():
    assert shapes({"roles": {"worker": {"processes": 2, "gpus": 4.0}}}) == {"worker": (2, 4)}


def test_status_of_a_member_has_its_exit_and_what_the_engine_adds():
    gone = MemberState(states.BROKEN, 3, rank=1, host="h", pid=7, exit=Exit(code=2))
    status = member_status("worker-1", gone, memory=5)
    assert (status.member, status.run, status.rank, status.pid) == ("worker-1", 3, 1, 7)
    assert (status.memory, status.exit["code"]) == (5, 2)
    assert member_status("worker-1", MemberState(states.LAUNCHED, 1)).exit is None
