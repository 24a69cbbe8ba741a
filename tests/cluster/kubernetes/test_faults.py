"""Components, nodes and pods die under a running job."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import jobs
import pytest
from testbeds.kubernetes.bed import Bed

from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.volcano import POD

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

BOTH = ("worker-0", "worker-1")
APART = {"roles": {"worker": {"replicas": 2, "spread": "node"}}}
EXPIRY = 15  # seconds


@pytest.fixture(scope="module")
def frail(new_bed: Callable[..., Bed]) -> Bed:
    """Nodes that are silent are given up soon."""
    return new_bed(expiry=EXPIRY)


@pytest.fixture
def engine(frail: Bed, tmp_path: Path) -> Iterator[KubernetesEngine]:
    made = jobs.engine(frail, tmp_path)
    yield made
    for component in frail.plan.components:
        frail.start(component)
    jobs.stop_all(made)
    made.close()


def gang(engine: KubernetesEngine, script: str = jobs.BEATS, **job: object) -> str:
    """Two members that beat, on two nodes."""
    ref = jobs.run(engine, script, **{**APART, **job})
    jobs.beats_on(engine, ref, *BOTH)
    return ref


def goes_on_to_its_end(engine: KubernetesEngine, ref: str, attempt: int = 1) -> None:
    """All members live, in that attempt, and end well; no retry was used for it."""
    jobs.beats_on(engine, ref, *BOTH, attempt=attempt)
    jobs.let_go(engine, ref)
    status = jobs.ended(engine, ref)
    assert (status.state, status.attempt) == ("succeeded", attempt), jobs.told(engine, ref)
    assert engine.store is not None
    assert (engine.store.status(ref) or {})["retries_used"] == 0
    assert jobs.never_together(engine, ref)
    assert jobs.until(lambda: not jobs.processes(ref)), "processes are left"


# ---- components ---------------------------------------------------------------------------------


def test_members_go_on_while_their_kubelet_is_away(frail: Bed, engine: KubernetesEngine) -> None:
    ref = gang(engine)
    node = jobs.node_of(engine, ref, "worker-0")
    frail.kill(node)
    jobs.beats_on(engine, ref, *BOTH)
    frail.start(node)
    goes_on_to_its_end(engine, ref)


def test_members_go_on_without_an_api_server_and_whoever_follows_does_too(
    frail: Bed, engine: KubernetesEngine, tmp_path: Path
) -> None:
    ref = gang(engine)
    plain = jobs.engine(frail, tmp_path / "plain", store=False)  # lines come through the API server
    alone = jobs.run(plain, "for n in range(300): say(n); time.sleep(0.1)\nsay('over')")
    jobs.has_said(plain, alone, "5")
    lines: list[str] = []
    states: list[str] = []
    ends: list[str] = []
    followers = [
        threading.Thread(target=lambda: lines.extend(x.text for x in plain.logs(alone, True))),
        threading.Thread(target=lambda: states.extend(s.state for s in engine.watch(ref))),
        threading.Thread(target=lambda: ends.append(engine.wait(ref).state)),
    ]
    for follower in followers:
        follower.start()
    assert jobs.until(lambda: states and lines)
    frail.kill("apiserver")
    jobs.beats_on(engine, ref, *BOTH)
    frail.start("apiserver")
    goes_on_to_its_end(engine, ref)
    assert jobs.ended(plain, alone).state == "succeeded"
    for follower in followers:
        follower.join(60)
        assert not follower.is_alive()
    assert (states[-1], ends) == ("succeeded", ["succeeded"])
    assert lines == [*(str(n) for n in range(300)), "over"]  # none is lost, none comes twice
    plain.close()


def test_what_was_submitted_without_volcano_runs_when_it_is_back(
    frail: Bed, engine: KubernetesEngine
) -> None:
    for name in ("volcano-scheduler", "volcano-controllers"):
        frail.kill(name)
    ref = jobs.run(engine, jobs.BEATS, **APART)
    assert jobs.reason(engine, ref, "Volcano")
    frail.start("volcano-controllers")
    assert jobs.until(lambda: "PodGroup" in "".join(jobs.objects(engine)))
    assert engine.status(ref).state == "queued"
    frail.start("volcano-scheduler")
    goes_on_to_its_end(engine, ref)


def test_a_gang_that_lost_a_pod_without_volcano_begins_again_when_it_is_back(
    frail: Bed, engine: KubernetesEngine
) -> None:
    ref = gang(engine)
    for name in ("volcano-scheduler", "volcano-controllers"):
        frail.kill(name)
    os.kill(jobs.processes(ref, "worker-1")[0], signal.SIGKILL)
    assert jobs.until(lambda: not jobs.processes(ref, "worker-1"))
    frail.start("volcano-controllers")
    frail.start("volcano-scheduler")
    goes_on_to_its_end(engine, ref, attempt=2)


# ---- pods ---------------------------------------------------------------------------------------


def test_a_pod_that_is_killed_for_memory_is_named_by_the_verdict(engine: KubernetesEngine) -> None:
    script = """
    say("up")
    if rank == 1:
        held = [b"x" * (1 << 20) for _ in range(2000)]
    time.sleep(600)
    """
    status = jobs.ended(engine, jobs.run(engine, script, **APART))
    assert (status.state, status.attempt) == ("failed", 1)
    assert status.verdict is not None
    found = {key: status.verdict[key] for key in ("cause", "member", "rank", "signal")}
    assert found == {"cause": "out_of_memory", "member": "worker-1", "rank": 1, "signal": 9}
    assert "resources.memory" in status.verdict["hint"]


STEPS = """
say("begins at", open(path("step")).read() if os.path.exists(path("step")) else "0")
if rank == 0:
    open(path("step"), "w").write("7")
