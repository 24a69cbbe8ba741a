"""What queues deserve of what there is."""

import pytest

from dromon.sched import events
from dromon.sched.asks import Gpu
from dromon.sched.rules import QueueRule

GIB = 2**30


@pytest.mark.parametrize(
    ("deserved", "owed"),
    [
        ({"gpus": 6}, {"cpus": 48, "memory": 768 * GIB, "gpus": 6}),
        ({"gpus": 6, "cpus": 8}, {"cpus": 8, "memory": 768 * GIB, "gpus": 6}),
        ({"cpus": 16}, {"cpus": 16, "memory": 256 * GIB, "gpus": 4}),  # of GPUs by weight
        ({"gpus": 0}, {"cpus": 32, "memory": 512 * GIB, "gpus": 0}),
    ],
)
def test_cpus_and_memory_that_are_not_named_go_along_with_the_gpus(a_site, deserved, owed):
    site = a_site(QueueRule("a", deserved=deserved), QueueRule("b"), gpus=8)
    tree = site.cluster.accounts.tree
    found, rest = tree["a"].deserved, tree["b"].deserved
    of = {"cpus": 1000, "memory": 1, "gpus": 1000}
    assert {r: found[r] / of[r] for r in of} == owed
    assert {r: (found[r] + rest[r]) / of[r] for r in of} == {
        "cpus": 64, "memory": 1024 * GIB, "gpus": 8
    }  # fmt: skip


def test_kinds_that_are_not_named_go_along_with_the_number_of_gpus(a_site):
    site = a_site(
        QueueRule("a", deserved={"gpus": 6}),
        QueueRule("b", deserved={"gpus": 2, "gpus.a100": 2}),
        gpus=0,
    )
    devices = tuple(Gpu(str(i), "a100" if i < 4 else "v100") for i in range(8))
    site.cluster.apply(events.NodeJoined("big", 64, 2**40, devices))
    kinds = {
        name: {r[5:]: part / 1000 for r, part in queue.deserved.items() if "." in r}
        for name, queue in site.cluster.accounts.tree.items()
    }
    assert kinds["a"] == {"a100": pytest.approx(2), "v100": pytest.approx(3)}
    assert kinds["b"] == {"a100": 2, "v100": 0}


def test_what_goes_along_is_never_more_than_there_is_nor_less_than_was_guaranteed(a_site):
    site = a_site(
        QueueRule("a", deserved={"gpus": 6}),
        QueueRule("b", deserved={"cpus": 32}),
        QueueRule("c", guarantee={"memory": 512 * GIB}),
        gpus=8,
    )
    tree = site.cluster.accounts.tree
    of = {name: tree[name].deserved for name in "abc"}
    assert [of[name]["cpus"] for name in "abc"] == [32000, 32000, 0]
    assert of["c"]["memory"] == 512 * GIB
    assert sum(each["memory"] for each in of.values()) == pytest.approx(1024 * GIB)


def test_a_queue_has_its_gpus_back_with_the_cpus_they_need(a_site):
    site = a_site(QueueRule("a", deserved={"gpus": 6}), QueueRule("b", deserved={"gpus": 2}))
    for n in range(4):
        site.submit(f"b{n}", "b", gpus=2, cpus=16)
    site.go()
    for n in range(3):
        site.submit(f"a{n}", "a", gpus=2, cpus=16)
    assert len(site.gone()) == 3
