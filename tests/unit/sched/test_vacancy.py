"""Until when what is free on a node is of use: taken for sure from then on, or in doubt."""

from math import inf

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk, Share
from dromon.sched.cluster import Cluster
from dromon.sched.job import Job
from dromon.sched.rules import QueueRule, Rules
from dromon.sched.vacancy import Ahead, Vacancy

DEVICES = tuple(Gpu(str(i)) for i in range(4))


class Floor:
    """`busy`: node -> when each of its four devices comes free; None: it is free."""

    def __init__(self, busy: dict[str, tuple[float | None, ...]]) -> None:
        self.cluster = Cluster(Rules(queues=(QueueRule("q"),), policy="drf"))
        self.seq = 0
        for name, ends in busy.items():
            self.cluster.apply(events.NodeJoined(name, 8, 2**30, DEVICES))
            for device, end in enumerate(ends):
                if end is not None:
                    job = self.waits(1, end)
                    share = Share(name, 0, None, (str(device),))
                    self.cluster.apply(events.JobStarted(job.id, {"worker-0": share}, 0.0))

    def waits(self, gpus: int, seconds: float, members: int = 1) -> Job:
        self.seq += 1
        ask = (RoleAsk("worker", members, members, gpus=gpus),)
        self.cluster.apply(events.JobSubmitted(f"j{self.seq}", self.seq, 0.0, ask, 0, True, "u",
                                               "q", max_duration=seconds))  # fmt: skip
        return self.cluster.jobs[f"j{self.seq}"]

    def vacancy(self, node: str, *ahead: Job) -> Vacancy:
        before = Ahead(self.cluster, 0.0)
        before.add(list(ahead))
        found = Vacancy(self.cluster.nodes[node], before)
        found.look(inf)
        return found


def test_who_has_room_only_here_first_takes_all_there_is() -> None:
    floor = Floor({"a": (None, 10.0, 50.0, 60.0), "b": (20.0, 30.0, 40.0, 50.0)})
    found = floor.vacancy("a", floor.waits(2, 100.0))
    assert (found.stop, found.doubt) == (10.0, inf)
    assert found.is_clear(10.0)
    assert not found.is_clear(10.5)


def test_who_has_room_elsewhere_sooner_leaves_it_alone() -> None:
    floor = Floor({"a": (None, 30.0, 50.0, 60.0), "b": (5.0, 6.0, 40.0, 50.0)})
    found = floor.vacancy("a", floor.waits(2, 100.0))
    assert (found.stop, found.doubt) == (inf, inf)
    assert found.is_clear(inf)


def test_a_second_one_of_its_kind_may_come_here() -> None:
    floor = Floor({"a": (None, 30.0, 50.0, 60.0), "b": (5.0, 6.0, 400.0, 500.0)})
    found = floor.vacancy("a", floor.waits(2, 100.0), floor.waits(2, 100.0))
    assert (found.stop, found.doubt) == (inf, 30.0)


def test_where_two_are_free_at_once_it_is_in_doubt() -> None:
    floor = Floor({"a": (None, 10.0, 50.0, 60.0), "b": (None, 10.0, 40.0, 50.0)})
    found = floor.vacancy("a", floor.waits(2, 100.0))
    assert (found.stop, found.doubt) == (inf, 10.0)


def test_who_does_not_take_all_leaves_it_in_doubt() -> None:
    floor = Floor({"a": (None, 10.0, 10.0, 60.0), "b": (20.0, 30.0, 40.0, 50.0)})
    found = floor.vacancy("a", floor.waits(2, 100.0))
    assert (found.stop, found.doubt) == (inf, 10.0)


def test_a_shorter_one_comes_before_who_takes_all() -> None:
    floor = Floor({"a": (None, 10.0, 20.0, 60.0), "b": (90.0, 90.0, 90.0, 90.0)})
    assert floor.vacancy("a", floor.waits(3, 100.0), floor.waits(2, 5.0)).stop == 10.0


def test_whoever_would_still_be_here_then_comes_no_sooner() -> None:
    floor = Floor({"a": (None, 10.0, 20.0, 60.0), "b": (90.0, 90.0, 90.0, 90.0)})
    found = floor.vacancy("a", floor.waits(3, 100.0), floor.waits(2, 50.0), floor.waits(1, 50.0))
    assert (found.stop, found.doubt) == (20.0, inf)


def test_a_gang_is_never_certain() -> None:
    floor = Floor({"a": (None, 10.0, 50.0, 60.0), "b": (20.0, 30.0, 40.0, 50.0)})
    found = floor.vacancy("a", floor.waits(2, 100.0, members=2))
    assert (found.stop, found.doubt) == (inf, 10.0)


def test_whoever_may_meet_somebody_in_doubt_is_in_doubt_itself() -> None:
    floor = Floor({"a": (None, 10.0, 20.0, 60.0), "b": (90.0, 90.0, 90.0, 90.0)})
    gang = floor.waits(3, 100.0, members=2)
    assert floor.vacancy("a", gang, floor.waits(2, 5.0)).stop == 10.0
    found = floor.vacancy("a", gang, floor.waits(2, 50.0))
    assert (found.stop, found.doubt) == (inf, 10.0)


def test_of_two_that_are_overdue_either_may_be_taken() -> None:
    floor = Floor({"a": (None, 10.0, 50.0, 60.0), "b": (5.0, 6.0, 40.0, 50.0)})
    ahead = Ahead(floor.cluster, 10.0)
    ahead.add([floor.waits(2, 100.0)])
    found = Vacancy(floor.cluster.nodes["a"], ahead)
    found.look(inf)
    assert (found.stop, found.doubt) == (inf, 10.0)


def test_whatever_is_overdue_is_in_doubt() -> None:
    floor = Floor({"a": (None, 10.0, 50.0, 60.0), "b": (20.0, 30.0, 40.0, 50.0)})
    ahead = Ahead(floor.cluster, 10.0)
    ahead.add([floor.waits(2, 100.0)])
    found = Vacancy(floor.cluster.nodes["a"], ahead)
    found.look(inf)
    assert (found.stop, found.doubt) == (inf, 10.0)
    assert not found.is_clear(11.0)


def test_beyond_the_horizon_nobody_is_looked_for() -> None:
    floor = Floor({"a": (None, 30.0, 50.0, 60.0), "b": (5.0, 6.0, 40.0, 50.0)})
    ahead = Ahead(floor.cluster, 0.0)
    ahead.add([floor.waits(2, 100.0)])
    found = Vacancy(floor.cluster.nodes["a"], ahead)
    found.look(20.0)
    assert (found.stop, found.doubt) == (inf, 30.0)
