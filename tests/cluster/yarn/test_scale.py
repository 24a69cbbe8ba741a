"""Many jobs at once, a job of many containers, and that nothing is left of them afterwards."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testbeds.yarn.bed import Bed
from yarnjobs import application, ended, processes, run, stop_all, texts, told, until
from yarnjobs import engine as client

from dromon.engines.base import Filter
from dromon.engines.yarn.engine import YarnEngine

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

JOBS = 50
MEMBERS = 200
TINY = {"cpus": 1, "memory": "1MiB"}
# Far more room than there is: nearly all that is started here sleeps.
SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": "32768",
    "yarn.nodemanager.resource.cpu-vcores": "256",
    "yarn.scheduler.minimum-allocation-mb": "32",
    "yarn.scheduler.maximum-allocation-mb": "32768",
    "yarn.nodemanager.delete.debug-delay-sec": "0",
    # A member here is a shell that sleeps; its agent is more than what YARN would count for it.
    "yarn.nodemanager.pmem-check-enabled": "false",
}


@pytest.fixture(scope="module")
def place(new_bed: Callable[..., Bed]) -> Bed:
    return new_bed(settings=SETTINGS)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def engine(place: Bed, home: Path) -> Iterator[YarnEngine]:
    made = client(place, home)
    yield made
    stop_all(made)
    made.close()


def test_fifty_jobs_at_once_all_run_once(place: Bed, home: Path, engine: YarnEngine):
    refs: list[str] = []
    failures: list[BaseException] = []

    def submit(numbers: range) -> None:
        own = client(place, home)
        try:
            for n in numbers:
                refs.append(
                    run(own, name=f"job{n}", resources=TINY, command=f"echo job {n} $DROMON_JOB_ID")
                )
        except BaseException as error:
            failures.append(error)
        finally:
            own.close()

    threads = [threading.Thread(target=submit, args=(range(n, JOBS, 5),)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(set(refs)) == JOBS
    assert until(lambda: not engine.list(Filter()), timeout=600, every=1), engine.list(Filter())
    listed = [s for s in engine.list(Filter(active_only=False)) if s.id in refs]
    assert Counter(s.state for s in listed) == {"succeeded": JOBS}
    assert {s.attempt for s in listed} == {1}
    applications = engine.manager.reports(types=["DROMON"])
    assert len([a for a in applications if any(r in t for t in a.tags for r in refs)]) == JOBS
    for ref in refs[:: JOBS // 5]:
        number = ref.partition("-")[0].removeprefix("job")
        assert texts(engine, ref) == [f"job {number} {ref}"]


def test_two_hundred_containers_are_one_world(engine: YarnEngine):
    ref = run(
        engine,
        replicas=MEMBERS,
        gang_wait="10m",
        resources=TINY,
        command="echo rank $DROMON_RANK of $DROMON_WORLD_SIZE; exec sleep 3",
    )
    status = ended(engine, ref, timeout=600)
    assert status.state == "succeeded", told(engine, ref)
    assert status.attempt == 1
    assert len(status.members) == MEMBERS
    assert {m.run for m in status.members} == {1}
    world = {f"rank {n} of {MEMBERS}" for n in range(MEMBERS)}
    said = texts(engine, ref)
    assert len(said) == MEMBERS
    assert set(said) == world


def test_nothing_is_left_after_gc(place: Bed, engine: YarnEngine):
    for _ in range(2):
        ref = run(engine, "open('out.txt', 'w').write('x')", replicas=2, outputs=["out.txt"])
        assert ended(engine, ref).state == "succeeded", told(engine, ref)
    app = application(engine, ref)
    assert engine.staging.records()
    # Whatever other tests left here goes with it.
    assert ref in engine.collect(older_than=0)["removed"]
    assert engine.hdfs.stat(engine.staging.root) is None
    mine = [name for name, _ in engine.hdfs.list(f"/user/{engine.cluster.user}")]
    assert not [name for name in mine if "dromon" in name]
    # YARN clears its nodes by itself, a moment after the end.
    roots = [Path(place.plan.data(node)) for node in place.plan.nodes]

    def left() -> list[Path]:
        found = [p for root in roots for p in root.glob("local/usercache/*/appcache/*")]
        found += [p for root in roots for p in root.glob("local/nmPrivate/*")]
        return found + [p for root in roots for p in root.glob("containers/application_*")]

    until(lambda: not left())
    assert left() == []
    for mark in (f"LOCAL_DIRS={place.dir}/data/", app):
        until(lambda mark=mark: not processes(mark))
        assert processes(mark) == {}
