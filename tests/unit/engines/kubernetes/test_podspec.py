"""Amounts as Kubernetes writes them, and what the pods may."""

from dataclasses import replace

import pytest

from dromon.engines.kubernetes.podspec import cores, size


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (2**40, "1Ti"),
        (3 * 2**29, "1536Mi"),
        (2**10, "1Ki"),
        (2**60, "1Ei"),
        (2**20 + 1, "1048577"),
        (10**9, "1G"),
        (1_500_000, "1500k"),
        (0, "0"),
    ],
)
def test_bytes_are_written_exactly(amount, text):
    assert size(amount) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(1.0, "1"), (0.1, "100m"), (1.5, "1500m"), (0.0001, "1m"), (0.3, "300m"), (1e3, "1k")],
)
def test_parts_of_cores_are_thousandths(amount, text):
    assert cores(amount) == text


def test_what_was_not_asked_for_is_not_limited(make_pod):
    main = make_pod(resources={"cpus": 0.0})["containers"][0]
    assert main["resources"] == {}


@pytest.mark.parametrize(
    ("resources", "limit"),
    [
        ({"shm": "2GiB", "memory": "3GiB"}, "2Gi"),
        ({"memory": "3GiB"}, "1536Mi"),
        ({"memory": "64MiB"}, "64Mi"),
        ({}, None),
    ],
)
def test_shared_memory_is_large_enough_for_data_loaders(make_pod, resources, limit):
    [shm] = [v for v in make_pod(resources=resources)["volumes"] if v["name"] == "shm"]
    assert shm["emptyDir"]["medium"] == "Memory"
    assert shm["emptyDir"].get("sizeLimit") == limit


def test_a_site_that_says_who_runs_gets_nobody_else(make_pod, target):
    pod = make_pod(on=replace(target, run_as={"uid": 1000, "gid": 100}))
    assert pod["securityContext"] == {
        "fsGroup": 100,
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsGroup": 100,
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    [secret] = [v for v in pod["volumes"] if v["name"] == "secret"]
    assert secret["secret"]["defaultMode"] == 0o440


def test_a_pod_has_longer_than_its_member_to_end(make_pod):
    assert make_pod(stop_grace="1.5s")["terminationGracePeriodSeconds"] == 7


def test_images_are_pulled_as_the_context_says(make_pod, target):
    assert "imagePullPolicy" not in make_pod()["containers"][0]
    pod = make_pod(on=replace(target, image_pull_policy="Never"))
    assert pod["containers"][0]["imagePullPolicy"] == "Never"
