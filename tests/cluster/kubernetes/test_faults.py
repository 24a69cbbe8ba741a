"""Components, nodes and pods die under a running job."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jobs
import pytest
from testbeds.kubernetes import network
from testbeds.kubernetes.bed import Bed

from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.volcano import POD

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

BOTH = ("worker-0", "worker-1")
APART: dict[str, Any] = {"roles": {"worker": {"replicas": 2, "spread": "node"}}}
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


def gang(engine: KubernetesEngine, script: str = jobs.BEATS, **job: Any) -> str:
    """Two members that beat, on two nodes."""
    ref = jobs.run(engine, script, **{**APART, **job})
    jobs.beats_on(engine, ref, *BOTH)
    return ref


def goes_on_to_its_end(
    engine: KubernetesEngine, ref: str, attempt: int = 1, members: Sequence[str] = BOTH
) -> None:
    """All members live, in that attempt, and end well; no retry was used for it."""
    jobs.beats_on(engine, ref, *members, attempt=attempt)
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
    jobs.runs(plain, alone)
    lines: list[str] = []
    states: list[str] = []
    ends: list[str] = []
    of_alone: list[str] = []
    followers = [
        threading.Thread(target=lambda: lines.extend(x.text for x in plain.logs(alone, True))),
        threading.Thread(target=lambda: states.extend(s.state for s in engine.watch(ref))),
        threading.Thread(target=lambda: ends.append(engine.wait(ref).state)),
        threading.Thread(target=lambda: of_alone.extend(s.state for s in plain.watch(alone))),
    ]
    for follower in followers:
        follower.start()
    assert jobs.until(lambda: states and lines and of_alone)
    frail.kill("apiserver")
    jobs.beats_on(engine, ref, *BOTH)
    frail.start("apiserver")
    goes_on_to_its_end(engine, ref)
    assert jobs.ended(plain, alone).state == "succeeded"
    for follower in followers:
        follower.join(jobs.PATIENCE)
        assert not follower.is_alive()
    assert (states[-1], ends) == ("succeeded", ["succeeded"])
    assert of_alone[-1] == "succeeded"
    assert set(of_alone) <= {"running", "stopping", "succeeded"}  # it never seemed to begin anew
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


# Nobody goes on before both have looked where they begin.
STEPS = """
say("begins at", open(path("step")).read() if os.path.exists(path("step")) else "0")
open(path(f"begun-{rank}-{attempt}"), "w").close()
while not os.path.exists(path(f"begun-{1 - rank}-{attempt}")):
    time.sleep(0.1)
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


@contextlib.contextmanager
def cut_off(bed: Bed, node: str) -> Iterator[None]:
    """Nobody reaches the node, nor does it reach anybody; what runs on it runs on, and the store is
    still there."""
    cable = [*network.enter(bed.plan, "control"), "ip", "link", "set", node]
    subprocess.run([*cable, "down"], check=True)
    try:
        yield
    finally:
        subprocess.run([*cable, "up"], check=True)


def tended(engine: KubernetesEngine, *refs: str) -> bool:
    """As `dromon watch` does, until all of them live in their second attempt."""

    def begun() -> bool:
        engine.tend()
        return all(any(beat.attempt == 2 for beat in jobs.beats(engine, ref)) for ref in refs)

    return bool(jobs.until(begun, timeout=600, every=5))


def prefers(*nodes: str) -> dict[str, Any]:
    """For a pod that may be elsewhere, too."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    preference = {"weight": 100, "preference": {"matchExpressions": [term]}}
    kind = "preferredDuringSchedulingIgnoredDuringExecution"
    return {"pod": {"affinity": {"nodeAffinity": {kind: [preference]}}}}


def test_what_ran_on_a_lost_node_goes_on_elsewhere_and_never_beside_itself(
    frail: Bed, engine: KubernetesEngine
) -> None:
    alone = jobs.run(engine, jobs.BEATS)
    jobs.beats_on(engine, alone, "worker-0")
    lost = jobs.node_of(engine, alone, "worker-0")
    (other,) = set(frail.plan.nodes) - {lost}
    members = ("first-0", "second-0")
    roles = {"first": {"replicas": 1}, "second": {"replicas": 1}}
    where = {"roles": {"first": prefers(other), "second": prefers(lost)}}
    pair = jobs.run(engine, jobs.BEATS, roles=roles, kubernetes=where)
    jobs.beats_on(engine, pair, *members)
    assert [jobs.node_of(engine, pair, member) for member in members] == [other, lost]
    orphans = set(jobs.processes(alone))
    with cut_off(frail, lost):
        for ref in (alone, pair):
            jobs.reason(engine, ref, f"node {lost} does not answer")
        assert jobs.until(lambda: engine.status(alone).state == "restarting")
        assert [member.state for member in engine.status(alone).members] == ["gone"]
        assert tended(engine, alone, pair), jobs.told(engine, alone) + jobs.told(engine, pair)
        assert jobs.node_of(engine, alone, "worker-0") == other
        assert {jobs.node_of(engine, pair, member) for member in members} == {other}
        # Nobody could tell it: it has seen that another has come. (The pair's second member has
        # heard nothing from its coordinator, and was ended when its lease was over.)
        assert not orphans & set(jobs.processes(alone))
        assert jobs.never_together(engine, alone)
        assert jobs.never_together(engine, pair)
    assert jobs.until(lambda: is_whole(frail))
    goes_on_to_its_end(engine, alone, attempt=2, members=["worker-0"])
    goes_on_to_its_end(engine, pair, attempt=2, members=members)


def is_whole(bed: Bed) -> bool:
    return "NotReady" not in bed.kubectl("get", "nodes").stdout
