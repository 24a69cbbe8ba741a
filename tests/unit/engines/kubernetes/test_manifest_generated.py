"""Whatever a job file says: names that Kubernetes takes, stable YAML, no value of a secret."""

import io
import json
import re
from typing import Any

import pytest
from generated import CANARY, launches
from hypothesis import HealthCheck, given, settings
from ruamel.yaml import YAML

from dromon.engines.base import Launch
from dromon.engines.kubernetes.carriers import request_map
from dromon.engines.kubernetes.manifest import Target, compile_launch, standalone, to_yaml
from dromon.errors import Refused

TARGET = Target(
    image="base",
    light="c" * 64,
    priority_classes={"low": 10, "high": 90},
    default_priority_class="low",
    run_as={"uid": 1000, "gid": 1000},
)
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
QUICK = settings(
    max_examples=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


def keys_in_order(value: Any) -> bool:
    if isinstance(value, dict):
        return list(value) == sorted(value) and all(map(keys_in_order, value.values()))
    return not isinstance(value, list) or all(map(keys_in_order, value))


def read(text: str, version: tuple[int, int]) -> list[Any]:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    return list(yaml.load_all(io.StringIO(text)))


@QUICK
@given(launches())
def test_names_and_labels_are_valid(launch: Launch) -> None:
    request = compile_launch(launch, TARGET).request
    [job] = request["objects"]
    assert NAME.fullmatch(job["metadata"]["name"])
    for task in job["spec"]["tasks"]:
        assert NAME.fullmatch(f"{launch.id}-{task['name']}-{task['replicas'] - 1}")
        assert 1 <= task["minAvailable"] <= task["replicas"]
        pod = task["template"]["spec"]
        volumes = [volume["name"] for volume in pod["volumes"]]
        assert len(set(volumes)) == len(volumes)
        assert all(NAME.fullmatch(name) for name in volumes)
        mounts = pod["containers"][0]["volumeMounts"]
        assert {mount["name"] for mount in mounts} <= set(volumes)
        labels = {**job["metadata"]["labels"], **task["template"]["metadata"]["labels"]}
        assert all(LABEL_VALUE.fullmatch(value) for value in labels.values())


@QUICK
@given(launches())
def test_yaml_is_stable_sorted_and_reads_back_the_same(launch: Launch) -> None:
    request = compile_launch(launch, TARGET).request
    objects = [*request["objects"], request_map(launch.id, request)]
    assert keys_in_order(objects)
    text = to_yaml(objects)
    assert text == to_yaml(json.loads(json.dumps(objects)))
    for version in ((1, 1), (1, 2)):
        assert read(text, version) == objects


@QUICK
@given(launches())
def test_no_value_of_a_secret_is_in_any_object(launch: Launch) -> None:
    made = compile_launch(launch, TARGET)
    assert set(made.supplied.values()) <= {CANARY}
    assert CANARY not in json.dumps(made.request)
    if launch.supplied:
        with pytest.raises(Refused, match="the job needs TOKEN"):
            standalone(made.request, b"light", b"code")
        return
    objects = standalone(made.request, b"light", b"code")
    assert "Secret" not in [one["kind"] for one in objects]


def test_a_thousand_members_cost_no_more_than_one(make_launch, target):
    launch = make_launch(framework="tensorflow", roles={
        "worker": {"replicas": 990, "command": "true"}, "ps": {"replicas": 10, "command": "true"},
    })  # fmt: skip
    submission = compile_launch(launch, target)
    assert len(json.dumps(submission.request)) < 20_000
