"""`kubernetes:` of a job file reaches every field, and a slip of the pen is told."""

import pytest

from dromon.errors import Refused


def test_what_the_job_says_of_its_pods_is_merged_last(make_request):
    request = make_request(
        roles={"chief": {"command": "true"}, "ps": {"command": "true"}},
        framework="tensorflow",
        kubernetes={
            "pod": {"runtimeClassName": "nvidia", "hostIPC": True},
            "roles": {"ps": {"pod": {"runtimeClassName": None, "priority": 3}}},
        },
    )
    chief, ps = (t["template"]["spec"] for t in request["objects"][0]["spec"]["tasks"])
    assert (chief["runtimeClassName"], chief["hostIPC"]) == ("nvidia", True)
    assert "runtimeClassName" not in ps
    assert (ps["priority"], ps["hostIPC"]) == (3, True)


def test_what_the_job_says_of_the_volcano_job_is_merged_last(make_request):
    hatch = {"job": {"networkTopology": {"mode": "hard"}, "tasks": [{"name": "worker", "x": 1}]}}
    spec = make_request(kubernetes=hatch)["objects"][0]["spec"]
    assert spec["networkTopology"] == {"mode": "hard"}
    assert (spec["tasks"][0]["x"], spec["tasks"][0]["replicas"]) == (1, 1)


def test_labels_and_annotations_are_on_the_job_and_its_pods_and_ours_stay(make_request):
    job = make_request(kubernetes={
        "labels": {"team": "ct", "dromon.io/job": "other"}, "annotations": {"x/y": "on"},
    })["objects"][0]  # fmt: skip
    for metadata in (job["metadata"], job["spec"]["tasks"][0]["template"]["metadata"]):
        assert metadata["labels"]["team"] == "ct"
        assert metadata["labels"]["dromon.io/job"] == "train-aaaaaa"
        assert metadata["annotations"]["x/y"] == "on"


def test_a_read_only_root_has_a_writable_tmp(make_pod):
    pod = make_pod(kubernetes={"read_only_root": True})
    main = pod["containers"][0]
    assert main["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"mountPath": "/tmp", "name": "tmp"} in main["volumeMounts"]


def test_a_token_is_mounted_only_for_an_account_that_was_named(make_pod):
    assert make_pod()["automountServiceAccountToken"] is False
    pod = make_pod(kubernetes={"service_account": "trainer"})
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("trainer", True)


def test_a_job_is_kept_unless_it_says_how_long(make_request):
    assert "ttlSecondsAfterFinished" not in make_request()["objects"][0]["spec"]
    spec = make_request(kubernetes={"ttl": "1h"})["objects"][0]["spec"]
    assert spec["ttlSecondsAfterFinished"] == 3600


def test_the_images_python_can_be_named(make_request):
    request = make_request(kubernetes={"python": "/opt/python"})
    pod = request["objects"][0]["spec"]["tasks"][0]["template"]["spec"]
    assert pod["containers"][0]["command"][0] == request["python"] == "/opt/python"


@pytest.mark.parametrize(
    ("hatch", "words", "hint"),
    [
        ({"pods": {}}, "kubernetes.pods: there is no such setting", "Did you mean pod?"),
        ({"xyz": {}}, "kubernetes.xyz: there is no such setting", "One of annotations, job"),
        ({"roles": {"workr": {}}}, "kubernetes.roles.workr: there is no such role", "worker"),
        ({"roles": {"worker": {"labels": {}}}}, "kubernetes.roles.worker.labels", "One of pod."),
        ({"pod": []}, "kubernetes.pod: expected a mapping, got a list", "key: value"),
        ({"roles": {"worker": None}}, "kubernetes.roles.worker: expected a mapping", "key"),
        ({"labels": {"a b": "x"}}, "is no label", "63"),
        ({"labels": {"a": "x y"}}, "is no label", "63"),
        ({"labels": {"a": True}}, "is no label", "text"),
        ({"annotations": {"a": True}}, "expected a text, got true", "Quote it"),
        ({"python": 3}, "kubernetes.python: expected a text", "Quote it"),
        ({"secret": "My Secret"}, "no name of an object", "small letters"),
        ({"read_only_root": "yes"}, "expected true or false", "true or false"),
        ({"ttl": "soon"}, "expected a duration", "1d"),
        ({"ttl": True}, "expected a duration, got true", "1d"),
    ],
)
def test_a_slip_of_the_pen_is_told(make_request, hatch, words, hint):
    with pytest.raises(Refused) as refused:
        make_request(kubernetes=hatch)
    assert words in refused.value.message
    assert hint in refused.value.hint
