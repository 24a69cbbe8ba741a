"""The site file: what it may say, and how it says what is wrong."""

import pytest

from dromon.errors import JobFileError
from dromon.site import shares
from dromon.site.file import load_site


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
        "  a: {share: {gpus: 8}, weight: 0, deservd: {gpus: 1}}\n"
        "  B_x: {}\n"
        "  c: {deserved: {gpus: 9}, limit: {gpus: 8, cpu: 3}, parent: d}\n"
        "prioritys: {}\n"
        "priorities: {a: {preempt: x}, system-b: 3}\n"
    )
    assert said == [
        "site.yaml:2:7: queues.a.share: unknown key; did you mean deserved?",
        "site.yaml:2:33: queues.a.weight: expected at least 1, got the number 0",
        "site.yaml:2:36: queues.a.deservd: unknown key; did you mean deserved?",
        "site.yaml:3:3: queues.B_x: 'B_x' is not a name: small letters, digits and dashes, at most "
        "63; did you mean b-x?",
        "site.yaml:4:45: queues.c.limit.cpu: unknown key; did you mean cpus?",
        "site.yaml:4:62: queues.c.parent: there is no queue 'd'; add it, or leave parent out",
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
        ("queues: {a: {deserved: {gpus: 9}, limit: {gpus: 8}}}", "1:31",
         "more than its limit of 8 GPUs"),
        ("queues: {a: {guarantee: {gpus: {v: 9}}, limit: {gpus: {v: 8}}}}", "1:36",
         "9 v GPUs is more than its limit of 8 v GPUs"),
        ("queues: {a: {guarantee: {gpus: 2}, deserved: {cpus: 1}}}", "1:32",
         "2 GPUs is more than what it deserves"),
        ("queues: {a: {guarantee: {cpus: 2}, deserved: {cpus: 1}}}", "1:32",
         "more than what it deserves of 1 CPU"),
        ("queues: {a: {budget: {year: 2}}}", "1:23", "unknown key; one of day, week, month"),
        ("queues: {a: {limit: {gpus: {v: -1}}}}", "1:32", "-1 GPUs cannot be"),
        ("queues: {a: {submit: [ann]}}", "1:22", "expected a mapping, got a list"),
        ("users: {ann: {weight: 0}}", "1:23", "expected at least 1"),
        ("priorities: {a: {value: 1, user_budget: {week: -1}}}", "1:48", "expected at least 0"),
        ("reservations: {r: {start: 2026-11-20T08:00Z, end: 2026-11-20T08:00Z, gpus: 1, user: a}}",
         "1:51", "is not after start"),
        ("reservations: {r: {start: 2026-11-20T08:00, end: 2026-11-21T08:00Z, gpus: 1, user: a}}",
         "1:27", "has no time zone; write 2026-11-20T08:00Z for UTC"),
        ("reservations: {r: {start: tomorrow, end: 2026-11-21T08:00Z, gpus: 1, user: a}}", "1:27",
         "'tomorrow' is not a moment"),
        ("reservations: {r: {start: 2026-11-20T08:00Z, end: 2026-11-21T08:00Z, gpus: 1}}", "1:16",
         "for whom is it?"),
        ("reservations: {r: {start: 2026-11-20T08:00Z, end: 2026-11-21T08:00Z, gpus: 1, queue: q}}",
         "1:86", "there is no queue 'q'"),
        ("reservations: {r: {start: 2026-11-20T08:00Z, end: 2026-11-21T08:00Z, gpus: {a: 1, b: 2}, "
         "user: u}}", "1:76", "is of one kind"),
        ("policy: lifo", "1:9", "expected fair or fifo or sjf"),
        ("queues: {a: {parent: a}}", "1:22", "a would be above itself"),
        ("queues: {a: {parent: default}, default: {}}", "1:22", "default cannot have queues"),
        ("queues: {root: {}}", "1:10", "root is the name of what all queues hang from"),
        ("total: {gpus: 4}\nqueues: {a: {weight: 2, deserved: {gpus: 1}}}", "2:14",
         "cannot stand beside deserved"),
        ("total: {gpus: 4}\nqueues: {a: {deserved: {gpus: 3}}, b: {deserved: {gpus: 2}}}", "1:15",
         "all queues deserve 5 GPUs, this is only 4 GPUs"),
        ("queues: {p: {deserved: {gpus: 3}}, a: {parent: p, deserved: {gpus: 4}}}", "1:31",
         "the queues below p deserve 4 GPUs"),
        ("queues: {p: {limit: {memory: 1GiB}}, a: {parent: p, limit: {memory: 2GiB}}}", "1:69",
         "2.0 GiB of memory is more than the limit of p, 1.0 GiB of memory"),
        ("priorities: {a: {value: 1, default: true}, b: {value: 2, default: true}}", "1:67",
         "a is the default already"),
        ("priorities: {system-a: 1}", "1:14", "Kubernetes' own"),
        ("priorities: {a: 2000000000}", "1:14", "expected at most"),
        ("- a", "1:1", "expected keys and values, got a list"),
        ("", "1:1", "is empty"),
        ("queues: {a: {limit: {gpus: 2}}, a: {}}", "1:33", "is there twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_where_it_stands(text, place, words):
    (said,) = problems(text)
    assert said.startswith(f"site.yaml:{place}: ")
    assert words in said


def test_weights_divide_what_fixed_shares_leave():
    site = load_site(
        "total: {cpus: 100, memory: 1GiB, gpus: 10}\n"
        "queues: {a: {weight: 1}, b: {weight: 2}, c: {deserved: {gpus: 1}}}\n",
        "site.yaml",
    )
    owed = shares.deserved(site)
    assert owed["a"]["gpus"] == 3
    assert owed["b"]["gpus"] == 6
    assert owed["b"]["cpus"] == 66
    assert owed["c"] == {"gpus": 1}
    assert owed["a"]["memory"] % 2**20 == 0


def test_a_share_by_weight_never_passes_the_queues_own_limit():
    site = load_site(
        "total: {gpus: 10}\nqueues: {a: {weight: 1, limit: {gpus: 2}}, b: {weight: 1}}\n", "s"
    )
    assert shares.deserved(site) == {"a": {"gpus": 2}, "b": {"gpus": 5}}


def test_a_parent_is_owed_what_its_children_are_promised():
    site = load_site(
        "queues: {p: , a: {parent: p, deserved: {gpus: 3}, guarantee: {gpus: 1}},"
        " b: {parent: p, deserved: {gpus: 2}}}",
        "s",
    )
    assert shares.deserved(site)["p"] == {"gpus": 5}
    assert shares.guarantees(site)["p"] == {"gpus": 1}


def test_parents_come_before_their_children():
    site = load_site("queues: {a: {parent: z}, z: , b: }", "s")
    assert [name for name, _ in shares.in_order(site)] == ["b", "z", "a"]
