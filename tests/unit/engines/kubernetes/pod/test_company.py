"""Members that have a place while the first has none."""

import os
import signal

import pytest
from tests.unit.engines.kubernetes.pod.stage import Stage

from dromon.engines.kubernetes.pod import company

NOWHERE = "first.invalid"


@pytest.mark.parametrize(("least", "replicas", "sure"), [(2, 2, True), (1, 2, False), (1, 1, True)])
def test_only_a_first_role_that_may_be_smaller_can_lack_its_first(least, replicas, sure):
    other = {"min": 0, "replicas": 3}
    roles = {"worker": {"min": least, "replicas": replicas}, "reader": other}
    assert company.is_sure({"roles": roles}) is sure


def test_it_waits_longer_each_time_but_not_for_ever():
    waits = [company.patience(restarts) for restarts in range(20)]
    assert waits[:3] == [15.0, 30.0, 60.0]
    assert waits == sorted(waits)
    assert waits[-1] == company.LONGEST


def test_a_name_without_an_address_is_waited_for_in_vain():
    assert company.comes("127.0.0.1", 0.0)
    assert not company.comes(NOWHERE, 0.0)


@pytest.fixture
def elastic(tmp_path):
    made = Stage(
        tmp_path, roles={"worker": {"replicas": 2, "min": 1, "command": "echo up"}},
        gang_wait=30,
    )  # fmt: skip
    yield made
    made.close()


def test_who_waits_for_the_first_can_be_told_to_end(elastic, capfd):
    elastic.first = NOWHERE
    elastic.start("worker-1")
    pod = elastic.pods["worker-1"]
    status = f"/proc/{pod.pid}/status"

    def blocks_term() -> bool:
        with open(status) as file:
            mask = next(line for line in file if line.startswith("SigBlk"))
        return bool(int(mask.split()[1], 16) & 1 << (signal.SIGTERM - 1))

    elastic.until(blocks_term)
    os.kill(pod.pid, signal.SIGTERM)
    assert elastic.code("worker-1", timeout=10) == 143
    assert "the first member has no place" in capfd.readouterr().err


def test_once_the_first_is_there_they_run_together(elastic):
    elastic.start()
    assert elastic.codes() == {"worker-0": 0, "worker-1": 0}
    assert elastic.printed["worker-1"].read_text() == "up\n"
