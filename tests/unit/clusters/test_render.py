"""What `render` makes of a site: stable, what Volcano takes, and nothing lint would object to."""

import pytest
from ruamel.yaml import YAML

from dromon.clusters import volcano
from dromon.clusters.lint import lint_volcano
from dromon.clusters.sitefile import load_site
from dromon.clusters.writing import to_yaml

SITE = """\
total: {cpus: 256, memory: 2TiB, gpus: 32}
queues:
  default: {share: {cpus: 6, memory: 4GiB}}
  research: {weight: 1, cap: {gpus: 24}}
  product: {share: {gpus: 8, cpus: 1.5}, guarantee: {gpus: 4}, reclaimable: false, priority: 2,
            cap: {gpus: 8, cpus: 1.5}}
priorities:
  low: 100
  normal: {value: 1000, default: true}
  urgent: {value: 10000, description: Deadlines only., preempt: never}
"""
TREE = """\
queues:
  default: {share: {gpus: 1}}
  product: {cap: {gpus: 8}}
  prod-a: {parent: product, share: {gpus: 4}, guarantee: {gpus: 1}}
  prod-b: {parent: product, share: {gpus: 4}}
"""


def rendered(text):
    site = load_site(text, "site.yaml")
    return "".join(to_yaml(objects) for objects in volcano.files(site).values() if objects)


def objects(text):
    found = YAML(typ="safe", pure=True).load_all(rendered(text))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def test_a_queue_says_everything_volcano_reads():
    queue = objects(SITE)["Queue", "product"]
    assert queue == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "product"},
        "spec": {
            "capability": {"cpu": "1500m", "nvidia.com/gpu": "8"},
            "deserved": {"cpu": "1500m", "nvidia.com/gpu": "8"},
            "guarantee": {"resource": {"nvidia.com/gpu": "4"}},
            "parent": "root",
            "priority": 2,
            "reclaimable": False,
            "weight": 1,
        },
    }


def test_weights_become_what_a_queue_deserves():
    spec = objects(SITE)["Queue", "research"]["spec"]
    assert spec["deserved"] == {"cpu": "248", "memory": "2044Gi", "nvidia.com/gpu": "24"}
    assert spec["capability"] == {"nvidia.com/gpu": "24"}


def test_a_priority_class_says_whether_it_preempts():
    found = objects(SITE)
    assert found["PriorityClass", "urgent"] == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 10000,
        "preemptionPolicy": "Never",
        "description": "Deadlines only.",
    }
    assert found["PriorityClass", "normal"]["globalDefault"] is True
    assert found["PriorityClass", "low"]["preemptionPolicy"] == "PreemptLowerPriority"


def test_the_configuration_lies_where_volcano_looks_for_it():
    found = objects(SITE)["ConfigMap", "volcano-scheduler-configmap"]
    assert found["metadata"]["namespace"] == "volcano-system"
    conf = YAML(typ="safe", pure=True).load(found["data"]["volcano-scheduler.conf"])
    assert conf["actions"] == "enqueue, allocate, backfill, reclaim, preempt"
    names = [[plugin["name"] for plugin in tier["plugins"]] for tier in conf["tiers"]]
    assert names == [
        ["priority", "gang", "conformance", "sla"],
        ["drf", "predicates", "capacity", "nodeorder", "binpack"],
    ]


@pytest.mark.parametrize(("text", "has"), [(SITE, False), (TREE, True)])
def test_a_hierarchy_is_asked_for_only_where_there_is_one(text, has):
    assert ("enableHierarchy: true" in rendered(text)) is has


@pytest.mark.parametrize("text", [SITE, TREE])
def test_lint_has_no_error_in_what_is_rendered(text):
    findings = lint_volcano([("out.yaml", rendered(text))])
    assert [str(each) for each in findings if each.severity == "error"] == []


def test_the_order_of_the_site_file_does_not_matter():
    turned = """\
priorities:
  urgent: {preempt: never, description: Deadlines only., value: 10000}
  normal: {default: true, value: 1000}
  low: 100
queues:
  product: {cap: {cpus: 1.5, gpus: 8}, priority: 2, reclaimable: false, guarantee: {gpus: 4},
            share: {cpus: 1.5, gpus: 8}}
  research: {cap: {gpus: 24}, weight: 1}
  default: {share: {memory: 4GiB, cpus: 6}}
total: {gpus: 32, memory: 2TiB, cpus: 256}
"""
    assert rendered(turned) == rendered(SITE)


def test_another_gpu_is_named_once_for_all_queues():
    found = objects("kubernetes: {gpu_resource: amd.com/gpu}\nqueues: {a: {share: {gpus: 2}}}")
    assert found["Queue", "a"]["spec"]["deserved"] == {"amd.com/gpu": "2"}


def test_notes_tell_what_an_administrator_may_not_expect():
    site = load_site("queues: {spare: }\npriorities: {low: 1}", "site.yaml")
    said = " ".join(volcano.notes(site))
    assert "queue spare has no share" in said
    assert "there is no queue default" in said
    assert "no priority is the default" in said
    assert volcano.notes(load_site(SITE, "site.yaml")) == []
