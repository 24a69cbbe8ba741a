"""Repack: rank all, place from empty; who no longer belongs there goes."""

from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide
from dromon.sched.decisions import Decision, Preempt, Start
from dromon.sched.events import JobReleased, JobStarted, JobStopping, JobSubmitted, NodeJoined
from dromon.sched.policies import POLICIES


def cluster_of(policy: str, *sizes: int) -> Cluster:
    cluster = Cluster(policy=POLICIES[policy]())
    for number, size in enumerate(sizes):
        gpus = tuple(Gpu(str(i)) for i in range(size))
        cluster.apply(NodeJoined(f"n{number}", 64, 1 << 40, gpus))
    return cluster


def submit(cluster: Cluster, id: str, gpus: int, duration: float, now: float = 0.0) -> None:
    ask = (RoleAsk("worker", 1, 1, gpus=gpus),)
    cluster.apply(JobSubmitted(id, len(cluster.jobs), now, ask, max_duration=duration))


def carry_out(cluster: Cluster, now: float) -> tuple[Decision, ...]:
    decisions = decide(cluster, now, 0)
    for decision in decisions:
        if isinstance(decision, Preempt):
            cluster.apply(JobStopping(decision.job, now, decision.for_job))
            cluster.apply(JobReleased(decision.job, now))
    for decision in decisions:
        if isinstance(decision, Start):
            cluster.apply(JobStarted(decision.job, decision.placement, now))
    return decisions


def running(cluster: Cluster) -> set[str]:
    return {job.id for job in cluster.running()}


def test_the_shorter_takes_the_place_of_the_longer():
    cluster = cluster_of("srtf", 4)
    submit(cluster, "long", 4, 100)
    carry_out(cluster, 0)
    submit(cluster, "short", 4, 10, now=5)
    decisions = carry_out(cluster, 5)
    assert decisions[0] == Preempt("long", "short", "repack")
    assert running(cluster) == {"short"}


def test_who_has_less_left_is_not_disturbed():
    cluster = cluster_of("srtf", 4)
    submit(cluster, "a", 4, 100)
    carry_out(cluster, 0)
    submit(cluster, "b", 4, 50, now=60)
    assert carry_out(cluster, 60) == ()
    assert running(cluster) == {"a"}


def test_srsf_counts_gpus_too():
    cluster = cluster_of("srsf", 4)
    submit(cluster, "wide", 4, 10)
    submit(cluster, "narrow", 1, 30)
    carry_out(cluster, 0)
    assert running(cluster) == {"narrow"}


def test_what_does_not_fit_is_skipped_and_stops_nobody_behind_it():
    cluster = cluster_of("srtf", 4)
    submit(cluster, "first", 3, 10)
    submit(cluster, "wide", 4, 20)
    submit(cluster, "small", 1, 30)
    carry_out(cluster, 0)
    assert running(cluster) == {"first", "small"}


def test_those_that_stay_are_not_moved_where_others_find_room_beside_them():
    cluster = cluster_of("srtf", 4, 4)
    submit(cluster, "a", 2, 100)
    carry_out(cluster, 0)
    submit(cluster, "b", 4, 10, now=1)
    assert [type(decision) for decision in carry_out(cluster, 1)] == [Start]
    assert running(cluster) == {"a", "b"}


def test_somebody_moves_where_there_is_room_only_from_empty():
    cluster = cluster_of("srtf", 4, 4)
    for id, gpus in (("a", 3), ("b", 3)):  # two nodes, one GPU left on each
        submit(cluster, id, gpus, 100)
        carry_out(cluster, 0)
    assert {s.node for j in cluster.running() for s in j.placement.values()} == {"n0", "n1"}
    submit(cluster, "c", 2, 10, now=1)
    carry_out(cluster, 1)
    assert "c" in running(cluster)
    held = sum(len(s.gpus) for j in cluster.running() for s in j.placement.values())
    assert held <= 8


def test_las_lets_the_newcomer_pass_who_has_had_its_share():
    cluster = cluster_of("las", 4)
    submit(cluster, "old", 4, 10_000)
    carry_out(cluster, 0)
    assert cluster.wakes(0.0) == 3250 / 4
    submit(cluster, "new", 4, 10_000, now=100)
    assert carry_out(cluster, 100) == ()  # both in the first step: who runs stays
    carry_out(cluster, 3250 / 4)
    assert running(cluster) == {"new"}
