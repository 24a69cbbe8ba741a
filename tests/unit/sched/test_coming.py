"""Those for whom room is being made, those that would borrow, and gangs that need looking for."""

from typing import Any

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import Preempt, Start, decide
from dromon.sched.rules import QueueRule, Rules


class Site:
    def __init__(self, *queues: QueueRule, gpus: tuple[int, ...]) -> None:
        self.cluster, self.now, self.seq = Cluster(Rules(queues=queues)), 0.0, 0
        for n, count in enumerate(gpus):
            devices = tuple(Gpu(str(i)) for i in range(count))
            self.cluster.apply(events.NodeJoined(f"n{n}", 64, 2**40, devices))

    def submit(self, id: str, queue: str, gpus: int, members: int = 1, **more: Any) -> None:
        self.seq += 1
        ask = (RoleAsk("worker", members, members, gpus=gpus),)
        told = {"preemptible": True, **more}
        self.cluster.apply(
            events.JobSubmitted(id, self.seq, self.now, ask, queue=queue, **told)  # type: ignore
        )

    def go(self) -> list[str]:
        """Carried out: who starts, and "-" before whoever is told to go."""
        found = []
        for decision in decide(self.cluster, self.now, 0):
            if isinstance(decision, Start):
                event: Any = events.JobStarted(decision.job, decision.placement, self.now)
                found.append(decision.job)
            else:
                assert isinstance(decision, Preempt)
                event = events.JobStopping(decision.job, self.now, decision.for_job)
                found.append(f"-{decision.job}")
            self.cluster.apply(event)
        return found

    def release(self, id: str) -> None:
        self.cluster.apply(events.JobReleased(id, self.now))


def test_nobody_within_what_is_deserved_waits_for_one_that_would_borrow_and_has_no_time():
    site = Site(QueueRule("a"), QueueRule("b"), QueueRule("c"), gpus=(6,))
    site.submit("mine", "a", 1)
    site.submit("lent", "c", 3)
    assert site.go() == ["mine", "lent"]
    site.submit("wants more", "b", 3)  # than the 2 that b deserves, and nothing ever ends
    site.submit("behind it", "b", 1)
    site.submit("more too", "c", 1)
    assert site.go() == []
    site.submit("owed", "a", 1)
    assert site.go() == ["owed"]


def test_nobody_takes_what_a_cap_leaves_to_one_for_whom_room_is_made():
    site = Site(
        QueueRule("a", limit={"gpus": 2}), QueueRule("b", deserved={"gpus": 1}), gpus=(2, 2)
    )
    site.submit("lent", "b", 1, members=3)
    assert site.go() == ["lent"]
    site.submit("large", "a", 2, priority=1)
    site.submit("small", "a", 1)
    assert site.go() == ["-lent"]
    site.release("lent")
    assert site.go() == ["large"]


def test_room_that_was_made_is_not_given_away_because_somebody_is_late():
    site = Site(QueueRule("a"), QueueRule("b", weight=3), gpus=(4, 2))
    site.submit("long", "b", 2)
    site.submit("late", "a", 1, members=2, max_duration=30)
    site.submit("low", "a", 1)
    assert len(site.go()) == 3
    site.submit("gang", "b", 1, members=3)
    assert site.go() == []
    site.submit("high", "b", 1, priority=2)
    assert site.go() == ["high"]
    site.submit("urgent", "a", 1, priority=1)
    assert site.go() == ["-low"]
    site.release("low")
    assert site.go() == ["urgent"]
    site.now = 1000.0
    site.cluster.apply(events.JobEnded("long", site.now))
    assert site.go() == ["-urgent"]  # and `low` does not begin where the gang will be
    site.release("urgent")
    assert "gang" in site.go()


def test_gang_of_two_roles_finds_the_nodes_on_which_both_have_room():
    """The node that the first fills best is needed by the second."""
    cluster = Cluster()
    for name, memory in (("n0", 3), ("n1", 8)):
        devices = tuple(Gpu(str(i)) for i in range(3 if name == "n0" else 4))
        cluster.apply(events.NodeJoined(name, 3 if name == "n1" else 8, memory, devices))
    ask = (
        RoleAsk("trainer", 1, 1, cpus=1, memory=3, gpus=2),
        RoleAsk("server", 2, 2, cpus=2, memory=3),
    )
    cluster.apply(events.JobSubmitted("gang", 1, 0.0, ask))
    assert [type(decision) for decision in decide(cluster, 0.0, 0)] == [Start]
