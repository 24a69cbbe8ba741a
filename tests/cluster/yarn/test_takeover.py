"""The ApplicationMaster dies, is cut off or away: its members go on, and another takes over."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yarnjobs as jobs
from testbeds.yarn.bed import Bed

from faults import Scene, alive, frozen

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

TWO = {"worker": {"replicas": 2}}


@pytest.fixture(scope="module")
def shared_scene(frail: Bed, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(frail, tmp_path_factory.mktemp("takeover"))


@pytest.fixture
def scene(shared_scene: Scene) -> Iterator[Scene]:
    yield shared_scene
    jobs.stop_all(shared_scene.engine)
    shared_scene.engine.close()


def test_members_go_on_while_one_master_after_the_other_is_killed(scene: Scene):
    ref = scene.run(roles=TWO)
    before = {(life.member, life.pid) for life in scene.lives(ref)}
    for epoch in (1, 2):
        scene.until(lambda e=epoch: scene.epoch(ref) == e, f"epoch {epoch}", ref)
        scene.kill_master(ref)
    scene.until(lambda: scene.epoch(ref) == 3, "the third master", ref)
    scene.beats_on(ref, "worker-0")
    scene.go(ref)

    status = scene.engine.status(ref)
    assert status.attempt == 1
    assert [(m.member, m.run, m.exit["code"]) for m in status.members] == [
        ("worker-0", 1, 0),
        ("worker-1", 1, 0),
    ]
    assert {(life.member, life.pid) for life in scene.lives(ref)} == before
    assert jobs.texts(scene.engine, ref).count("done") == 2
    scene.until(lambda: not scene.left(ref), "the end of all its processes")


def test_a_master_killed_at_birth_and_again_while_it_gathers_has_one_gang_in_the_end(scene: Scene):
    big = {"cpus": 1, "memory": "5GiB"}
    holder = scene.run(name="holder", roles={"worker": {"replicas": 1, "resources": big}})
    ref = scene.submit(roles={"worker": {"replicas": 2, "resources": big}})
    os.kill(scene.master(ref), signal.SIGKILL)  # before it did anything
    scene.until(lambda: scene.epoch(ref) == 2, "the second master", ref)
    scene.until(lambda: scene.standing(ref).get("held") == 1, "half a gang", ref)
    os.kill(scene.master(ref), signal.SIGKILL)
    scene.until(lambda: scene.epoch(ref) == 3, "the third master", ref)
    assert not scene.lives(ref)
    scene.go(holder)

    scene.until(lambda: len(scene.now(ref)) == 2, "the gang", ref)
    scene.go(ref)
    assert len(scene.lives(ref)) == 2
    assert scene.engine.status(ref).attempt == 1


def test_a_master_killed_while_outputs_come_home_loses_none_of_them(scene: Scene, tmp_path: Path):
    script = """
        os.makedirs("results")
        for number in range(120):
            with open(f"results/{rank}-{number}", "w") as file:
                file.write(f"{rank} {number}")
    """
    ref = jobs.run(scene.engine, script, roles=TWO, outputs=["results"])
    place = f"{scene.engine.staging.record(ref)}/outputs/results"
    hdfs = scene.engine.hdfs
    scene.until(lambda: hdfs.stat(place) is not None, "the first output", ref)
    os.kill(scene.master(ref), signal.SIGKILL)
    assert jobs.ended(scene.engine, ref).state == "succeeded", jobs.told(scene.engine, ref)

    kept = {o["path"]: o["size"] for o in scene.engine.show(ref)["outputs"]}
    names = {f"results/{rank}-{n}" for rank in (0, 1) for n in range(120)}
    assert set(kept) == names
    assert {f"results/{name}" for name, _ in hdfs.list(place)} == names
    assert hdfs.read(f"{place}/1-119") == b"1 119"
    assert scene.standing(ref)["epoch"] == 2  # it was killed before it could end


def test_a_master_that_was_only_cut_off_touches_nothing_when_it_is_back(scene: Scene):
    # Its members wait as long as this test does: a node may take its time to be back.
    ref = scene.run(roles=TWO, yarn={"lease": 2 * jobs.PATIENCE})
    before = {life.pid for life in scene.lives(ref)}
    old = scene.master(ref)
    with frozen(old):
        scene.bed.kill("node1")  # which would end it otherwise
        scene.bed.start("node1")
        scene.until(lambda: scene.epoch(ref) == 2, "the next master", ref)
        scene.until(lambda: scene.has_agents(ref), "the agents to find it", ref)
        known = _record(scene, ref)
    scene.until(lambda: not alive(old), "the end of the old master", ref)
    assert {name: data for name, data in _record(scene, ref).items() if name in known} == known
    assert scene.until(lambda: scene.epoch(ref), "its master's word", ref) == 2
    scene.beats_on(ref, "worker-1")
    scene.go(ref)
    assert {life.pid for life in scene.lives(ref)} == before
    assert scene.engine.status(ref).attempt == 1


def _record(scene: Scene, ref: str) -> dict[str, bytes]:
    """What only the living master may write, as far as it is written once."""
    staging, closed = scene.engine.staging, "journal-1.closed"
    names = [name for name, _ in staging.hdfs.list(f"{staging.record(ref)}/{closed}")]
    files = [f"{closed}/{name}" for name in names]
    return {name: staging.read_file(ref, name) or b"" for name in [*files, "coordinator.json"]}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_stop_asked_while_the_master_is_away_stops_the_job(scene: Scene, how: signal.Signals):
    ref = scene.run(roles=TWO, stop_grace=60)
    scene.until(lambda: scene.epoch(ref) == 1, "its master's word", ref)
    master = scene.master(ref)
    scene.until(lambda: scene.knows_containers(ref), "YARN to know its containers", ref)
    os.kill(master, how)
    try:
        scene.engine.stop(ref)
        status = jobs.ended(scene.engine, ref)
        assert status.state == "stopped"
        # The next master has asked them to: YARN would have killed them without a word.
        assert {m.exit["signal"] for m in status.members} == {signal.SIGTERM}
        scene.until(lambda: not scene.left(ref), "the end of all its processes", ref)
    finally:
        if alive(master):
            os.kill(master, signal.SIGCONT)
