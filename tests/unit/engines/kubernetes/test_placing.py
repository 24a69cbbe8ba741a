"""Where a job's pods may be, and which priority class a job gets."""

from dataclasses import replace

import pytest

from dromon.engines.kubernetes.placing import priority
from dromon.engines.kubernetes.target import Target
from dromon.errors import Refused

CLASSES = {"batch": 0, "normal-ish": 40, "prod": 60, "top": 1000, "system-cluster-critical": 2**31}


@pytest.mark.parametrize(
    ("asked", "classes", "default", "found"),
    [
        ("prod", CLASSES, "", (60, "prod")),
        ("normal", CLASSES, "", (40, "normal-ish")),
        ("normal", CLASSES, "batch", (0, "batch")),
        ("normal", {**CLASSES, "normal": 7}, "batch", (7, "normal")),
        ("high", CLASSES, "batch", (60, "prod")),
        (60, CLASSES, "", (60, "prod")),
        (59, CLASSES, "", (40, "normal-ish")),
        (10**9, CLASSES, "", (1000, "top")),
        (-5, CLASSES, "", (-5, "")),
        (-5, CLASSES, "batch", (0, "batch")),
        ("low", {}, "", (10, "")),
        ("low", {}, "unseen", (10, "unseen")),
        (5, {"a": 5, "b": 5}, "a", (5, "a")),
    ],
)
def test_a_job_gets_the_nearest_class_that_is_not_above(asked, classes, default, found):
    target = Target(priority_classes=classes, default_priority_class=default)
    assert priority(asked, target) == found


def test_an_unknown_class_is_refused_with_the_known_ones():
    with pytest.raises(Refused) as refused:
        priority("best", Target(priority_classes=CLASSES))
    assert "batch, normal-ish, prod, top" in refused.value.hint
    assert "system" not in refused.value.hint


def test_a_label_is_a_selector_of_the_site(make_pod, target):
    on = replace(target, node_labels={"gold": {"tier": "gold", "zone": "a"}})
    assert make_pod(on=on, node_label="gold")["nodeSelector"] == {"tier": "gold", "zone": "a"}
    with pytest.raises(Refused) as refused:
        make_pod(on=on, node_label="golf")
    assert "Known here: gold." in refused.value.hint


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("a100", ["NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-80GB"]),
        ("A100-80gb", ["NVIDIA-A100-SXM4-80GB"]),
        ("a10", ["NVIDIA-A10"]),
        ("rtx4090", ["NVIDIA-GeForce-RTX-4090"]),
        ("NVIDIA-A10", ["NVIDIA-A10"]),
    ],
)
def test_a_kind_of_gpu_is_all_the_models_that_answer_to_it(make_pod, target, kind, values):
    products = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-PCIE-40GB", "NVIDIA-A10",
                "NVIDIA-GeForce-RTX-4090")  # fmt: skip
    pod = make_pod(on=replace(target, gpu_products=products), resources={"gpus": {kind: 1}})
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    expected = {"key": "nvidia.com/gpu.product", "operator": "In", "values": values}
    assert term["matchExpressions"] == [expected]


def test_a_kind_that_no_node_has_is_refused_where_the_nodes_are_known(make_pod, target):
    with pytest.raises(Refused, match="kind h100") as refused:
        make_pod(on=replace(target, gpu_products=("NVIDIA-A10",)), resources={"gpus": {"h100": 1}})
    assert "NVIDIA-A10" in refused.value.hint


def test_spread_members_are_each_on_a_node_of_their_own(make_pod):
    [term] = make_pod(replicas=2, spread="node")["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term == {
        "labelSelector": {
            "matchLabels": {"dromon.io/job": "train-aaaaaa", "dromon.io/role": "worker"}
        },
        "topologyKey": "kubernetes.io/hostname",
    }


def test_only_pods_with_gpus_go_where_gpus_are(make_pod, target):
    assert "tolerations" not in make_pod()
    pod = make_pod(on=replace(target, gpu_resource="amd.com/gpu"), resources={"gpus": 1})
    assert pod["tolerations"][0]["key"] == "amd.com/gpu"
    assert pod["containers"][0]["resources"]["limits"]["amd.com/gpu"] == "1"
