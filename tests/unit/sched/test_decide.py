"""Who starts, who waits, who gives way."""

import pytest

from dromon.sched import events
from dromon.sched.asks import RoleAsk, Share
from dromon.sched.decide import Refuse, Start

GIB = 2**30


def test_job_that_fits_starts_with_its_share(a_box):
    box = a_box(cpus=4, gpus=2)
    box.submit("a", cpus=1.5, memory=GIB, gpus=1)
    assert box.decide() == (Start("a", {"worker-0": Share("here", 1.5, GIB, ("0",))}),)


def test_deciding_starts_nothing_by_itself(a_box):
    box = a_box(cpus=1)
    box.submit("a", cpus=1)
    assert box.decide() == box.decide() != ()


def test_gang_starts_whole_or_not_at_all(a_box):
    box = a_box(cpus=4)
    box.submit("small", cpus=2)
    box.go()
    box.submit("gang", replicas=3, cpus=1)
    assert box.go() == []
    box.end("small")
    assert box.go() == ["gang"]
    assert len(box.cluster.jobs["gang"].placement) == 3


def test_every_role_of_a_gang_must_fit(a_box):
    box = a_box(cpus=3, gpus=1)
    box.submit("a", roles=(RoleAsk("ps", 2, 2, cpus=1), RoleAsk("worker", 1, 1, cpus=1, gpus=1)))
    box.submit("b", roles=(RoleAsk("ps", 1, 1, cpus=1), RoleAsk("worker", 1, 1, gpus=1)))
    assert box.go() == ["a"]
    assert sorted(box.cluster.jobs["a"].placement) == ["ps-0", "ps-1", "worker-0"]


def test_elastic_gang_takes_what_is_free_above_min(a_box):
    box = a_box(cpus=3)
    box.submit("a", replicas=8, min=2, cpus=1)
    box.go()
    assert list(box.cluster.jobs["a"].placement) == ["worker-0", "worker-1", "worker-2"]


def test_elastic_gang_waits_below_min(a_box):
    box = a_box(cpus=4)
    box.submit("a", cpus=3)
    box.submit("b", replicas=4, min=2, cpus=1)
    assert box.go() == ["a"]


def test_submit_order_decides_among_equals(a_box):
    box = a_box(cpus=1)
    for id in ("c", "a", "b"):
        box.submit(id, cpus=1)
    order = []
    while box.cluster.jobs:
        order += box.go()
        box.end(order[-1])
    assert order == ["c", "a", "b"]


def test_higher_priority_goes_first(a_box):
    box = a_box(cpus=1)
    box.submit("low", priority=-5, cpus=1)
    box.submit("high", priority=10, cpus=1)
    box.submit("normal", cpus=1)
    assert box.go() == ["high"]
    box.end("high")
    assert box.go() == ["normal"]


def test_released_job_keeps_its_place_in_the_order(a_box):
    box = a_box(cpus=1)
    box.submit("first", cpus=1)
    box.go()
    box.submit("second", cpus=1)
    box.cluster.apply(events.JobReleased("first"))
    assert box.go() == ["first"]


def test_smaller_job_does_not_pass_a_blocked_one(a_box):
    box = a_box(cpus=4)
    box.submit("a", cpus=3)
    box.go()
    box.submit("big", cpus=4)
    box.submit("small", cpus=1)
    assert box.go() == []


def test_job_of_another_dimension_passes_what_it_cannot_delay(a_box):
    box = a_box(cpus=4, gpus=1)
    box.submit("a", cpus=1, gpus=1)
    box.go()
    box.submit("blocked", cpus=2, gpus=1)
    box.submit("cpu-1", cpus=1)
    box.submit("cpu-2", cpus=1)  # would take a CPU that is set aside
    assert box.go() == ["cpu-1"]
    box.end("a")
    assert box.go() == ["blocked", "cpu-2"]


def test_nothing_of_what_a_blocked_job_lacks_is_given_away(a_box):
    box = a_box(cpus=8, gpus=4)
    box.submit("a", gpus=2)
    box.go()
    box.submit("blocked", gpus=3)
    box.submit("one-gpu", gpus=1)
    box.submit("cpu", cpus=1)
    assert box.go() == ["cpu"]


