"""Each trap of a Volcano configuration: found where it stands, and gone with its remedy."""

import pytest

from dromon.clusters.lint import lint_volcano
from dromon.errors import JobFileError

GOOD = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: conformance
    enableReclaimable: false
  - name: sla
    arguments: {sla-waiting-time: 1h}
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: capacity
    enableHierarchy: true
    enableJobEnqueued: false
  - name: nodeorder
  - name: binpack
"""


def found(*texts):
    files = [(f"{at}.conf", text) for at, text in enumerate(texts)]
    return lint_volcano(files)


def rules(*texts):
    return {(each.line, each.column, each.severity, each.rule) for each in found(*texts)}


def test_the_configuration_that_was_tried_is_clean():
    assert found(GOOD) == []


# text to replace -> (what to write, the finding)
TRAPS = [
    (" preempt\"", " gangPreempt\"", (1, 49, "error", "refused")),
    (" preempt\"", " preemt\"", (1, 49, "error", "refused")),
    (" preempt\"", " elect, preempt\"", (1, 49, "error", "refused")),
    ("reclaim, preempt", "reclaim, preempt,", (1, 57, "error", "refused")),
    (" preempt\"", " gangpreempt\"", (1, 49, "warning", "newer-action")),
    (" preempt\"", " gangpreempt, preempt\"", (1, 62, "warning", "twice")),
    (", preempt", "", (1, 10, "warning", "no-preempt")),
    (" reclaim,", "", (1, 10, "warning", "no-reclaim")),
    (" allocate,", "", (1, 10, "error", "no-allocate")),
    ("allocate, backfill, reclaim, preempt", "preempt, allocate, reclaim",
     (1, 20, "warning", "evicts-first")),
    ("\"enqueue, allocate, backfill, reclaim, preempt\"", "[enqueue, allocate]",
     (1, 10, "error", "refused")),
    ("    enableJobEnqueued: false\n", "", (16, 5, "error", "never-enters")),
    ("  - name: drf", "  - name: overcommit\n  - name: drf", (13, 5, "error", "never-enters")),
    ("    enablePreemptable: false\n    enableReclaimable: false\n  - name: conformance",
     "    enableReclaimable: false\n  - name: conformance", (5, 5, "error", "gang-spared")),
    ("    enablePreemptable: false\n    enableReclaimable: false\n  - name: conformance",
     "    enablePreemptable: false\n    enableReclaimable: true\n  - name: conformance",
     (7, 24, "error", "reclaim-ping-pong")),
    ("conformance\n    enableReclaimable: false", "conformance", (8, 5, "error",
                                                                "reclaim-ping-pong")),
    ("conformance\n    enableReclaimable: false", "pdb", (8, 5, "error", "reclaim-ping-pong")),
    ("  - name: drf\n    enablePreemptable: false", "  - name: drf", (13, 5, "error",
                                                                      "drf-preempts")),
    ("  - name: priority\n", "", (2, 1, "error", "priority-not-asked")),
    ("  - name: priority\n", "  - name: priority\n    enablePreemptable: no\n",
     (5, 24, "error", "priority-not-asked")),
    ("  - name: capacity", "  - name: proportion\n  - name: capacity", (16, 5, "error",
                                                                        "two-shares")),
    ("  - name: capacity\n    enableHierarchy: true\n    enableJobEnqueued: false\n", "",
     (2, 1, "error", "shares-not-asked")),
    ("enableHierarchy: true\n", "enableReclaimable: false\n", (17, 24, "error",
                                                             "shares-not-asked")),
    ("enableHierarchy: true\n", "enablePreemptive: false\n", (17, 23, "error",
                                                            "reclaim-ping-pong")),
    ("  - name: gang\n    enablePreemptable: false\n    enableReclaimable: false\n", "",
     (2, 1, "error", "no-gang")),
    ("  - name: predicates\n", "", (2, 1, "error", "no-predicates")),
    ("  - name: conformance\n    enableReclaimable: false\n", "",
     (2, 1, "warning", "system-not-spared")),
    ("  - name: binpack", "  - name: bin-pack", (20, 11, "error", "unknown-plugin")),
    ("  - name: binpack", "  - name: nodeorder", (20, 11, "warning", "twice")),
    ("    enableJobEnqueued: false", "    enableJobEnqued: false\n    enableJobEnqueued: false",
     (18, 5, "error", "ignored")),
    ("    enableJobEnqueued: false", "    enableJobEnqueued: \"false\"", (18, 24, "error",
                                                                         "refused")),
    ("sla-waiting-time: 1h", "sla-waiting-time: 1d", (11, 35, "warning", "ignored")),
    ("sla-waiting-time: 1h", "sla-waiting: 1h", (11, 17, "warning", "ignored")),
    ("  - name: binpack", "  - name: binpack\n    arguments: {binpack.cpu: \"5\"}",
     (21, 30, "warning", "ignored")),
    ("tiers:", "tier:", (2, 1, "error", "ignored")),
    ("  - name: nodeorder", "  - name: nodeorder\n    enableHierarchy: true",
     (20, 22, "warning", "ignored")),
    ("- plugins:\n  - name: drf", "- plugin:\n  - name: drf", (12, 3, "error", "ignored")),
    ("  - name: nodeorder", "  - nodeorder", (19, 5, "error", "refused")),
    ("actions:", "configurations: [{name: enqueu, arguments: {}}]\nactions:",
     (1, 19, "warning", "ignored")),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), TRAPS)
def test_a_trap_is_found_where_it_stands(old, new, expected):
    assert old in GOOD
    assert expected in rules(GOOD.replace(old, new, 1))


def test_conformance_above_priority_decides_alone():
    text = GOOD.replace("  - name: priority\n", "").replace(
        "- plugins:\n  - name: drf", "- plugins:\n  - name: priority\n  - name: drf"
    )
    assert (7, 5, "error", "decides-alone") in rules(text)


def test_in_one_tier_conformance_and_capacity_must_agree_and_nothing_is_wrong():
    text = GOOD.replace("  - name: conformance\n    enableReclaimable: false\n", "").replace(
        "  - name: nodeorder", "  - name: conformance\n  - name: nodeorder"
    )
    assert not any(rule == "reclaim-ping-pong" for *_, rule in rules(text))


def test_beside_capacity_gang_spares_every_gang():
    gang = "  - name: gang\n    enablePreemptable: false\n    enableReclaimable: false\n"
    text = GOOD.replace(gang, "").replace(
        "  - name: drf", "  - name: gang\n    enablePreemptable: false\n  - name: drf"
    )
    assert {rule for *_, rule in rules(text)} == {"gang-spared"}


def test_without_enqueue_nobody_keeps_jobs_out():
    text = GOOD.replace("enqueue, ", "").replace("    enableJobEnqueued: false\n", "")
    assert not any(rule == "never-enters" for *_, rule in rules(text))


def test_reclaim_alone_works_with_a_queue_plugin_that_lets_jobs_enter_by_share():
    text = GOOD.replace(", preempt", "").replace("    enableJobEnqueued: false\n", "")
    assert not any(rule == "never-enters" for *_, rule in rules(text))


def test_truth_values_are_read_as_volcano_reads_them():
    assert found(GOOD.replace("false", "no").replace("true", "yes")) == []


def test_a_finding_tells_what_happens_why_and_what_to_do():
    (finding,) = found(GOOD.replace("conformance\n    enableReclaimable: false", "conformance"))
    assert str(finding) == (
        "0.conf:8:5: error: two queues evict each other for ever, each in its turn "
        "[reclaim-ping-pong]\n"
        "    why: conformance in tier 1 names the victims, so that capacity in tier 2 is never "
        "asked who has more than its share\n"
        "    do:  write enableReclaimable: false at conformance, or move it into the tier of "
        "capacity"
    )
    assert finding.to_json()["rule"] == "reclaim-ping-pong"


def test_places_inside_a_configmap_are_those_of_the_file():
    body = "".join(f"    {line}\n" if line else "\n" for line in GOOD.splitlines())
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- kind: ConfigMap\n  apiVersion: v1\n  metadata:\n"
        "    name: c\n  data:\n    volcano-scheduler.conf: |\n"
        + "".join(f"  {line}\n" for line in body.splitlines())
    )
    bad = text.replace("conformance\n          enableReclaimable: false", "conformance")
    assert bad != text
    assert found(text) == []
    (finding,) = found(bad)
    assert text.splitlines()[finding.line - 1][finding.column - 1 :].startswith("name: conformance")


def test_a_configuration_in_quotes_has_the_place_of_its_text():
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
        'data: {volcano-scheduler.conf: "actions: \\"allocat\\"\\ntiers: []\\n"}\n'
    )
    assert (4, 32, "error", "refused") in rules(text)


QUEUES = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {parent: root, deserved: {nvidia.com/gpu: 4}, capability: {nvidia.com/gpu: 8}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: a}
spec: {parent: team, deserved: {nvidia.com/gpu: 3}, guarantee: {resource: {nvidia.com/gpu: 0}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: b}
spec: {parent: team, deserved: {nvidia.com/gpu: 1}}
"""
QUEUE_TRAPS = [
    ("deserved: {nvidia.com/gpu: 4}, cap", "deserved: {nvidia.com/gpu: 9}, cap",
     (4, 49, "error", "deserved-over-limit")),
    ("resource: {nvidia.com/gpu: 0}", "resource: {nvidia.com/gpu: 4}",
     (9, 92, "error", "guarantee-over-deserved")),
    ("resource: {nvidia.com/gpu: 0}", "resource: {memory: 4Gi}",
     (9, 84, "error", "guarantee-over-deserved")),
    ("guarantee: {resource: {nvidia.com/gpu: 0}}", "guarantee: {nvidia.com/gpu: 2}",
     (9, 64, "error", "ignored")),
    ("deserved: {nvidia.com/gpu: 1}", "deserved: {nvidia.com/gpu: 2}",
     (4, 32, "error", "children-over-parent")),
    ("deserved: {nvidia.com/gpu: 1}", "capability: {nvidia.com/gpu: 9}",
     (14, 51, "error", "limit-over-parent")),
    ("parent: team, deserved: {nvidia.com/gpu: 1}", "parent: none",
     (14, 16, "warning", "unknown-parent")),
    ("parent: team, deserved: {nvidia.com/gpu: 1}", "parent: default",
     (14, 16, "error", "default-is-parent")),
    ("parent: root", "parent: b", (4, 16, "error", "circle")),
    ("spec: {parent: team, deserved: {nvidia.com/gpu: 1}",
     "spec: {reclaimable: false, parent: team, deserved: {nvidia.com/gpu: 1}",
     (14, 21, "error", "never-gives-back")),
    ("{parent: team, deserved: {nvidia.com/gpu: 1}", "{reclaimble: true, parent: team",
     (14, 8, "error", "ignored")),
    ("{parent: team, deserved: {nvidia.com/gpu: 1}", "{weight: 0, parent: team",
     (14, 16, "error", "no-quantity")),
    ("deserved: {nvidia.com/gpu: 1}", "deserved: {nvidia.com/gpu: many}",
     (14, 49, "error", "no-quantity")),
]  # fmt: skip