"""


def test_an_evicted_pod_begins_its_gang_anew_from_its_checkpoint(
    frail: Bed, engine: KubernetesEngine, tmp_path: Path
) -> None:
    ref = gang(engine, STEPS + jobs.BEATS)
    pod = f"{ref}-worker-1"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    (tmp_path / "eviction").write_text(json.dumps(body))
    asked = frail.kubectl(
        "create", "--raw", f"/api/v1/namespaces/default/pods/{pod}/eviction",
        "-f", str(tmp_path / "eviction"),
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    goes_on_to_its_end(engine, ref, attempt=2)
    said = jobs.texts(engine, ref)
    assert (said.count("begins at 0"), said.count("begins at 7")) == (2, 2)


def test_a_pod_deleted_without_grace_leaves_no_member_beside_its_successor(
    engine: KubernetesEngine,
) -> None:
    ref = gang(engine)
    engine.api.delete(POD, engine.namespace, f"{ref}-worker-0", grace=0)
    goes_on_to_its_end(engine, ref, attempt=2)


# ---- nodes --------------------------------------------------------------------------------------


def tended(engine: KubernetesEngine, ref: str, attempt: int) -> bool:
    """As `dromon watch` does, until the gang lives in that attempt."""

    def begun() -> bool:
        engine.tend()
        return any(beat.attempt == attempt for beat in jobs.beats(engine, ref))

    return bool(jobs.until(begun, timeout=420, every=5))


def test_a_gang_goes_on_elsewhere_when_the_node_of_its_first_member_is_lost(
    frail: Bed, engine: KubernetesEngine
) -> None:
    """Its kubelet is gone for good, and its containers run on and reach the store."""
    ref = gang(engine, roles={"worker": {"replicas": 2}})
    lost = jobs.node_of(engine, ref, "worker-0")
    before = jobs.processes(ref, "worker-0")
    assert before
    frail.kill(lost)
    assert tended(engine, ref, 2), jobs.told(engine, ref)
    assert jobs.node_of(engine, ref, "worker-0") != lost
    assert jobs.never_together(engine, ref)
    assert jobs.until(lambda: not set(before) & set(jobs.processes(ref)))
    frail.start(lost)
    goes_on_to_its_end(engine, ref, attempt=2)