def test_what_is_set_aside_lies_where_the_blocked_job_can_go(a_box):
    box = a_box().node("cpu-node", cpus=2).node("gpu-node", cpus=2, gpus=1)
    box.submit("a", gpus=1)
    box.go()
    box.submit("blocked", cpus=2, gpus=1)
    box.submit("cpu", replicas=2, min=1, cpus=1.5)
    assert box.go() == ["cpu"]
    assert {s.node for s in box.cluster.jobs["cpu"].placement.values()} == {"cpu-node"}


def test_fractions_of_cpus_add_up(a_box):
    box = a_box(cpus=1)
    for n in range(4):
        box.submit(f"third-{n}", cpus=0.333)
    assert len(box.go()) == 3
    box.end("third-0", "third-1", "third-2")
    assert box.go() == ["third-3"]
    box.end("third-3")
    box.submit("whole", cpus=1)
    assert box.go() == ["whole"]


def test_ten_tenths_fill_a_cpu(a_box):
    box = a_box(cpus=1)
    for n in range(11):
        box.submit(f"tenth-{n}", cpus=0.1)
    assert len(box.go()) == 10


def test_memory_is_counted_where_it_is_asked_for(a_box):
    box = a_box(memory=4 * GIB)
    box.submit("a", memory=3 * GIB)
    box.submit("unaccounted", cpus=1)
    box.submit("b", memory=2 * GIB)
    assert box.go() == ["a", "unaccounted"]


def test_no_gpu_is_given_twice(a_box):
    box = a_box(gpus=3)
    box.submit("a", gpus=2)
    box.submit("b", gpus=1)
    box.go()
    assert box.gpus_of("a") == [("0", "1")]
    assert box.gpus_of("b") == [("2",)]
    box.end("a")
    box.submit("c", replicas=2, gpus=1)
    box.go()
    assert box.gpus_of("c") == [("0",), ("1",)]


def test_gpu_of_the_kind_asked_for(a_box):
    box = a_box(gpus=("t4", "a100", "t4"))
    box.submit("a", gpus=1, gpu_kind="a100")
    box.go()
    assert box.gpus_of("a") == [("1",)]


def test_gpu_held_by_another_user_is_not_given(a_box):
    box = a_box(gpus=2)
    box.cluster.apply(events.GpuHeld("here", "0", "bob"))
    box.submit("a", gpus=1)
    box.submit("b", gpus=1)
    assert box.go() == ["a"]
    assert box.gpus_of("a") == [("1",)]
    box.cluster.apply(events.GpuFreed("here", "0"))
    assert box.go() == ["b"]


def test_gpu_taken_by_others_while_a_job_had_it_stays_theirs(a_box):
    box = a_box(gpus=1)
    box.submit("a", gpus=1)
    box.go()
    box.cluster.apply(events.GpuHeld("here", "0", "bob"))
    box.end("a")
    box.submit("b", gpus=1)
    assert box.go() == []
    box.cluster.apply(events.GpuFreed("here", "0"))
    assert box.go() == ["b"]


def test_label_and_spread_choose_nodes(a_box):
    box = a_box().node("n1").node("n2", labels=("gpu",)).node("n3", labels=("gpu",))
    box.submit("a", replicas=2, cpus=1, node_label="gpu", spread="node")
    box.go()
    assert {s.node for s in box.cluster.jobs["a"].placement.values()} == {"n2", "n3"}


def test_gang_is_packed_where_it_fits_best(a_box):
    box = a_box().node("big", cpus=8).node("small", cpus=2)
    box.submit("a", replicas=2, cpus=1)
    box.go()
    assert {s.node for s in box.cluster.jobs["a"].placement.values()} == {"small"}


def test_seed_settles_ties_and_nothing_else(a_box):
    box = a_box().node("n1").node("n2")
    box.submit("a", cpus=1)
    chosen = {box.decide(seed)[0].placement["worker-0"].node for seed in range(2)}
    assert chosen == {"n1", "n2"}


