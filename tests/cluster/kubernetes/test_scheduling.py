"""Who gets what on a real cluster: GPUs, queues, priorities, whole gangs, and giving it back."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jobs
import pytest
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import GPU

from dromon.engines.base import token
from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.volcano import QUEUE

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

NODES, EACH = 2, 2  # GPUs of the bed
QUIET = 6.0  # several cycles of the scheduler
HOLD = "say('up'); time.sleep(600)"
# Warned, it saves what it has, and takes its time for it; in its second attempt it reads that.
SAVING = """
def save(*_):
    time.sleep(1.5)
    with open(path(f"saved-{rank}"), "w") as file:
        file.write("step 7")
    say("saved with", os.environ["DROMON_GRACE"])
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
found = sorted(n for n in os.listdir(os.environ["DROMON_CHECKPOINT_DIR"]) if n.startswith("saved"))
say("up", attempt, *found)
while attempt == 1:
    time.sleep(0.1)
say("read", open(path(f"saved-{rank}")).read())
"""


def gpus(count: int) -> dict[str, Any]:
    return {"resources": {**jobs.SMALL, "gpus": count}}


def whole_nodes(count: int = NODES) -> dict[str, Any]:
    """A gang that takes all GPUs of so many nodes."""
    return {"roles": {"worker": {"replicas": count, **gpus(EACH)}}}


@pytest.fixture
def engine(bed: Bed, tmp_path: Path) -> Iterator[KubernetesEngine]:
    made = jobs.engine(bed, tmp_path)
    yield made
    jobs.stop_all(made)
    made.close()


@pytest.fixture
def narrow(engine: KubernetesEngine) -> Iterator[str]:
    """A queue that may have one GPU."""
    name = f"narrow-{token()}"
    spec = {"weight": 1, "parent": "root", "capability": {GPU: 1}}
    engine.api.create(QUEUE, "", {"metadata": {"name": name}, "spec": spec})

    def state() -> str:
        found = engine.api.read(QUEUE, "", name) or {}
        return str((found.get("status") or {}).get("state"))

    assert jobs.until(lambda: state() == "Open")
    yield name
    jobs.stop_all(engine)
    engine.api.patch(QUEUE, "", name, {"status": {"state": "Closed"}}, part="status")
    engine.api.delete(QUEUE, "", name)


def has_state(engine: KubernetesEngine, ref: str, state: str) -> None:
    assert jobs.until(lambda: engine.status(ref).state == state), jobs.told(engine, ref)


def retries(engine: KubernetesEngine, ref: str) -> int:
    assert engine.store is not None
    return int((engine.store.status(ref) or {})["retries_used"])


def stays(engine: KubernetesEngine, ref: str, state: str) -> None:
    end = time.monotonic() + QUIET
    while time.monotonic() < end:
        assert engine.status(ref).state == state, jobs.told(engine, ref)
        time.sleep(0.5)


# ---- giving it back -----------------------------------------------------------------------------


def test_the_more_urgent_of_a_queue_takes_the_place_of_a_gang_that_resumes_later(
    engine: KubernetesEngine,
) -> None:
    low = jobs.run(engine, SAVING, name="low", priority="low", queue="team-a",
                   retries={"max": 0}, stop_grace="30s", **whole_nodes())  # fmt: skip
    jobs.has_said(engine, low, "up 1", times=NODES)
    high = jobs.run(engine, HOLD, name="high", priority="high", queue="team-a", **gpus(EACH))
    jobs.has_said(engine, high, "up")
    has_state(engine, low, "queued")
    engine.stop(high, 0)
    status = jobs.ended(engine, low)
    assert (status.state, status.attempt) == ("succeeded", 2), jobs.told(engine, low)
    said = jobs.texts(engine, low)
    # All of the gang were warned, had their time, and saved; each found what all had saved.
    assert said.count("saved with 30") == NODES, jobs.told(engine, low)
    assert said.count("up 2 saved-0 saved-1") == NODES, jobs.told(engine, low)
    assert said.count("read step 7") == NODES
    assert retries(engine, low) == 0


def test_a_queue_takes_its_share_back_from_another_and_no_more(engine: KubernetesEngine) -> None:
    several = [
        jobs.run(engine, SAVING, name=f"over{n}", queue="team-a", retries={"max": 0}, **gpus(EACH))
        for n in range(NODES)
    ]
    for ref in several:
        jobs.has_said(engine, ref, "up 1")
    owed = jobs.run(engine, HOLD, name="owed", queue="team-b", **gpus(EACH))
    jobs.has_said(engine, owed, "up")

    def waiting() -> list[str]:
        return [ref for ref in several if engine.status(ref).state == "queued"]

    assert jobs.until(lambda: len(waiting()) == 1), [jobs.told(engine, ref) for ref in several]
    [taken] = waiting()
    [kept] = set(several) - {taken}
    jobs.runs(engine, kept)
    stays(engine, kept, "running")
    assert engine.status(kept).attempt == 1
    engine.stop(owed, 0)
    status = jobs.ended(engine, taken)
    assert (status.state, status.attempt) == ("succeeded", 2), jobs.told(engine, taken)
    assert "read step 7" in jobs.texts(engine, taken)
    assert retries(engine, taken) == 0


def test_what_is_not_preemptible_is_let_be_and_the_urgent_one_waits(
    engine: KubernetesEngine,
) -> None:
    kept = jobs.run(engine, HOLD, name="kept", priority="low", preemptible=False, **whole_nodes())
    jobs.has_said(engine, kept, "up", times=NODES)
    high = jobs.run(engine, HOLD, name="high", priority="high", **gpus(EACH))
    assert "GPU" in jobs.reason(engine, high, kept)
    stays(engine, high, "queued")
    jobs.runs(engine, kept)
    status = engine.status(kept)
    assert (status.state, status.attempt) == ("running", 1)
    engine.stop(kept, 0)
    jobs.has_said(engine, high, "up")


# ---- whose turn it is ---------------------------------------------------------------------------


def test_a_queue_never_has_more_than_its_cap_and_who_waits_is_told(
    engine: KubernetesEngine, narrow: str
) -> None:
    first = jobs.run(engine, HOLD, name="first", queue=narrow, **gpus(1))
    jobs.has_said(engine, first, "up")
    second = jobs.run(engine, HOLD, name="second", queue=narrow, **gpus(1))
    sentence = jobs.reason(engine, second, narrow)
    assert "1" in sentence
    assert "GPU" in sentence
    stays(engine, second, "queued")  # with three GPUs free
    [shown] = [queue for queue in engine.queues() if queue.name == narrow]
    assert (shown.running, shown.queued, shown.used) == (1, 1, 1.0)
    assert (shown.state, shown.capacity and shown.capacity > 0) == ("running", True)
    engine.stop(first, 0)
    jobs.has_said(engine, second, "up")


def test_of_two_that_wait_the_more_urgent_goes_first(engine: KubernetesEngine) -> None:
    filler = jobs.run(engine, HOLD, name="filler", priority="high", **whole_nodes())
    jobs.has_said(engine, filler, "up", times=NODES)
    low = jobs.run(engine, HOLD, name="low", priority="low", **whole_nodes())
    normal = jobs.run(engine, HOLD, name="normal", priority="normal", **whole_nodes())
    for ref in (low, normal):
        jobs.reason(engine, ref, filler)
        jobs.stands_in_line(engine, ref, NODES)
    assert (engine.status(low).priority, engine.status(normal).priority) == (100, 1000)
    engine.stop(filler, 0)
    jobs.has_said(engine, normal, "up", times=NODES)
    assert engine.status(low).state == "queued"
    engine.stop(normal, 0)
    jobs.has_said(engine, low, "up", times=NODES)


def test_two_gangs_that_want_more_than_half_each_run_one_after_the_other(
    engine: KubernetesEngine, bed: Bed, tmp_path: Path
) -> None:
    """Neither holds what the other waits for."""
    roles = {"worker": {"replicas": 3, **gpus(1)}}
    refs: list[str] = []

    def submit(name: str) -> None:
        own = jobs.engine(bed, tmp_path / name)
        refs.append(jobs.run(own, "say('up'); time.sleep(3)", name=name, roles=roles))
        own.close()

    threads = [threading.Thread(target=submit, args=(f"gang{n}",)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refs) == 2
    found = [jobs.ended(engine, ref) for ref in refs]
    for status in found:
        assert (status.state, status.attempt) == ("succeeded", 1), jobs.told(engine, status.id)
        assert jobs.texts(engine, status.id).count("up") == 3
    first, second = sorted(found, key=lambda status: status.started or 0.0)
    assert max((m.exit or {})["ended"] for m in first.members) <= (second.started or 0.0)
