"""Where each scorer puts a member, on nodes small enough to be worked out by hand."""

import pytest

from dromon.sched.asks import Gpu, RoleAsk, Share
from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide
from dromon.sched.decisions import Start
from dromon.sched.events import JobStarted, JobSubmitted, NodeJoined
from dromon.sched.placers import PLACERS, Fgd, Placer, Random
from dromon.sched.placers.fgd import Workload


def nodes_of(*sizes: int) -> list[NodeJoined]:
    return [
        NodeJoined(f"n{number}", 64, 1 << 40, tuple(Gpu(str(i)) for i in range(size)))
        for number, size in enumerate(sizes)
    ]


def member(gpus: float, cpus: float = 1) -> RoleAsk:
    return RoleAsk("worker", 1, 1, cpus=cpus, gpus=gpus)


def held(cluster: Cluster, node: str, gpus: float, devices: tuple[str, ...]) -> None:
    """Somebody runs there already."""
    id = f"old-{len(cluster.jobs)}"
    cluster.apply(JobSubmitted(id, len(cluster.jobs), 0.0, (member(gpus),)))
    share = Share(node, 1, None, devices, gpus if gpus < 1 else 1.0)
    cluster.apply(JobStarted(id, {"worker-0": share}))


def placed(cluster: Cluster, gpus: float) -> tuple[str, tuple[str, ...]]:
    """Node and devices that a new job gets."""
    cluster.apply(JobSubmitted("new", 1000, 1.0, (member(gpus),)))
    (decision,) = decide(cluster, 1.0, 0)
    assert isinstance(decision, Start)
    share = decision.placement["worker-0"]
    return share.node, share.gpus


def cluster_with(placer: Placer, *sizes: int) -> Cluster:
    cluster = Cluster(placer=placer)
    for node in nodes_of(*sizes):
        cluster.apply(node)
    return cluster


def test_first_fit_takes_the_first_node_that_has_room():
    cluster = cluster_with(PLACERS["firstfit"](), 2, 8, 4)
    assert placed(cluster, 4)[0] == "n1"


def test_packing_prefers_a_shared_device_then_a_node_in_use():
    cluster = cluster_with(PLACERS["packing"](), 4, 4, 4)
    held(cluster, "n1", 1, ("0",))
    assert placed(cluster, 1)[0] == "n1"
    cluster = cluster_with(PLACERS["packing"](), 4, 4, 4)
    held(cluster, "n1", 1, ("0",))
    held(cluster, "n2", 0.5, ("3",))
    assert placed(cluster, 0.5) == ("n2", ("3",))


def test_clustering_puts_like_to_like():
    cluster = cluster_with(PLACERS["clustering"](), 8, 8, 8)
    held(cluster, "n0", 4, ("0", "1", "2", "3"))
    held(cluster, "n2", 2, ("0", "1"))
    assert placed(cluster, 2)[0] == "n2"


@pytest.mark.parametrize("name", ["tightfit", "dotprod"])
def test_the_fuller_node_is_filled_first(name: str):
    cluster = cluster_with(PLACERS[name](), 8, 8)
    held(cluster, "n1", 4, ("0", "1", "2", "3"))
    assert placed(cluster, 4)[0] == "n1"


def test_fgd_keeps_whole_devices_for_those_that_usually_come():
    usual = Workload([member(1)] * 9 + [member(0.5)])
    cluster = cluster_with(Fgd(usual), 2, 2)
    held(cluster, "n1", 0.5, ("1",))
    assert placed(cluster, 0.5) == ("n1", ("1",))


def test_a_fragment_is_what_a_usual_member_could_not_use():
    usual = Workload([member(1), member(2)])
    none: frozenset[str] = frozenset()
    assert usual.fragment(64_000, [1000, 1000], frozenset({""}), none) == 0
    assert usual.fragment(64_000, [1000, 0], frozenset({""}), none) == 500  # half of them want two
    assert usual.fragment(64_000, [400, 0], frozenset({""}), none) == 400
    assert usual.fragment(0, [1000, 1000], frozenset({""}), none) == 2000  # no CPU is left


def test_lots_are_the_same_for_the_same_seed_and_reach_every_node():
    def lots(seed: int) -> list[str]:
        placer, found = Random(seed), []
        for _ in range(40):
            found.append(placed(cluster_with(placer, 1, 1, 1, 1), 1)[0])
        return found

    assert lots(1) == lots(1)
    assert lots(1) != lots(2)
    assert set(lots(1)) == {"n0", "n1", "n2", "n3"}


@pytest.mark.parametrize("name", PLACERS)
def test_scores_follow_what_has_changed(name: str):
    """Kept scores must be those of the nodes as they are: fill everything, one by one."""
    cluster = cluster_with(PLACERS[name](), 2, 4, 3)
    for number in range(18):
        cluster.apply(JobSubmitted(str(number), number, 0.0, (member(0.5),)))
        (decision,) = decide(cluster, 0.0, 0)
        assert isinstance(decision, Start), number
        cluster.apply(JobStarted(decision.job, decision.placement))
    cluster.apply(JobSubmitted("late", 99, 0.0, (member(0.5),)))
    assert decide(cluster, 0.0, 0) == ()
