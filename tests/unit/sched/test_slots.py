"""What is kept of a node between decisions is what would be found out anew."""

from random import Random

import pytest

from dromon.sched import events, index
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import RUNNING, Cluster
from dromon.sched.decide import Grow, Preempt, Shrink, Start, decide
from dromon.sched.job import Role
from dromon.sched.rules import QueueRule, Rules
from dromon.sched.slots import counted
from dromon.sched.slottimes import SlotTimes


def submitted(chance: Random, number: int, now: float) -> events.JobSubmitted:
    most = chance.choice((1, 1, 2, 4))
    role = RoleAsk("w", most, chance.randint(1, most), gpus=chance.choice((0.5, 1, 1, 2, 4)))
    return events.JobSubmitted(
        f"j{number}", number, now, (role,), chance.randrange(3), chance.random() < 0.8,
        f"u{chance.randrange(3)}", f"q{chance.randrange(2)}", chance.choice((None, 5.0, 9.0, 30.0)),
        stop_grace=chance.choice((0.0, 2.0)),
    )  # fmt: skip


def is_kept_right(cluster: Cluster, soon: float) -> None:
    for node in cluster.nodes.values():
        kept, node.ends, node.counts = node.counts, None, None
        if not node.held and not node.parts:
            assert kept is None or kept == counted(node)  # which is kept from here on
    for gpus in (1, 2, 4):
        times = cluster.slot_times(Role(RoleAsk("w", 1, 1, gpus=gpus)))
        anew = SlotTimes(cluster.numbers, times.role, cluster.index)
        found, there_are = times.before(soon, 2), anew.before(soon, 2)
        assert found == there_are or 2 <= found <= there_are
        times.refresh()
        assert (times.moments, times.numbers) == (anew.moments, anew.numbers)


def carry_out(cluster: Cluster, chance: Random, now: float) -> None:
    for decision in decide(cluster, now, 0):
        if isinstance(decision, Start):
            cluster.apply(events.JobStarted(decision.job, decision.placement, now))
        elif isinstance(decision, Grow):
            cluster.apply(events.JobGrown(decision.job, decision.placement, now))
        elif isinstance(decision, Preempt):
            cluster.apply(events.JobStopping(decision.job, now, decision.for_job))
        elif isinstance(decision, Shrink):
            event = events.JobShrinking(decision.job, decision.members, now, decision.for_job)
            cluster.apply(event)
        if chance.random() < 0.3:
            is_kept_right(cluster, now + 6)


@pytest.mark.parametrize("seed", range(20))
def test_when_devices_are_free_is_kept_right(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(index, "LONG", 7)  # now and then a new log is begun
    chance, now = Random(seed), 0.0
    cluster = Cluster(Rules(queues=(QueueRule("q0"), QueueRule("q1", weight=2.0))))
    for node in range(4):
        cluster.apply(events.NodeJoined(f"n{node}", 8, 2**30, tuple(Gpu(str(i)) for i in range(4))))
    for number in range(60):
        now += chance.choice((0.0, 0.5, 3.0))
        cluster.apply(submitted(chance, number, now))
        carry_out(cluster, chance, now)
        is_kept_right(cluster, now + 6)
        held = [*cluster.running()]
        if held and chance.random() < 0.6:
            job = chance.choice(held)
            if job.going:
                cluster.apply(events.JobShrunk(job.id, tuple(job.going), now))
            elif job.state == RUNNING:
                cluster.apply(events.JobEnded(job.id, now))
            else:
                cluster.apply(events.JobReleased(job.id, now))
        if chance.random() < 0.1:
            kind = chance.choice((events.NodeDrained, events.NodeOpened))
            cluster.apply(kind(f"n{chance.randrange(4)}"))
        if chance.random() < 0.1:
            cluster.apply(events.GpuHeld(f"n{chance.randrange(4)}", "1", "bob"))
            cluster.apply(events.GpuFreed(f"n{chance.randrange(4)}", "1"))
        if chance.random() < 0.05:
            longest = chance.choice((None, 12.0, 40.0))
            rules = Rules(queues=(QueueRule("q0", max_duration=longest), QueueRule("q1")))
            cluster.apply(events.RulesChanged(rules, now))
        is_kept_right(cluster, now + 6)
