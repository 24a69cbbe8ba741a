"""A hundred jobs at once, on nodes that are only said to be: what Volcano, `ps` and `rm` say.

Pods of such nodes run nothing, so that no coordinator ever speaks: all that is known of these jobs
is what Volcano and the pods say.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jobs
import pytest
from testbeds.kubernetes.bed import Bed

from dromon.engines.base import Filter
from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.status import phase
from dromon.errors import Refused

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

JOBS = 100
CLIENTS = 5
FAKE = {"pod": {"nodeSelector": {"type": "kwok"}, "terminationGracePeriodSeconds": 0}}
ENDS = {"dromon.test/lasts": "2s"}  # annotation: such a pod has succeeded after that


@pytest.fixture(scope="module")
def wide(new_bed: Callable[..., Bed]) -> Bed:
    return new_bed(nodes=1, fake_nodes=20)


@pytest.fixture
def engine(wide: Bed, tmp_path: Path) -> Iterator[KubernetesEngine]:
    made = jobs.engine(wide, tmp_path)
    yield made
    made.close()


def submit(bed: Bed, folder: Path, count: int, **job: Any) -> list[str]:
    """By several clients at once."""
    refs: list[str] = []
    failures: list[BaseException] = []

    def some(numbers: range) -> None:
        own = jobs.engine(bed, folder / str(numbers.start))
        try:
            for n in numbers:
                refs.append(jobs.run(own, name=f"job{n}", command="true", **job))
        except BaseException as error:
            failures.append(error)
        finally:
            own.close()

    threads = [
        threading.Thread(target=some, args=(range(n, count, CLIENTS),)) for n in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(set(refs)) == count
    return refs


def phases(engine: KubernetesEngine) -> Counter[str]:
    return Counter(phase(job) for job in engine.jobs.all())


def test_a_hundred_jobs_at_once_all_run_end_and_leave_nothing(
    wide: Bed, engine: KubernetesEngine, tmp_path: Path
) -> None:
    ends = {**FAKE, "annotations": ENDS}
    refs = submit(wide, tmp_path, JOBS, replicas=2, kubernetes=ends)
    assert jobs.until(lambda: phases(engine) == {"Completed": JOBS}), phases(engine)
    assert not engine.list(Filter())
    listed = engine.list(Filter(active_only=False))
    assert {status.id for status in listed} == set(refs)
    assert Counter(status.state for status in listed) == {"succeeded": JOBS}
    assert [s.id for s in engine.list(Filter(active_only=False, limit=3))] == [
        status.id for status in listed[-3:]
    ]
    assert engine.remove(refs[:1]) == refs[:1]
    assert sorted(engine.collect(older_than=0)["removed"]) == sorted(refs[1:])
    assert jobs.until(lambda: not jobs.objects(engine)), jobs.objects(engine)
    assert engine.store is not None
    assert not engine.store.records()


def test_six_hundred_pods_are_listed_without_looking_at_each(
    wide: Bed, engine: KubernetesEngine, tmp_path: Path
) -> None:
    size = 30
    refs = submit(wide, tmp_path, 20, replicas=size, kubernetes=FAKE)
    assert jobs.until(lambda: phases(engine) == {"Running": len(refs)}), phases(engine)
    engine.list(Filter())  # priority classes are asked for once
    before = engine.api.requests
    listed = engine.list(Filter())
    assert engine.api.requests - before == 2  # Volcano's jobs and plain ones: no pods
    assert {status.id for status in listed} == set(refs)
    assert {len(status.members) for status in listed} == {size}
    with pytest.raises(Refused):
        engine.remove(refs[:1])
    for ref in refs:
        engine.stop(ref)
    assert jobs.until(lambda: not engine.list(Filter())), phases(engine)
    assert set(engine.collect(older_than=0)["removed"]) == set(refs)
    assert jobs.until(lambda: not jobs.objects(engine)), jobs.objects(engine)
