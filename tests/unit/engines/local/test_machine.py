"""What this machine has."""

import os

from dromon.engines.local.machine import Machine, survey


def test_it_counts_the_processors_this_process_may_use():
    found = survey(fake_gpus=3)
    assert found.cpus == len(os.sched_getaffinity(0))
    assert found.memory > 0
    assert [d.uuid for d in found.gpus] == ["FAKE-0", "FAKE-1", "FAKE-2"]


def test_a_limit_nobody_enforces_is_said():
    words = Machine("box", 1.0, 1, (), None).enforced
    assert "best effort" in words["memory"]
    assert "not enforced" in words["cpus"]
