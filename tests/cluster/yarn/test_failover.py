"""Two ResourceManagers, of which the other takes over while a job runs, and whose keys are renewed
so often that it has to show a token it did not begin with."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yarnjobs as jobs
from testbeds.yarn.bed import Bed

from faults import Scene

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

# No shorter than three times the expiry. Half of it later, tokens of the key before are worthless.
KEYS = "yarn.resourcemanager.{}.master-key-rolling-interval-secs"
SETTINGS = {KEYS.format(kind): "37" for kind in ("am-rm-tokens", "nm-tokens", "container-tokens")}


@pytest.fixture(scope="module")
def pair(new_bed: Callable[..., Bed]) -> Bed:
    made = new_bed(managers=2, expiry=12, settings=SETTINGS)
    made.label("node2", "gpu")
    return made


@pytest.fixture
def scene(pair: Bed, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(pair, tmp_path)
    yield made
    jobs.stop_all(made.engine)
    made.engine.close()


def keys(bed: Bed) -> tuple[int, int]:
    """How many its first ResourceManager has made for masters' tokens, and put to use."""
    said = Path(bed.plan.log("resourcemanager")).read_text()
    return said.count("Rolling master-key for amrm"), said.count("Activating next master key")


def test_a_job_survives_a_failover_and_then_the_loss_of_half_the_pair(scene: Scene):
    alone = {"member_lost": "restart_member"}
    ref = scene.run(roles={"worker": {"replicas": 2}}, policies=alone)
    first = scene.now(ref)["worker-0"].pid
    known, _ = keys(scene.bed)
    scene.until(lambda: min(keys(scene.bed)) > known, "a key that is newer than its token", ref)
    scene.bed.activate("resourcemanager2")
    scene.until(lambda: scene.epoch(ref) == 1, "its master's word", ref)
    os.kill(scene.front(ref, "worker-1"), signal.SIGKILL)
    scene.until(lambda: len(scene.of(ref, "worker-1")) == 2, "a container of the other one", ref)

    scene.bed.kill("resourcemanager")
    scene.beats_on(ref, "worker-1")
    scene.engine.close()  # a client that has to find out anew who is active
    assert scene.engine.status(ref).state == "running"
    second = scene.submit(name="second", roles={"worker": {"replicas": 1}})
    scene.until(lambda: len(scene.now(second)) == 1, "another job at work", second)
    for each in (ref, second):
        scene.go(each)
    assert [life.pid for life in scene.of(ref, "worker-0")] == [first]
    assert scene.engine.status(ref).attempt == 1
    assert jobs.texts(scene.engine, ref).count("done") == 2
