"""Why a job waits, and what is refused at once."""

import pytest

from dromon.sched import events
from dromon.sched.asks import RoleAsk
from dromon.sched.placement import can_ever_fit

GIB = 2**30


def test_job_that_lacks_gpus_names_who_holds_them(a_box):
    box = a_box(gpus=2)
    box.submit("a", gpus=2)
    box.go()
    box.submit("b", gpus=1)
    why = box.why("b")
    assert why.sentence == "number 1 in the queue, waits for 1 GPU (0 free); held by a"
    assert (why.reason, why.position) == ("resources", 1)
    assert why.holders == ("a",)
    assert why.missing == {"gpus": 1}
    assert why.unblock[0] == "dromon stop a"


def test_job_behind_a_blocked_one_says_so(a_box):
    box = a_box(cpus=2)
    box.submit("a", cpus=2)
    box.go()
    box.submit("b", cpus=2)
    box.submit("c", cpus=1)
    why = box.why("c")
    assert why.reason == "order"
    assert why.sentence == (
        "number 2 in the queue, behind b, which came first and waits for 2 CPUs (0 free); held by a"
    )
    assert why.holders == ("b", "a")


def test_gpu_outside_our_control_is_named(a_box):
    box = a_box(gpus=1)
    box.cluster.apply(events.GpuHeld("here", "0", "bob"))
    box.submit("a", gpus=1)
    assert "held by bob (GPU 0 of here)" in box.why("a").sentence


def test_preemption_under_way_is_said(a_box):
    box = a_box(cpus=1)
    box.submit("low", cpus=1, preemptible=True)
    box.go()
    box.submit("high", cpus=1, priority=1)
    assert box.why("high").sentence.endswith("low will give way to it")


def test_job_that_is_about_to_start(a_box):
    box = a_box(cpus=1)
    box.submit("a", cpus=1)
    assert box.why("a").reason == "about to start"


def test_job_that_others_are_about_to_shut_out(a_box):
    box = a_box(cpus=1)
    box.submit("a", cpus=1)
    box.submit("b", cpus=1)
    assert box.why("b").missing == {"cpus": 1}


def test_free_but_scattered(a_box):
    box = a_box().node("n1", cpus=4).node("n2", cpus=4)
    for n in range(2):
        box.submit(f"a{n}", cpus=3, spread="node")
    box.go()
    box.submit("b", cpus=2)
    assert "2 CPUs (2 free), which are free but not together" in box.why("b").sentence


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda box: None, "unknown"),
        (lambda box: (box.submit("a"), box.go()), "running"),
        (
            lambda box: (box.submit("a"), box.go(), box.cluster.apply(events.JobStopping("a"))),
            "stopping",
        ),
        (lambda box: box.submit("a", cpus=99), "impossible"),
    ],
)
def test_every_state_has_an_answer(a_box, prepare, reason):
    box = a_box(cpus=1)
    prepare(box)
    assert box.why("a").reason == reason


def test_cluster_without_nodes_has_an_answer(a_box):
    box = a_box()
    box.submit("a", cpus=1)
    assert box.why("a").sentence == "no node is there yet"


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (RoleAsk("w", 1, 1, cpus=5), "w: here is the only node: needs 5 CPUs, has 4"),
        (RoleAsk("w", 1, 1, gpus=3), "w: here is the only node: needs 3 GPUs, has 2"),
        (
            RoleAsk("w", 1, 1, gpus=1, gpu_kind="h100"),
            "w: here is the only node: needs 1 h100 GPU, has 0",
        ),
        (
            RoleAsk("w", 1, 1, gpus=1.5),
            "w asks for 1.5 GPUs; whole ones are given, or a part of one",
        ),
        (
            RoleAsk("w", 1, 1, memory=17 * GIB),
            "w: here is the only node: needs 17.0 GiB of memory, has 16.0 GiB",
        ),
        (RoleAsk("w", 1, 1, node_label="fast"), "w: here is the only node: has no label fast"),
        (
            RoleAsk("w", 5, 5, cpus=1),
            "the gang needs 5 CPUs at once, all nodes together have 4 CPUs",
        ),
        (RoleAsk("w", 2, 2, spread="node"), "2 w on as many nodes, and there are 1"),
    ],
)
def test_what_can_never_fit_is_refused_with_the_reason(a_box, ask, text):
    refusal = can_ever_fit(a_box(cpus=4, gpus=("a100", "a100")).cluster, (ask,))
    assert str(refusal) == text


def test_what_fits_an_empty_cluster_is_not_refused_when_it_is_full(a_box):
    box = a_box(cpus=4, gpus=1)
    box.cluster.apply(events.GpuHeld("here", "0", "bob"))
    box.submit("a", cpus=4)
    box.go()
    assert can_ever_fit(box.cluster, (RoleAsk("w", 9, 4, cpus=1, gpus=0),)) is None
    assert can_ever_fit(box.cluster, (RoleAsk("w", 1, 1, gpus=1),)) is None


def test_several_nodes_each_say_why_not(a_box):
    box = a_box().node("n1", cpus=2).node("n2", cpus=3)
    refusal = can_ever_fit(box.cluster, (RoleAsk("w", 1, 1, cpus=4),))
    assert str(refusal) == (
        "no node can ever take a w: n1 needs 4 CPUs, has 2; n2 needs 4 CPUs, has 3"
    )
