"""What `render` makes of a site: stable, what Volcano takes, and nothing lint would object to."""

import pytest
from ruamel.yaml import YAML

from dromon.clusters import volcano
from dromon.clusters.lint import lint_volcano
from dromon.clusters.writing import to_yaml
from dromon.errors import JobFileError
from dromon.site.file import load_site

SITE = """\
total: {cpus: 256, memory: 2TiB, gpus: 32}
queues:
  default: {deserved: {cpus: 6, memory: 4GiB}}
  research: {weight: 1, limit: {gpus: 24}}
  product: {deserved: {gpus: 8, cpus: 1.5}, guarantee: {gpus: 4}, reclaimable: false, priority: 2,
            limit: {gpus: 8, cpus: 1.5}}
priorities:
  low: 100
  normal: {value: 1000, default: true}
  urgent: {value: 10000, description: Deadlines only., preempt: never}
"""
TREE = """\
queues:
  default: {deserved: {gpus: 1}}
  product: {limit: {gpus: 8}}
  prod-a: {parent: product, deserved: {gpus: 4}, guarantee: {gpus: 1}}
  prod-b: {parent: product, deserved: {gpus: 4}}
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
  product: {limit: {cpus: 1.5, gpus: 8}, priority: 2, reclaimable: false, guarantee: {gpus: 4},
            deserved: {cpus: 1.5, gpus: 8}}
  research: {limit: {gpus: 24}, weight: 1}
  default: {deserved: {memory: 4GiB, cpus: 6}}
total: {gpus: 32, memory: 2TiB, cpus: 256}
"""
    assert rendered(turned) == rendered(SITE)


def test_another_gpu_is_named_once_for_all_queues():
    found = objects("kubernetes: {gpu_resource: amd.com/gpu}\nqueues: {a: {deserved: {gpus: 2}}}")
    assert found["Queue", "a"]["spec"]["deserved"] == {"amd.com/gpu": "2"}


def test_notes_tell_what_an_administrator_may_not_expect():
    site = load_site("queues: {spare: }\npriorities: {low: 1}", "site.yaml")
    said = " ".join(volcano.notes(site))
    assert "queue spare deserves nothing" in said
    assert "there is no queue default" in said
    assert "no priority is the default" in said
    assert volcano.notes(load_site(SITE, "site.yaml")) == []


def test_what_volcano_cannot_hold_is_said_key_by_key():
    site = load_site(
        "total: {gpus: 8}\n"
        "queues:\n"
        "  default: {user_limit: {gpus: 1}, max_duration: 2d, budget: {week: 5}, open: false,\n"
        "            limit: {gpus: {a100: 4}}}\n"
        "  b: {deserved: {gpus: {a100: 2}}}\n"
        "priorities: {normal: {value: 1, default: true, user_budget: {week: 1}}}\n"
        "users: {ann: {weight: 2}}\n"
        "half_life: 7d\n",
        "site.yaml",
    )
    assert volcano.notes(site) == [
        "queue b: deserved of kinds of GPUs is counted as GPUs of any kind",
        "queue default: Volcano has no user_limit, no max_duration, no budget; left out",
        "queue default: whether it is open is its status there, not its spec; close it with "
        "`vcctl queue operate -a close -n default`",
        "queue default: its limit of a100 is left out; Volcano counts GPUs of any kind",
        "priority normal: Volcano has no user_budget; left out",
        "Volcano has no users, no half_life; left out",
    ]
    queues = {each["metadata"]["name"]: each["spec"] for each in volcano.files(site)["queues.yaml"]}
    assert queues["b"]["deserved"] == {"nvidia.com/gpu": "2"}
    assert queues["default"]["deserved"] == {"nvidia.com/gpu": "6"}
    assert "capability" not in queues["default"]


def test_a_weight_of_nothing_is_refused_where_it_stands():
    with pytest.raises(JobFileError) as caught:
        load_site("queues: {a: {weight: 2}}", "site.yaml", volcano.rules)
    (problem,) = caught.value.problems
    assert str(problem).startswith(
        "site.yaml:1:14: queues.a.weight: nobody says of what this is a part"
    )
