"""Processes, nodes and daemons die under a running job; clients die while they submit."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yarnjobs as jobs
from testbeds.yarn.bed import Bed

from dromon.engines.yarn import application
from dromon.hadoop.hdfsfaults import NoDataNode, SafeMode
from dromon.hadoop.transport import Unreachable
from dromon.storage.hdfs import Hdfs
from faults import ENTER, LEAVE, Scene, alive, frozen, never_beside_each_other, safe_mode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

TWO = {"worker": {"replicas": 2}}
ALONE = {"member_failed": "restart_member", "member_lost": "restart_member"}


@pytest.fixture(scope="module")
def shared_scene(frail: Bed, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(frail, tmp_path_factory.mktemp("faults"))


@pytest.fixture
def scene(shared_scene: Scene) -> Iterator[Scene]:
    yield shared_scene
    for daemon in shared_scene.bed.plan.daemons:
        shared_scene.bed.start(daemon)
    jobs.stop_all(shared_scene.engine)
    shared_scene.engine.close()


# ---- processes ----------------------------------------------------------------------------------


def test_whichever_process_of_a_member_is_killed_it_alone_begins_again(scene: Scene):
    ref = scene.run(roles=TWO, policies=ALONE, retries={"max": 3, "backoff": 0})
    other = scene.now(ref)["worker-0"].pid
    for number, which in enumerate(("member", "agent", "front"), 2):
        before = scene.now(ref)["worker-1"].pid
        front, agent = scene.front(ref, "worker-1"), scene.agent(ref, "worker-1")
        os.kill({"member": before, "agent": agent, "front": front}[which], signal.SIGKILL)
        scene.until(lambda n=number: len(scene.of(ref, "worker-1")) == n, "its next run", ref)
        assert not alive(before), which
        assert alive(agent) == (which == "member")
        if which != "member":
            scene.until(lambda f=front: not alive(f), "the end of its container", ref)
    scene.kill_master(ref)  # the next one knows which of its containers is the last
    scene.until(lambda: scene.epoch(ref) == 2, "the next master", ref)
    # What it said in containers that are over is with their nodes.
    scene.until(lambda: jobs.texts(scene.engine, ref).count("up") == 5, "all it said", ref)
    scene.go(ref)
    assert [life.pid for life in scene.of(ref, "worker-0")] == [other]
    assert len(scene.of(ref, "worker-1")) == 4
    assert never_beside_each_other(scene.of(ref, "worker-1"))
    assert [m.run for m in scene.engine.status(ref).members] == [1, 4]
    scene.until(lambda: not scene.left(ref), "the end of all its processes")


# ---- nodes --------------------------------------------------------------------------------------


def test_members_of_a_lost_node_end_before_the_gang_begins_again_elsewhere(scene: Scene):
    ref = scene.run(roles=TWO, deaf=True, stop_grace=6)
    lost = scene.node_of(ref, "worker-0")
    scene.bed.kill(lost)  # its containers go on, and are still heard
    scene.until(lambda: {m.attempt for m in scene.now(ref).values()} == {2}
                and len(scene.now(ref)) == 2, "the second attempt", ref)  # fmt: skip
    assert scene.node_of(ref, "worker-0") != lost
    scene.go(ref)
    for member in ("worker-0", "worker-1"):
        first, second = scene.of(ref, member)
        assert first.ended < second.began, (first, second)
    status = scene.engine.status(ref)
    assert (status.attempt, [m.run for m in status.members]) == (2, [2, 2])
    scene.until(lambda: not scene.left(ref), "the end of all its processes")


def test_a_member_that_is_cut_off_with_its_node_ends_itself_before_it_is_replaced(scene: Scene):
    roles = {"cut": {"replicas": 1}, "stiff": {"replicas": 1}, "other": {"replicas": 1}}
    scene.bed.label("node3", "")
    roles["other"]["node_label"] = None
    try:
        ref = scene.run(roles=roles, deaf=True, policies=ALONE, stop_grace=1, yarn={"lease": 30})
    finally:
        scene.bed.label("node3", "gpu")
    assert scene.node_of(ref, "cut-0") == scene.node_of(ref, "stiff-0") == "node2"
    other = scene.now(ref)["other-0"].pid
    orphans = scene.front(ref, "cut-0"), scene.front(ref, "stiff-0")
    # Of one agent the line is cut; the other one is stiff, as on a machine that stands still.
    with frozen(scene.agent(ref, "stiff-0")), scene.cut_off(ref, "cut-0"):
        scene.bed.kill("node2")
        scene.until(lambda: scene.standing(ref).get("fenced"), "YARN to give the node up", ref)
        assert scene.now(ref)["cut-0"]  # nobody has told it: only its lease ends it
        scene.until(lambda: len(scene.of(ref, "cut-0")) == 2, "its replacement", ref)
        scene.until(lambda: len(scene.of(ref, "stiff-0")) == 2, "its replacement", ref)
        assert alive(orphans[1])
    scene.until(lambda: not any(map(alive, orphans)), "both to leave when they are back", ref)
    scene.beats_on(ref, "stiff-0")
    scene.go(ref)
    assert never_beside_each_other(scene.of(ref, "cut-0"))
    assert [life.pid for life in scene.of(ref, "other-0")] == [other]
    assert len(scene.of(ref, "cut-0")) == len(scene.of(ref, "stiff-0")) == 2
    scene.until(lambda: not scene.left(ref), "the end of all its processes")


# ---- daemons ------------------------------------------------------------------------------------


def test_a_job_outlives_its_resource_manager_and_gets_containers_afterwards(scene: Scene):
    ref = scene.run(roles=TWO, policies=ALONE)
    first = {life.member: life.pid for life in scene.lives(ref)}
    scene.bed.kill("resourcemanager")
    where = scene.bed.plan.address("resourcemanager", "client")
    with pytest.raises(Unreachable) as refused:
        scene.engine.status(ref)
    assert str(refused.value) == (
        f"the ResourceManager at {where} refused the connection: is it running?"
    )
    scene.beats_on(ref, "worker-1")
    scene.bed.start("resourcemanager")
    # On a busy machine its master may come too late for this bed's short patience.
    scene.until(lambda: scene.epoch(ref), "its master's word", ref)
    os.kill(scene.front(ref, "worker-1"), signal.SIGKILL)
    scene.until(lambda: len(scene.of(ref, "worker-1")) == 2, "a new container", ref)
    scene.go(ref)
    assert [life.pid for life in scene.of(ref, "worker-0")] == [first["worker-0"]]
    assert scene.engine.status(ref).attempt == 1


def test_while_hdfs_takes_nothing_members_go_on_and_decisions_follow_later(scene: Scene):
    ref = scene.run(roles=TWO, policies=ALONE, retries={"max": 1, "backoff": 0})
    safe_mode(scene.bed, ENTER)
    try:
        os.kill(scene.now(ref)["worker-1"].pid, signal.SIGKILL)
        impatient(scene)
        with pytest.raises(SafeMode) as refused:
            scene.submit(roles=TWO)
        assert "HDFS is in safe mode" in str(refused.value)
        assert refused.value.hint
        scene.beats_on(ref, "worker-0")
        assert len(scene.of(ref, "worker-1")) == 1  # what is not on record is not acted upon
    finally:
        safe_mode(scene.bed, LEAVE)
    scene.until(lambda: len(scene.of(ref, "worker-1")) == 2, "its next run", ref)
    assert scene.engine.status(ref).state == "running"
    scene.bed.kill("namenode")
    scene.beats_on(ref, "worker-0")
    scene.beats_on(ref, "worker-1")
    assert scene.engine.status(ref).state == "running"  # its master knows
    scene.let_go(ref)
    scene.until(lambda: not scene.now(ref), "the end of its members", ref)
    assert scene.engine._report(ref).state == "RUNNING"  # nobody could bring its logs home
    scene.bed.start("namenode")
    scene.go(ref)
    assert len(scene.of(ref, "worker-0")) == 1
    assert jobs.until(lambda: jobs.texts(scene.engine, ref).count("done") == 2), ref


def test_an_upload_without_any_data_node_says_so_and_works_once_there_is_one(
    scene: Scene, tmp_path: Path
):
    (tmp_path / "data").write_bytes(os.urandom(1 << 20))
    asked = {**jobs.request("say(os.path.getsize('data'))"), "cwd": str(tmp_path)}
    scene.bed.kill("datanode")
    impatient(scene)
    try:
        with pytest.raises(NoDataNode) as refused:
            scene.engine.start(asked)
        assert str(refused.value).startswith("Cannot write ")
        assert refused.value.hint
    finally:
        scene.bed.start("datanode")
        scene.engine.close()
    ref = str(scene.engine.start(asked)["id"])
    assert jobs.ended(scene.engine, ref).state == "succeeded", jobs.told(scene.engine, ref)
    assert jobs.texts(scene.engine, ref) == [str(1 << 20)]


def impatient(scene: Scene) -> None:
    """The client of this scene gives up on HDFS after a second."""
    scene.engine.close()
    found = Hdfs.connect(scene.engine.cluster.site, scene.engine.cluster.user, patience=1.0)
    scene.engine.__dict__["hdfs"] = found


# ---- clients ------------------------------------------------------------------------------------

CLIENT = """
import json, os, sys, time
sys.path[:0] = json.loads(sys.argv[1])
import yarnjobs as jobs
from testbeds.yarn.bed import Bed

