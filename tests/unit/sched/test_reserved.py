"""What is reserved now is used by its owner first, whatever is planned for afterwards."""

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import Preempt, Start, decide
from dromon.sched.rules import QueueRule, Reservation, Rules

DEMO = Reservation("friday", start=0.0, end=65.0, gpus=2, kind=None, user=None, queue="demo")


def two_gpus() -> Cluster:
    cluster = Cluster()
    rules = Rules(queues=(QueueRule("demo"), QueueRule("research")), reservations=(DEMO,))
    cluster.apply(events.RulesChanged(rules))
    cluster.apply(events.NodeJoined("box", 8, 2**34, (Gpu("0", ""), Gpu("1", ""))))
    return cluster


def submit(cluster: Cluster, id: str, seq: int, gpus: int, queue: str) -> None:
    ask = (RoleAsk("worker", 1, 1, gpus=gpus),)
    cluster.apply(events.JobSubmitted(id, seq, 60.0, ask, queue=queue, preemptible=True))


def started(cluster: Cluster, now: float) -> list[str]:
    found = [d for d in decide(cluster, now, 0) if isinstance(d, Start)]
    for start in found:
        cluster.apply(events.JobStarted(start.job, start.placement, now))
    return [start.job for start in found]


def test_owner_uses_its_reservation_though_another_is_planned_for_its_end():
    cluster = two_gpus()
    submit(cluster, "others", 1, 2, "research")
    assert started(cluster, 60.0) == []
    submit(cluster, "endless", 2, 1, "demo")
    assert started(cluster, 60.5) == ["endless"]


def test_who_asks_for_more_than_is_left_of_the_reservation_has_no_precedence():
    cluster = two_gpus()
    submit(cluster, "others", 1, 2, "research")
    submit(cluster, "first", 2, 1, "demo")
    assert started(cluster, 60.0) == ["first"]
    submit(cluster, "second", 3, 2, "demo")
    assert started(cluster, 61.0) == []


def test_owner_has_no_precedence_once_the_reservation_is_over():
    cluster = two_gpus()
    submit(cluster, "others", 1, 2, "research")
    submit(cluster, "late", 2, 2, "demo")
    assert started(cluster, 65.0) == ["others"]


def test_whom_room_is_made_for_is_not_passed_on_the_gpu_it_can_have_at_once():
    """`late` may not have the free GPU while `early` runs on into the reservation; once `early` is
    told to go it may, and who stands behind it must leave it there."""
    cluster = Cluster()
    friday = Reservation("friday", start=50.0, end=150.0, gpus=1, user="bob")
    queues = (QueueRule("a"), QueueRule("b"), QueueRule("c"))
    cluster.apply(events.RulesChanged(Rules(queues=queues, reservations=(friday,))))
    for name, gpus in (("big", 4), ("small", 2)):
        devices = tuple(Gpu(str(n)) for n in range(gpus))
        cluster.apply(events.NodeJoined(name, 8, 2**34, devices))
    for seq, (id, queue, gpus) in enumerate(
        [("other", "a", 2), ("early", "b", 3), ("behind", "a", 1), ("late", "c", 1)]
    ):
        ask = (RoleAsk("worker", 1, 1, gpus=gpus),)
        event = events.JobSubmitted(
            id, seq, 0.0, ask, queue=queue, preemptible=True, stop_grace=10.0
        )
        cluster.apply(event)
        if id in ("other", "early"):
            assert started(cluster, 0.0) == [id]
    assert decide(cluster, 0.0, 0) == (Preempt("early", "late", "reclaim"),)
    cluster.apply(events.JobStopping("early", 0.0, "late"))
    assert started(cluster, 0.0)[:1] == ["late"]
