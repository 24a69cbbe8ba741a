"""The site file: what it may say, and how it says what is wrong."""

import pytest

from dromon.clusters import shares
from dromon.clusters.sitefile import load_site
from dromon.errors import JobFileError


def problems(text):
    with pytest.raises(JobFileError) as caught:
        load_site(text, "site.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_a_number_alone_is_a_priority_and_an_empty_queue_is_one():
    site = load_site("queues: {a: }\npriorities: {low: 10}\n", "site.yaml")
    assert site.priorities["low"].value == 10
    assert site.priorities["low"].preempt == "lower"
    assert site.queues["a"].reclaimable


def test_every_problem_is_told_at_once_with_its_place():
    said = problems(
        "queues:\n"
        "  a: {shar: {gpus: 8}, weight: 0}\n"
        "  B_x: {}\n"
        "  c: {share: {gpus: 9}, cap: {gpus: 8, cpu: 3}, parent: d}\n"
        "prioritys: {}\n"
        "priorities: {a: {preempt: x}, system-b: 3}\n"
    )
    assert said == [
        "site.yaml:2:7: queues.a.shar: unknown key; did you mean share?",
        "site.yaml:2:32: queues.a.weight: expected at least 1, got the number 0",
        "site.yaml:3:3: queues.B_x: 'B_x' is not a name: small letters, digits and dashes, at most "
        "63; did you mean b-x?",
        "site.yaml:4:40: queues.c.cap.cpu: unknown key; did you mean cpus?",
        "site.yaml:4:57: queues.c.parent: there is no queue 'd'; add it, or leave parent out",
        "site.yaml:5:1: prioritys: unknown key; did you mean priorities?",
        "site.yaml:6:14: priorities.a.value: missing",
        "site.yaml:6:27: priorities.a.preempt: expected lower or never, got 'x'; one of lower, "
        "never",
        "site.yaml:6:31: priorities.system-b: names that begin with system- are Kubernetes' own; "
        "choose another",
    ]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("queues: {a: {share: {gpus: 9}, cap: {gpus: 8}}}", "1:28", "more than its cap of 8 GPUs"),
        ("queues: {a: {guarantee: {gpus: 2}}}", "1:32", "2 GPUs is more than its share"),
        ("queues: {a: {guarantee: {cpus: 2}, share: {cpus: 1}}}", "1:32", "its share of 1 CPUs"),
        ("queues: {a: {parent: a}}", "1:22", "a would be above itself"),
        ("queues: {a: {parent: default}, default: {}}", "1:22", "default cannot have queues"),
        ("queues: {root: {}}", "1:10", "root is the name of what all queues hang from"),
        ("queues: {a: {weight: 2}}", "1:14", "nobody says of what this is a part"),
        ("total: {gpus: 4}\nqueues: {a: {weight: 2, share: {gpus: 1}}}", "2:14",
         "cannot stand beside share"),
        ("total: {gpus: 4}\nqueues: {a: {share: {gpus: 3}}, b: {share: {gpus: 2}}}", "1:15",
         "the shares of all queues come to 5 GPUs, this is only 4 GPUs"),
        ("queues: {p: {share: {gpus: 3}}, a: {parent: p, share: {gpus: 4}}}", "1:28",
         "the shares of the queues below p come to 4 GPUs"),
        ("queues: {p: {cap: {memory: 1GiB}}, a: {parent: p, cap: {memory: 2GiB}}}", "1:65",
         "2.0 GiB of memory is more than the cap of p, 1.0 GiB of memory"),
        ("priorities: {a: {value: 1, default: true}, b: {value: 2, default: true}}", "1:67",
         "a is the default already"),
        ("priorities: {system-a: 1}", "1:14", "Kubernetes' own"),
        ("priorities: {a: 2000000000}", "1:14", "expected at most"),
        ("- a", "1:1", "expected keys and values, got a list"),
        ("", "1:1", "is empty"),
        ("queues: {a: {cap: {gpus: 2}}, a: {}}", "1:31", "is there twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_where_it_stands(text, place, words):
    (said,) = problems(text)
    assert said.startswith(f"site.yaml:{place}: ")
    assert words in said


def test_weights_divide_what_fixed_shares_leave():
    site = load_site(
        "total: {cpus: 100, memory: 1GiB, gpus: 10}\n"
        "queues: {a: {weight: 1}, b: {weight: 2}, c: {share: {gpus: 1}}}\n",
        "site.yaml",
    )
    owed = shares.shares(site)
    assert owed["a"]["gpus"] == 3
    assert owed["b"]["gpus"] == 6
    assert owed["b"]["cpus"] == 66
    assert owed["c"] == {"gpus": 1}
    assert owed["a"]["memory"] % 2**20 == 0


def test_a_share_by_weight_never_passes_the_queues_own_cap():
    site = load_site(
        "total: {gpus: 10}\nqueues: {a: {weight: 1, cap: {gpus: 2}}, b: {weight: 1}}\n", "s"
    )
    assert shares.shares(site) == {"a": {"gpus": 2}, "b": {"gpus": 5}}


def test_a_parent_is_owed_what_its_children_are_promised():
    site = load_site(
        "queues: {p: , a: {parent: p, share: {gpus: 3}, guarantee: {gpus: 1}},"
        " b: {parent: p, share: {gpus: 2}}}",
        "s",
    )
    assert shares.shares(site)["p"] == {"gpus": 5}
    assert shares.guarantees(site)["p"] == {"gpus": 1}


def test_parents_come_before_their_children():
    site = load_site("queues: {a: {parent: z}, z: , b: }", "s")
    assert [name for name, _ in shares.in_order(site)] == ["b", "z", "a"]
