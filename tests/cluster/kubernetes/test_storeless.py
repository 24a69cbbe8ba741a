"""A cluster that gives a job nothing to keep things in, and one without Volcano."""

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import jobs
import pytest
from testbeds.kubernetes.bed import Bed

from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.errors import Refused

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def engine(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesEngine]:
    with jobs.namespace(bed, "bare") as space:
        made = jobs.engine(bed, tmp_path_factory.mktemp("home"), store=False, namespace=space)
        yield made
        jobs.stop_all(made)
        made.close()


def test_a_gang_runs_and_its_code_and_words_go_through_the_api_server(
    engine: KubernetesEngine, tmp_path: Path
) -> None:
    data = random.Random(1).randbytes(400_000)  # nothing packs it
    (tmp_path / "data").write_bytes(data)
    script = """
    say(me, "up", os.path.getsize("data"))
    while not os.path.exists("/tmp/go"):
        time.sleep(0.1)
    say(me, "done")
    """
    ref = str(
        engine.start({**jobs.request(script, roles=jobs.TWO), "cwd": str(tmp_path)})["id"]
    )  # fmt: skip
    up = [f"worker-{n} up 400000" for n in (0, 1)]
    for line in up:  # live
        jobs.has_said(engine, ref, line)
    jobs.runs(engine, ref)
    now = engine.status(ref)
    assert (now.state, now.attempt, len(now.members)) == ("running", 1, 2)
    for member in ("worker-0", "worker-1"):
        (front, *_) = jobs.processes(ref, member)
        Path(f"/proc/{front}/root/tmp/go").touch()
    status = jobs.ended(engine, ref)
    assert status.state == "succeeded", jobs.told(engine, ref)
    assert (status.verdict or {})["message"] == "all 2 members succeeded"
    done = [f"worker-{n} done" for n in (0, 1)]
    assert sorted(jobs.texts(engine, ref)) == sorted([*up, *done])  # and after the end
    assert sorted(line.text for line in engine.logs(ref, follow=True)) == sorted([*up, *done])
    assert len([one for one in jobs.objects(engine) if f"{ref}-code-" in one]) == 1
    engine.remove([ref])
    assert jobs.until(lambda: not jobs.objects(engine)), jobs.objects(engine)


def test_the_verdict_is_what_the_first_pod_left_as_its_last_words(
    engine: KubernetesEngine,
) -> None:
    script = """
    say("up")
    if rank == 1:
        sys.exit("it is broken")
    time.sleep(600)
    """
    status = jobs.ended(engine, ref := jobs.run(engine, script, roles=jobs.TWO))
    assert (status.state, status.attempt) == ("failed", 1)
    verdict = status.verdict or {}
    assert (verdict["cause"], verdict["member"], verdict["code"]) == ("user_error", "worker-1", 1)
    assert verdict["last_lines"][-1] == "it is broken"
    assert "it is broken" in jobs.texts(engine, ref)
    engine.remove([ref])


def test_a_lost_pod_begins_the_gang_anew_without_a_store_too(engine: KubernetesEngine) -> None:
    script = """
    say("up", attempt)
    while not os.path.exists("/tmp/go"):
        time.sleep(0.1)
    """
    ref = jobs.run(engine, script, roles=jobs.TWO)
    jobs.has_said(engine, ref, "up 1", times=2)
    before = jobs.uid_of(engine, ref, "worker-1")
    os.kill(jobs.processes(ref, "worker-1")[0], signal.SIGKILL)
    assert jobs.until(lambda: jobs.uid_of(engine, ref, "worker-1") not in (before, ""))
    jobs.has_said(engine, ref, "up 1", times=2)  # nobody knows of the first attempt
    engine.stop(ref)
    assert jobs.ended(engine, ref).state == "stopped"
    engine.remove([ref])


def test_outputs_are_refused_with_a_hint(engine: KubernetesEngine) -> None:
    assert jobs.until(lambda: not jobs.objects(engine))  # of the tests before
    with pytest.raises(Refused) as found:
        jobs.run(engine, "pass", outputs=["model"])
    assert "outputs" in found.value.message
    assert "store" in str(found.value.hint)
    assert jobs.objects(engine) == []


# ---- without Volcano ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(new_bed: Callable[..., Bed]) -> Bed:
    return new_bed(nodes=1, volcano=False)


def test_a_job_of_one_pod_runs_on_plain_kubernetes(plain: Bed, tmp_path: Path) -> None:
    engine = jobs.engine(plain, tmp_path)
    ref = jobs.run(engine, jobs.BEATS)
    jobs.beats_on(engine, ref, "worker-0")
    jobs.runs(engine, ref)
    jobs.let_go(engine, ref)
    status = jobs.ended(engine, ref)
    assert (status.state, status.attempt) == ("succeeded", 1), jobs.told(engine, ref)
    assert jobs.texts(engine, ref) == ["up", "done"]
    other = jobs.run(engine, "say('up'); time.sleep(600)")
    jobs.has_said(engine, other, "up")
    engine.stop(other)
    assert jobs.ended(engine, other).state == "stopped"
    engine.remove([ref, other])
    gone = jobs.until(lambda: not jobs.objects(engine, volcano=False))
    assert gone, jobs.objects(engine, volcano=False)
    engine.close()


def test_a_gang_is_refused_there_in_words(plain: Bed, tmp_path: Path) -> None:
    engine = jobs.engine(plain, tmp_path)
    with pytest.raises(Refused) as found:
        jobs.run(engine, "pass", roles=jobs.TWO)
    assert "Volcano" in found.value.message
    assert found.value.hint
    assert jobs.objects(engine, volcano=False) == []
    engine.close()