bed, home, asked, point = Bed(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]), sys.argv[5]
engine = jobs.engine(bed, home)

def here(name, *words):
    if name.startswith(point):
        print("here", flush=True)
        time.sleep(600)

class Slow:
    def __init__(self, manager):
        self.manager = manager
    def __getattr__(self, name):
        return getattr(self.manager, name)
    def submit(self, context):
        here("claimed")
        return self.manager.submit(context)

engine.__dict__["manager"] = Slow(engine.manager)
engine.start(asked, here)
here("submitted")
"""


@pytest.mark.parametrize("point", ["uploading", "submitting", "claimed", "submitted"])
def test_a_client_killed_at_any_point_of_submitting_leaves_one_job_at_most(
    scene: Scene, tmp_path: Path, point: str
):
    (tmp_path / "data").write_bytes(os.urandom(1 << 20))
    asked = {**jobs.request("say('it ran')", name=point), "cwd": str(tmp_path), "token": "k2l4"}
    paths = [entry for entry in sys.path if entry]
    here = [scene.bed.dir, str(tmp_path / "home"), json.dumps(asked), point]
    client = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CLIENT), json.dumps(paths), *here],
        stdout=subprocess.PIPE,
    )
    with client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"here\n"
        client.kill()

    id = f"{point}-k2l4"
    again = scene.engine.start(asked)
    assert again["id"] == id
    assert again["created"] == (point != "submitted")
    assert jobs.ended(scene.engine, id).state == "succeeded", jobs.told(scene.engine, id)
    assert jobs.texts(scene.engine, id) == ["it ran"]
    assert len(scene.engine.manager.reports(tags=[application.tag(id)])) == 1
    scene.engine.collect(older_than=0)
    assert scene.engine.hdfs.stat(scene.engine.staging.root) is None  # nothing is left at all