def test_changed_node_keeps_what_runs_on_it(a_box):
    box = a_box(cpus=4, gpus=1)
    box.submit("a", cpus=3, gpus=1)
    box.go()
    box.node(cpus=5, gpus=2)
    free = box.cluster.nodes["here"].free
    assert (free.cpus, [g.id for g in free.gpus]) == (2000, ["1"])


def test_node_that_left_gives_nothing_and_takes_nothing_back(a_box):
    box = a_box(cpus=1)
    box.submit("a", cpus=1)
    box.go()
    box.cluster.apply(events.NodeLeft("here"))
    box.end("a")
    box.submit("b", cpus=1)
    assert box.decide() == ()
    box.node(cpus=1)
    assert box.go() == ["b"]


def test_job_that_can_no_longer_ever_fit_is_refused_and_blocks_nobody(a_box):
    box = a_box(cpus=4)
    box.submit("huge", cpus=4)
    box.submit("small", cpus=1)
    box.node(cpus=2)
    refuse, start = box.decide()
    assert refuse == Refuse("huge", "worker: here is the only node: needs 4 CPUs, has 2")
    assert start.job == "small"


def test_events_about_nothing_known_change_nothing(a_box):
    box = a_box(cpus=1)
    for event in (
        events.JobEnded("x"), events.JobReleased("x"), events.JobStopping("x"),
        events.JobStarted("x", {}), events.NodeLeft("y"), events.GpuHeld("y", "0"),
        events.GpuFreed("y", "0"),
    ):  # fmt: skip
        box.cluster.apply(event)
    box.submit("a", cpus=1)
    box.submit("a", cpus=99)
    assert box.go() == ["a"]


# ---- preemption ---------------------------------------------------------------------------------


def test_higher_priority_sends_a_preemptible_job_away_and_gets_its_place(a_box):
    box = a_box(cpus=2)
    box.submit("low", cpus=2, preemptible=True)
    box.go()
    box.submit("high", cpus=1, priority=1)
    assert box.preempted() == ["low"]
    box.go()
    assert box.decide() == ()  # asked once; now it is only waited for
    box.cluster.apply(events.JobReleased("low"))
    assert box.go() == ["high"]


def test_nobody_more_is_sent_away_while_one_makes_room_already(a_box):
    box = a_box(cpus=2)
    box.submit("low-1", cpus=1, preemptible=True)
    box.submit("low-2", cpus=1, preemptible=True)
    box.go()
    box.submit("high", cpus=1, priority=1)
    box.go()
    assert box.cluster.stopping == {"low-2"}
    assert box.decide() == ()


@pytest.mark.parametrize(("priority", "preemptible"), [(0, True), (-1, True), (1, False)])
def test_nobody_is_sent_away_by_its_equal_or_if_not_preemptible(a_box, priority, preemptible):
    box = a_box(cpus=1)
    box.submit("runs", cpus=1, preemptible=preemptible)
    box.go()
    box.submit("waits", cpus=1, priority=priority)
    assert box.decide() == ()


def test_lowest_priority_then_youngest_go_first(a_box):
    box = a_box(cpus=4)
    box.submit("old", cpus=1, preemptible=True)
    box.submit("young", cpus=1, preemptible=True)
    box.submit("lowest", cpus=1, priority=-1, preemptible=True)
    box.submit("other", cpus=1, priority=1, preemptible=True)
    box.go()
    box.submit("high", cpus=2, priority=2)
    assert box.preempted() == ["lowest", "young"]


def test_nobody_is_sent_away_who_would_not_help(a_box):
    box = a_box(cpus=4, gpus=1)
    box.submit("cpu", cpus=1, preemptible=True, priority=-1)
    box.submit("gpu", cpus=1, gpus=1, preemptible=True)
    box.go()
    box.submit("high", gpus=1, priority=5)
    assert box.preempted() == ["gpu"]


def test_nobody_is_sent_away_in_vain(a_box):
    box = a_box(cpus=4)
    box.submit("stays", cpus=3)
    box.submit("low", cpus=1, preemptible=True)
    box.go()
    box.submit("high", cpus=4, priority=5)
    assert box.decide() == ()