def test_queues_that_fit_together_are_clean():
    assert found(GOOD, QUEUES) == []


@pytest.mark.parametrize(("old", "new", "expected"), QUEUE_TRAPS)
def test_a_queue_that_cannot_work_is_found(old, new, expected):
    assert old in QUEUES
    assert expected in rules(GOOD, QUEUES.replace(old, new, 1))


def test_a_queue_that_never_gives_back_is_harmless_at_its_cap():
    text = QUEUES.replace(
        "parent: team, deserved: {nvidia.com/gpu: 1}",
        "parent: team, reclaimable: false, deserved: {nvidia.com/gpu: 1}, "
        "capability: {nvidia.com/gpu: 1}",
    )
    assert found(GOOD, text) == []


def test_parents_without_a_hierarchy_have_no_effect():
    flat = GOOD.replace("    enableHierarchy: true\n", "")
    assert (9, 16, "error", "no-hierarchy") in rules(flat, QUEUES)


def test_proportion_does_not_read_what_a_queue_deserves():
    text = GOOD.replace("capacity\n    enableHierarchy: true", "proportion")
    assert (4, 32, "error", "deserved-not-read") in rules(text, QUEUES)


def test_a_queue_that_deserves_nothing_is_a_warning():
    text = QUEUES.replace(", deserved: {nvidia.com/gpu: 1}", "")
    assert rules(GOOD, text) == {(13, 18, "warning", "no-deserved")}


