"""Gangs on a real cluster: two halves never wait for each other; memory they must stay within."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from testbeds.yarn.bed import Bed
from yarnjobs import application, ended, has_said, request, run, stop_all, texts, told, until

from dromon.engines.yarn.engine import YarnEngine

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HOLD = "say('up'); time.sleep(600)"
# More than half of a node: six of these fit on one.
WIDE: dict[str, Any] = {
    "replicas": 4, "node_label": "gpu", "resources": {"cpus": 1, "memory": "936MiB"},
}  # fmt: skip


# ---- gangs --------------------------------------------------------------------------------------


def held(engine: YarnEngine, ref: str) -> int:
    """Containers besides the master's."""
    return engine.manager.report(application(engine, ref)).containers - 1


def asked(engine: YarnEngine, ref: str) -> int:
    """Containers that YARN knows it still waits for."""
    page = engine.cluster.pages.rest(f"/apps/{application(engine, ref)}")["app"]
    return sum(int(one["numContainers"]) for one in page.get("resourceRequests", ()))


@pytest.fixture
def apart(place: Bed, engine: YarnEngine) -> Iterator[None]:
    """Members have the second node to themselves: what is reserved there stops no master."""
    place.label("node2", "gpu")
    assert until(lambda: any(node.labels for node in engine.manager.nodes()))
    yield
    stop_all(engine)
    place.label("node2", "")
    assert until(lambda: not any(node.labels for node in engine.manager.nodes()))


def two_wide(engine: YarnEngine, patience: dict[str, float], later: float = 0) -> tuple[str, str]:
    """Two jobs that each need more than half of a node, and both begin to get it at once."""
    filler = run(engine, HOLD, name="filler", queue="kept", node_label="gpu",
                 resources={"cpus": 1, "memory": "6000MiB"})  # fmt: skip
    has_said(engine, filler, "up")
    refs = []
    for name, queue in (("elder", "default"), ("younger", "urgent")):
        ref = run(
            engine, "say('up'); time.sleep(1)", name=name, queue=queue,
            yarn={"patience": patience}, **WIDE,
        )  # fmt: skip
        refs.append(ref)
        assert until(lambda ref=ref: asked(engine, ref) == 4), told(engine, ref)
        if name == "elder":
            time.sleep(later)  # their ages are what this is about
    engine.stop(filler, 0)
    return refs[0], refs[1]


def spoke(engine: YarnEngine, ref: str) -> int:
    """How many members did in the last attempt. On a busy machine a queue may take its share back
    from the other, and the gang begins again."""
    attempt = engine.status(ref).attempt
    return sum(line.text == "up" and line.run == attempt for line in engine.logs(ref, follow=False))


@pytest.mark.usefixtures("apart")
def test_masters_that_never_give_way_wait_for_each_other_for_ever(engine: YarnEngine):
    """What the next test is worth: without giving way, both hold a part, and neither starts."""
    naive = {"hold": 1e9, "longest_hold": 1e9}
    both = two_wide(engine, naive)
    full = until(lambda: sum(held(engine, ref) for ref in both) == 6)
    assert full, [told(engine, ref) for ref in both]
    for _ in range(20):
        assert [engine.status(ref).state for ref in both] == ["queued", "queued"]
        assert all(0 < held(engine, ref) < 4 for ref in both)
        time.sleep(0.4)


@pytest.mark.usefixtures("apart")
def test_two_half_gangs_both_end_and_the_elder_starts_first(engine: YarnEngine):
    elder, younger = two_wide(engine, {"hold": 3, "pause": 3}, later=10)
    for ref in (elder, younger):
        assert ended(engine, ref).state == "succeeded", told(engine, ref)
        assert spoke(engine, ref) == 4
    first, second = (engine.status(ref).started or 0 for ref in (elder, younger))
    assert 0 < first < second


@pytest.mark.usefixtures("apart")
def test_two_half_gangs_of_one_age_both_end(engine: YarnEngine):
    for ref in two_wide(engine, {"hold": 3, "pause": 3}):
        assert ended(engine, ref).state == "succeeded", told(engine, ref)
        assert spoke(engine, ref) == 4


def test_a_gang_may_start_with_fewer_and_asks_for_no_more_then(engine: YarnEngine):
    holder = run(
        engine, HOLD, name="holder", replicas=1, resources={"cpus": 1, "memory": "5800MiB"}
    )
    has_said(engine, holder, "up")
    ref = run(
        engine, "say('up', os.environ['DROMON_WORLD_SIZE']); time.sleep(600)",
        replicas=10, min=2, gang_wait="6s", resources={"cpus": 1, "memory": "1400MiB"},
    )  # fmt: skip
    assert until(lambda: engine.status(ref).state == "running"), told(engine, ref)
    members = len(engine.status(ref).members)
    assert 2 <= members < 10
    has_said(engine, ref, f"up {members}", times=members)
    assert until(lambda: held(engine, ref) == members), told(engine, ref)
    engine.stop(holder, 0)
    assert until(lambda: engine.status(holder).is_terminal)

    # There is room for all of them now, and it stays where it is.
    for _ in range(10):
        assert asked(engine, ref) == 0
        assert held(engine, ref) == members
        time.sleep(0.3)


# ---- memory -------------------------------------------------------------------------------------

# Slowly enough that whoever looks twice a second sees it in time.
GREEDY = """
say("up")
held = []
while len(held) < 60:
    held.append(bytearray(b"x") * (8 << 20))
    time.sleep(0.3)
time.sleep(600)
"""


def test_a_member_over_its_memory_is_ended_by_its_agent_with_figures(engine: YarnEngine):
    ref = run(engine, GREEDY, retries={"max": 0}, resources={"cpus": 1, "memory": "128MiB"})
    status = ended(engine, ref)
    assert status.state == "failed"
    assert status.verdict is not None
    assert status.verdict["cause"] == "out_of_memory", status.verdict
    assert "128 MiB" in status.verdict["message"], status.verdict


def test_a_container_over_its_memory_is_ended_by_yarn_with_figures(engine: YarnEngine):
    asked = request(GREEDY, retries={"max": 0}, resources={"cpus": 1, "memory": "192MiB"})
    submission = engine.compile(engine.take(asked).launch)
    # The agent does not look: as for memory that it does not see.
    submission.request["roles"]["worker"]["memory"] = None
    ref = engine.submit(submission)
    status = ended(engine, ref)
    assert status.state == "failed"
    assert status.verdict is not None
    assert status.verdict["cause"] == "out_of_memory", status.verdict
    assert "256 MB" in status.verdict["message"], status.verdict
    assert texts(engine, ref) == ["up"]  # once: it was not taken for an eviction
