"""What a pod says of itself."""

import pytest

from dromon.engines.kubernetes import pods


def pod(name="train-aaaaaa-worker-3", labels=(), annotations=(), spec=None, **status):
    return {
        "metadata": {"name": name, "labels": dict(labels), "annotations": dict(annotations),
                     "creationTimestamp": "2026-11-15T18:00:00Z"},
        "spec": spec or {"containers": [{"name": "main", "image": "py:1"}]},
        "status": {"phase": "Pending", **status},
    }  # fmt: skip


VOLCANO = {"volcano.sh/job-name": "train-aaaaaa", "volcano.sh/task-spec": "worker"}


@pytest.mark.parametrize(
    ("labels", "annotations", "member"),
    [
        ({**VOLCANO, "volcano.sh/task-index": "3"}, {}, "worker-3"),
        ({}, {**VOLCANO, "volcano.sh/task-index": "3"}, "worker-3"),
        (VOLCANO, {}, "worker-3"),  # by its name
        ({**VOLCANO, "dromon.io/role": "chief", "volcano.sh/task-index": "0"}, {}, "chief-0"),
        ({"dromon.io/role": "main"}, {}, "main-0"),
        ({"dromon.io/role": "main", "batch.kubernetes.io/job-completion-index": "2"}, {}, "main-2"),
        ({}, {}, "train-aaaaaa-worker-3"),
    ],
)
def test_the_member_it_is_for(labels, annotations, member):
    assert pods.facts(pod(labels=labels, annotations=annotations)).member == member


def test_a_pod_nobody_has_looked_at_yet_is_pending():
    found = pods.facts({"metadata": {"name": "x"}})
    assert (found.phase, found.node, found.ended, found.version) == ("Pending", "", None, None)
    assert not found.is_bound
    assert pods.end(found) is None


def test_an_init_container_that_fails_is_how_a_pod_ends():
    failed = {"terminated": {"exitCode": 4, "reason": "Error", "message": "no store"}}
    given = pod(
        labels=VOLCANO, phase="Failed",
        initContainerStatuses=[{"name": "fetch", "state": failed}],
        containerStatuses=[{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}],
    )  # fmt: skip
    found = pods.facts(given)
    assert (found.ended.container, found.ended.code) == ("fetch", 4)
    assert found.last_lines == ("no store",)


def test_an_init_container_that_is_through_is_no_end():
    done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    given = pod(
        labels=VOLCANO,
        initContainerStatuses=[{"name": "fetch", "state": done}],
        containerStatuses=[{"name": "main", "state": {"running": {}}}],
    )  # fmt: skip
    assert pods.facts(given).ended is None


def test_volcanos_mark_of_an_eviction_is_a_preemption():
    mark = {"type": "Ready", "status": "False", "reason": "Evict", "message": "preempt"}
    given = pods.facts(pod(labels=VOLCANO, conditions=[mark]))
    assert pods.taken_by(given) == ("preempted", "preempt")


def test_an_image_has_the_name_people_gave_it():
    waits = {"waiting": {"reason": "ErrImagePull", "message": "no"}}
    given = pod(containerStatuses=[
        {"name": "main", "image": "r.example/py@sha256:0", "state": waits}])  # fmt: skip
    assert pods.facts(given).blocked.image == "py:1"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-15T18:00:00Z", 1794765600.0),
        ("2026-11-15T18:00:00.250000Z", 1794765600.25),
        (None, None),
        ("yesterday", None),
    ],
)
def test_times(text, seconds):
    assert pods.when(text) == seconds