def test_missing_actions_are_errors_where_somebody_counts_on_them():
    text = GOOD.replace(" reclaim, preempt", "").replace("backfill,", "backfill")
    assert rules(text) == {
        (1, 10, "warning", "no-preempt"), (1, 10, "warning", "no-reclaim"),
    }  # fmt: skip
    assert (1, 10, "error", "no-reclaim") in rules(text, QUEUES)
    assert (1, 10, "error", "no-preempt") in rules(text, CLASSES)


CLASSES = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
globalDefault: true
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
globalDefault: false
"""


def test_priorities_that_differ_and_have_a_default_are_clean():
    assert found(GOOD, CLASSES) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("globalDefault: true", "globalDefault: false", (3, 18, "warning", "no-default")),
        ("globalDefault: false", "globalDefault: true", (11, 16, "error", "two-defaults")),
        ("globalDefault: false", "preemptionPolicy: Never", (11, 19, "warning", "never-preempts")),
        ("value: 1000", "value: 2000000000", (10, 8, "error", "no-quantity")),
        ("value: 1000", "value: high", (10, 8, "error", "no-quantity")),
        ("value: 1000", "value: 10", (4, 8, "error", "one-priority")),
    ],
)
def test_a_priority_that_cannot_work_is_found(old, new, expected):
    assert expected in rules(GOOD, CLASSES.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b: c", "0.conf:1:5: a second `: ` on this line"),
        ("kind: Pod\napiVersion: v1\n", "nothing of Volcano's is in it"),
        ("- 1\n", "0.conf:1:3: expected keys and values, got the number 1"),
        ("actions: allocate\nactions: allocate\n", "0.conf:2:1: actions: is there twice"),
        ("x: 1\n" + " " * 1_100_000, "is too big"),
        (b"\xff\xfe\x00", "UTF-16"),
        (b"actions: \xff", "0.conf:1:10: byte 0xff is not UTF-8"),
        ("kind: ConfigMap\ndata:\n  a.conf: |\n    actions: x\n    tiers: [\n",
         "0.conf:"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_message_with_its_place(text, words):
    with pytest.raises(JobFileError) as caught:
        found(text)
    assert words in str(caught.value)


def test_json_is_read_too_and_may_be_indented_by_tabs():
    text = '{\n\t"actions": "allocate, preempt",\n\t"tiers": [\n\t\t{"plugins": []}]}'
    assert any(each.rule == "priority-not-asked" for each in found(text))


def test_all_files_are_looked_at_together_and_two_configurations_are_told():
    assert any(each.rule == "twice" and each.file == "1.conf" for each in found(GOOD, GOOD))
