"""Ways in which a real Volcano forgets a job, found by looking, and cured.

Only those that can be brought about: it wakes by itself from most of what can be done to it by
hand. That of a lost node is in test_faults.
"""

import time
from collections.abc import Callable, Iterator

import pytest
from plainjobs import Site
from testbeds.kubernetes.bed import Bed

from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.situation import gather
from dromon.engines.kubernetes.watchdog import PATIENCE, Finding, look

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture
def site(bed: Bed) -> Iterator[Site]:
    made = Site(bed)
    yield made
    made.close()


def after_a_while(site: Site, name: str) -> list[Finding]:
    """What will be found once Volcano has had its time, if nothing happens until then."""
    return look(gather(site.api, site.namespace, name), time.time() + PATIENCE)


def groups(site: Site, name: str) -> list[str]:
    found = site.api.list_names(volcano.POD_GROUP, site.namespace)
    return [group for group in found if group.startswith(f"{name}-")]


def test_a_job_whose_group_was_deleted_waits_for_ever_and_is_woken(site: Site) -> None:
    site.running(site.submit("holder", gpus=2, replicas=2))
    name = site.submit("late", gpus=1)
    site.says(name, "held by holder")
    # It is let in and has its pod: all is well.
    pods = f"{volcano.VOLCANO_JOB}={name}"
    site.until(lambda: len(site.api.list(volcano.POD, site.namespace, pods)) == 1)
    site.until(lambda: len(groups(site, name)) == 1 and after_a_while(site, name) == [])
    [group] = groups(site, name)
    site.api.delete(volcano.POD_GROUP, site.namespace, group)
    site.api.delete(volcano.JOB, site.namespace, "holder", background=False)
    time.sleep(6)  # several cycles of the scheduler, with all the room it needs
    assert groups(site, name) == []
    assert site.why(name).reason != "running"
    [finding] = after_a_while(site, name)
    assert finding.kind == "no group"
    for call in finding.cure:
        site.send(call.body)
    site.running(name)
    site.until(lambda: after_a_while(site, name) == [])


@pytest.fixture
def without_controllers(bed: Bed) -> Iterator[Callable[[], None]]:
    """Volcano's controllers are gone until it is called, or the test is over."""
    bed.kill("volcano-controllers")
    yield lambda: bed.start("volcano-controllers")
    bed.start("volcano-controllers")


@pytest.fixture
def at_work(site: Site) -> str:
    name = site.submit("gone", replicas=2)
    site.running(name)
    return name


def test_a_job_that_was_let_in_and_has_no_pods_gets_them(
    site: Site, at_work: str, without_controllers: Callable[[], None]
) -> None:
    pods = f"{volcano.VOLCANO_JOB}={at_work}"
    site.api.delete_all(volcano.POD, site.namespace, pods, grace=0)
    site.until(lambda: site.api.list(volcano.POD, site.namespace, pods) == [])
    [finding] = after_a_while(site, at_work)
    assert finding.kind == "no pods"
    for call in finding.cure:
        site.send(call.body)
    without_controllers()
    site.until(lambda: len(site.api.list(volcano.POD, site.namespace, pods)) == 2)
    site.running(at_work)
    site.until(lambda: after_a_while(site, at_work) == [])


def test_pods_from_before_the_last_restart_are_ended(
    site: Site, at_work: str, without_controllers: Callable[[], None]
) -> None:
    """As if an update of the pods had been lost."""
    pods = f"{volcano.VOLCANO_JOB}={at_work}"
    before = {pod["metadata"]["uid"] for pod in site.api.list(volcano.POD, site.namespace, pods)}
    job = site.api.read(volcano.JOB, site.namespace, at_work)
    assert job is not None
    later = {"status": {"version": int(job["status"].get("version") or 0) + 1}}
    site.api.patch(volcano.JOB, site.namespace, at_work, later, part="status")
    [finding] = after_a_while(site, at_work)
    assert finding.kind == "old pods"
    for call in finding.cure:
        site.api.delete(call.kind, call.namespace, call.name, uid=call.uid, grace=0)
    without_controllers()
    site.until(
        lambda: (
            {pod["metadata"]["uid"] for pod in site.api.list(volcano.POD, site.namespace, pods)}
            & before
            == set()
        )
    )
    site.running(at_work)
    site.until(lambda: after_a_while(site, at_work) == [])


def test_pods_that_another_scheduler_places_are_said_to_be_no_gang(site: Site) -> None:
    name = site.submit("loose", replicas=2, schedulerName="default-scheduler")
    site.until(lambda: len(site.api.list(volcano.POD, site.namespace)) == 2)
    found = {finding.kind: finding for finding in after_a_while(site, name)}
    assert "placed by default-scheduler, one by one" in found["no gang"].sentence
    assert found["no gang"].cure == ()
