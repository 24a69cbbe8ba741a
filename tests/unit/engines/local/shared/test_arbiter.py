"""Many users' daemons at one arbiter: what each may say, and what each is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dromon.agent.devices import discover
from dromon.engines.local.deciding import OwnScheduler
from dromon.engines.local.journal import Journal as Book
from dromon.engines.local.machine import Machine
from dromon.engines.local.shared import wire
from dromon.engines.local.shared.arbiter import Arbiter
from dromon.engines.local.shared.journal import Journal
from dromon.engines.local.shared.orders import Enforcer
from dromon.engines.local.shared.past import Past
from dromon.engines.local.shared.people import Person
from dromon.errors import EngineError, JobNotFound, Refused
from dromon.sched.asks import RoleAsk
from dromon.sched.events import JobSubmitted

ANN = Person(1001, "ann", frozenset({"users"}))
BOB = Person(1002, "bob", frozenset({"users", "team"}))
BOSS = Person(1003, "boss", frozenset({"admins"}))


class Everything:
    """Allows all but one queue; the group `admins` are admins."""

    def check(self, person: Person, job: JobSubmitted) -> None:
        if job.queue == "closed":
            raise Refused("the queue is closed")

    def is_admin(self, person: Person) -> bool:
        return "admins" in person.groups


class Daemon:
    """Of one user; keeps what it is told."""

    door = ""

    def __init__(self, person: Person, home: str = "/home") -> None:
        self.person = person
        self.home = home
        self.heard: list[dict[str, Any]] = []
        self.is_open = True

    def send(self, message: dict[str, Any]) -> None:
        self.heard.append(message)

    def close(self) -> None:
        self.is_open = False

    def last(self, op: str) -> dict[str, Any]:
        return [message for message in self.heard if message["op"] == op][-1]

    def ids(self, op: str) -> list[str]:
        return [message["id"] for message in self.heard if message["op"] == op]


Make = Callable[[], Arbiter]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """An arbiter of a machine with two GPUs; again, and it is the next life of the same."""

    def life(same_boot: bool = True) -> Arbiter:
        machine = Machine("vm", 8.0, 1 << 34, tuple(discover(2)), None)
        book = Book(str(tmp_path / "rules.db"))
        journal = Journal(str(tmp_path / "arbiter.db"))
        past = Past(book, {device.uuid: device.kind for device in machine.gpus})
        scheduler = OwnScheduler(machine)
        return Arbiter(journal, scheduler, Everything(), past, Enforcer(None, {}), same_boot, 1.0)

    return life


@pytest.fixture
def arbiter(make: Make) -> Arbiter:
    return make()


def came(arbiter: Arbiter, daemon: Daemon, *jobs: dict[str, Any]) -> Daemon:
    arbiter.join(daemon)
    for job in jobs:
        arbiter.tell(daemon, job, 1.0)
    arbiter.told_all(daemon, 1.0)
    arbiter.decide(1.0)
    return daemon


def job(id: str, gpus: int = 1, **more: Any) -> dict[str, Any]:
    asked = JobSubmitted(id, 1, 0.0, (RoleAsk("worker", 1, 1, gpus=gpus),), user="root")
    queue = more.pop("queue", "default")
    return {"op": "job", "job": {**wire.plain(asked), "queue": queue}, **more}


def say(arbiter: Arbiter, daemon: Daemon, message: dict[str, Any], now: float = 2.0) -> None:
    arbiter.tell(daemon, message, now)
    arbiter.decide(now)


def test_jobs_of_two_users_share_the_gpus_and_the_third_waits(arbiter: Arbiter):
    ann = came(arbiter, Daemon(ANN), job("a-1"))
    bob = came(arbiter, Daemon(BOB), job("a-1"), job("b-2"))
    assert ann.ids("start") == ["a-1"]
    assert bob.ids("start") == ["a-1"], "the same id of another user is another job"
    assert {entry.job.user for entry in arbiter.jobs.values()} == {"ann", "bob"}
    say(arbiter, ann, {"op": "ended", "id": "a-1"})
    assert bob.ids("start") == ["a-1", "b-2"]


def test_a_daemon_speaks_only_of_its_own_users_and_its_own_homes_jobs(arbiter: Arbiter):
    came(arbiter, Daemon(ANN), job("a-1"))
    for other in (Daemon(BOB), Daemon(ANN, "/elsewhere")):
        came(arbiter, other)
        for op in ("ended", "released", "stopping"):
            say(arbiter, other, {"op": op, "id": "a-1"})
            say(arbiter, other, {"op": op, "id": "ann/a-1"})
    assert arbiter.jobs["ann/a-1"].state == "running"


def test_who_and_when_is_not_a_daemons_to_say(arbiter: Arbiter):
    bob = came(arbiter, Daemon(BOB))
    told = job("b-1")
    told["job"] |= {"user": "ann", "seq": 0, "time": 0.5, "accepted": True}
    say(arbiter, bob, told, 7.0)
    asked = arbiter.jobs["bob/b-1"].job
    assert (asked.user, asked.time, asked.accepted) == ("bob", 7.0, False)


def test_nobody_takes_a_gpu_by_saying_that_it_has_it(arbiter: Arbiter):
    ann = came(arbiter, Daemon(ANN), job("a-1"))
    placement = ann.last("start")["placement"]
    claim = job("b-1", state="running", placement=placement)
    bob = came(arbiter, Daemon(BOB), claim)
    assert arbiter.jobs["bob/b-1"].gpus == set()
    assert arbiter.jobs["ann/a-1"].gpus == {"FAKE-0"}
    assert bob.is_open


def test_what_waits_leaves_the_line_with_its_daemon_and_comes_back_to_its_place(arbiter: Arbiter):
    ann = came(arbiter, Daemon(ANN), job("a-1", 2), job("a-2"))
    bob = came(arbiter, Daemon(BOB), job("b-1"))
    before = arbiter.jobs["ann/a-2"].job
    arbiter.leave(ann)
    placement = ann.last("start")["placement"]
    back = Daemon(ANN)
    came(arbiter, back, job("a-1", 2, state="running", placement=placement), job("a-2"))
    again = arbiter.jobs["ann/a-2"].job
    assert (again.seq, again.time) == (before.seq, before.time)
    assert bob.ids("start") == [], "what runs is still known to run"
    say(arbiter, back, {"op": "ended", "id": "a-1"})
    assert back.ids("start") == ["a-2"]
    assert bob.ids("start") == ["b-1"]


def test_what_a_daemon_does_not_tell_any_more_is_over(arbiter: Arbiter):
    ann = came(arbiter, Daemon(ANN), job("a-1", 2))
    bob = came(arbiter, Daemon(BOB), job("b-1"))
    arbiter.leave(ann)
    came(arbiter, Daemon(ANN))
    assert bob.ids("start") == ["b-1"]


def test_an_arbiters_next_life_gives_nothing_of_what_runs_to_others(make: Make):
    first = make()
    ann = came(first, Daemon(ANN), job("a-1", 2))
    second = make()
    bob = came(second, Daemon(BOB), job("b-1"))
    assert bob.ids("start") == [], "ann's daemon has not come yet, but her job runs"
    placement = ann.last("start")["placement"]
    back = came(second, Daemon(ANN), job("a-1", 2, state="running", placement=placement))
    say(second, back, {"op": "ended", "id": "a-1"})
    assert bob.ids("start") == ["b-1"]


def test_a_start_that_was_lost_on_the_way_is_given_again(arbiter: Arbiter):
    ann = came(arbiter, Daemon(ANN), job("a-1"))
    assert ann.ids("start") == ["a-1"]
    arbiter.leave(ann)
    back = came(arbiter, Daemon(ANN), job("a-1"))
    assert back.ids("start") == ["a-1"]


def test_what_died_with_its_daemon_holds_nothing_after_a_while(arbiter: Arbiter):
    ann = came(arbiter, Daemon(ANN), job("a-1", 2))
    bob = came(arbiter, Daemon(BOB), job("b-1"))
    arbiter.leave(ann)
    for now, gone in ((10.0, True), (15.0, True), (30.0, False)):
        arbiter.look_for_leftovers(lambda entry, gone=gone: gone, now)  # type: ignore[misc]
        arbiter.decide(now)
        assert bob.ids("start") == []
    arbiter.look_for_leftovers(lambda entry: True, 40.0)
    arbiter.decide(40.0)
    assert bob.ids("start") == ["b-1"]
    back = came(arbiter, Daemon(ANN), job("a-1", 1))
    assert back.ids("start") == ["a-1"]


def test_a_job_the_site_does_not_allow_is_refused_whatever_its_daemon_thinks(arbiter: Arbiter):
    bob = came(arbiter, Daemon(BOB), job("b-1", queue="closed"), job("b-2"))
    assert bob.last("refuse") == {"op": "refuse", "id": "b-1", "reason": "the queue is closed"}
    assert bob.ids("start") == ["b-2"]
    assert "bob/b-1" not in arbiter.jobs


def test_a_job_nobody_understands_is_refused_and_its_daemon_stays(arbiter: Arbiter):
    bob = came(arbiter, Daemon(BOB))
    odd = job("b-1")
    odd["job"]["ask"][0]["replicas"] = 10**9
    say(arbiter, bob, odd)
    assert "more than" in bob.last("refuse")["reason"]
    with pytest.raises(wire.Misspoken):
        say(arbiter, bob, job("../ann/a-1"))


@pytest.mark.parametrize(
    ("who", "acls", "may"),
    [
        (ANN, {}, True), (BOB, {}, False), (BOSS, {}, True), (BOB, {"modify": ["bob"]}, True),
        (BOB, {"modify": ["team"]}, True), (BOB, {"view": ["bob"]}, False),
    ],
)  # fmt: skip
def test_a_job_is_stopped_by_its_user_an_admin_and_whom_its_file_names(
    arbiter: Arbiter, who: Person, acls: dict[str, list[str]], may: bool
):
    ann = came(arbiter, Daemon(ANN), job("a-1", acls={"view": [], "modify": [], **acls}))
    if may:
        assert arbiter.stop(who, "ann/a-1", 3.0, 5.0)["active"]
        assert ann.last("stop") == {"op": "stop", "id": "a-1", "by": who.name, "grace": 3.0}
    else:
        with pytest.raises(Refused, match="not yours to stop"):
            arbiter.stop(who, "ann/a-1", None, 5.0)
        assert ann.ids("stop") == []
    [said] = [each for each in arbiter.journal.audit(10) if each["action"].startswith("stop")]
    assert (said["user"], said["subject"]) == (who.name, "ann/a-1")


def test_logs_are_not_an_admins_to_read(arbiter: Arbiter):
    came(arbiter, Daemon(ANN), job("a-1", acls={"view": ["team"], "modify": []}))
    entry = arbiter.jobs["ann/a-1"]
    assert [arbiter.may(who, entry, "view") for who in (ANN, BOB, BOSS)] == [True, True, False]


def test_who_is_away_cannot_be_told_to_stop(arbiter: Arbiter):
    ann = came(arbiter, Daemon(ANN), job("a-1"))
    arbiter.leave(ann)
    with pytest.raises(EngineError, match="does not run"):
        arbiter.stop(BOSS, "ann/a-1", None, 5.0)


def test_a_gpu_somebody_is_on_outside_is_not_given_and_is_when_he_has_gone(arbiter: Arbiter):
    arbiter.look_outside({"FAKE-0": "process 7 of eve"})
    ann = came(arbiter, Daemon(ANN), job("a-1", 2), job("a-2"))
    assert ann.ids("start") == []
    arbiter.look_outside({})
    arbiter.decide(3.0)
    assert ann.ids("start") == ["a-1"]


def test_ones_own_jobs_are_called_by_their_ids_alone(arbiter: Arbiter):
    text = "held by ann/a-1, joann/b-2 and bob/c-3"
    assert arbiter.words(text, "ann") == "held by a-1, joann/b-2 and bob/c-3"


def test_a_second_daemon_of_the_same_home_takes_the_firsts_place(arbiter: Arbiter):
    first = came(arbiter, Daemon(ANN), job("a-1"))
    placement = first.last("start")["placement"]
    second = Daemon(ANN)
    came(arbiter, second, job("a-1", state="running", placement=placement))
    assert not first.is_open
    arbiter.leave(first)  # its connection closes later
    assert arbiter.stop(ANN, "ann/a-1", None, 5.0)["active"]
    assert second.ids("stop") == ["a-1"]


def elastic(id: str) -> dict[str, Any]:
    asked = JobSubmitted(id, 1, 0.0, (RoleAsk("worker", 2, 1, gpus=1),), user="root")
    return {"op": "job", "job": wire.plain(asked)}


def test_a_gangs_members_above_min_are_given_back_for_another_user(arbiter: Arbiter):
    ann = came(arbiter, Daemon(ANN), elastic("a-1"))
    assert len(ann.last("start")["placement"]) == 2
    bob = came(arbiter, Daemon(BOB), job("b-1"))
    assert ann.last("shrink") == {
        "op": "shrink", "id": "a-1", "for": "bob/b-1", "members": ["worker-1"],
    }  # fmt: skip
    assert bob.ids("start") == []  # they have not gone yet
    say(arbiter, ann, {"op": "shrunk", "id": "a-1", "members": ["worker-1"]})
    assert bob.ids("start") == ["b-1"]
    assert set(arbiter.jobs["ann/a-1"].placement) == {"worker-0"}


def test_a_gang_grows_when_its_daemon_says_that_it_has_saved(arbiter: Arbiter):
    bob = came(arbiter, Daemon(BOB), job("b-1"))
    ann = came(arbiter, Daemon(ANN), elastic("a-1"))
    say(arbiter, bob, {"op": "ended", "id": "b-1"}, 700.0)
    assert ann.ids("grow") == []
    say(arbiter, ann, {"op": "checkpointed", "id": "a-1"}, 710.0)
    assert list(ann.last("grow")["placement"]) == ["worker-1"]
    assert len(arbiter.jobs["ann/a-1"].gpus) == 2
    # It cannot: somebody else holds that GPU. It is not asked again at once.
    say(arbiter, ann, {"op": "shrunk", "id": "a-1", "members": ["worker-1"]}, 711.0)
    say(arbiter, ann, {"op": "checkpointed", "id": "a-1"}, 712.0)
    assert ann.ids("grow") == ["a-1"]
    assert len(arbiter.jobs["ann/a-1"].gpus) == 1
    # Nor can a daemon give back what would leave nothing of its job.
    say(arbiter, ann, {"op": "shrunk", "id": "a-1", "members": ["worker-0"]}, 713.0)
    assert len(arbiter.jobs["ann/a-1"].gpus) == 1


def test_a_job_is_found_by_how_it_begins_if_only_one_does(arbiter: Arbiter):
    came(arbiter, Daemon(ANN), job("train-aaaaaa"), job("train-bbbbbb"), job("eval-aaaaaa"))
    assert arbiter.find("ann/eval").key == "ann/eval-aaaaaa"
    for ref in ("ann/train", "ann/", "eval", "bob/eval"):
        with pytest.raises(JobNotFound):
            arbiter.find(ref)
