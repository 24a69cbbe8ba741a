"""The daemon killed at random points of a running workload: nothing lost, nothing run twice."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workload import Workload


@pytest.fixture
def root() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="df", dir="/tmp")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def torment(root: str, seed: int, kills: int) -> None:
    load = Workload(root, seed)
    try:
        killed = 0
        while killed < kills:
            for _ in range(load.random.choice([0, 1, 1, 2])):
                load.submit()
            time.sleep(load.random.uniform(0, 0.15))
            killed += load.kill_daemon()
            load.check_now()
        load.check_end(load.wait_all())
        assert load.submitted
    finally:
        load.close()


def test_twenty_kills_lose_nothing_and_run_nothing_twice(root: str):
    torment(root, seed=int(os.environ.get("DROMON_SEED", "1")), kills=20)


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 12))
def test_two_hundred_kills_lose_nothing_and_run_nothing_twice(root: str, seed: int):
    torment(root, seed, kills=20)
