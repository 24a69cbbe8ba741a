"""The arbiter: everything is on disk before it happens, and nobody runs twice."""

import os

import pytest

from dromon.engines.local.journal import JournalFull
from dromon.errors import Refused
from dromon.lifecycle import events as ev

GPU = {"resources": {"gpus": 1, "cpus": 0}}


# ---- acceptance ---------------------------------------------------------------------------------


def test_nothing_is_launched_before_its_placement_is_on_disk(bench):
    bench.submit()
    assert bench.hands.of("launch") == [("train-aaaaaa", "worker-0/1")]
    assert bench.hands.on_disk == [["_placement", "Placed"]]


def test_an_accepted_job_is_on_disk_before_anything_is_decided(bench, make_submission):
    ((row, created),) = bench.arbiter.submit([make_submission()], 100.0)
    assert created
    assert bench.journal.active() == [row]
    assert bench.hands.done == []


def test_the_same_id_twice_is_one_job_with_one_number(bench, make_submission):
    (first, _), (second, _) = bench.arbiter.submit(
        [make_submission("a-aaaaaa"), make_submission("b-aaaaaa")], 100.0
    )
    ((again, created),) = bench.arbiter.submit([make_submission("a-aaaaaa")], 200.0)
    assert not created
    assert again == first
    assert second.number == first.number + 1
    bench.flush()
    assert sorted(bench.hands.of("launch")) == [
        ("a-aaaaaa", "worker-0/1"),
        ("b-aaaaaa", "worker-0/1"),
    ]


def test_a_job_that_ended_is_not_run_again_by_its_id(bench, make_submission):
    job = bench.submit()
    bench.start(job)
    bench.exit(job)
    ((row, created),) = bench.arbiter.submit([make_submission()], 300.0)
    bench.flush()
    assert (created, row.state) == (False, "succeeded")
    assert len(bench.hands.of("launch")) == 1


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"resources": {"gpus": 5}}, "GPU"),
        ({"resources": {"cpus": 5}}, "CPU"),
        ({"resources": {"memory": "17GiB"}}, "memory"),
        ({"replicas": 5}, ""),
        ({"resources": {"gpus": {"h100": 1}}}, "h100"),
    ],
)
def test_what_can_never_run_here_is_refused_and_leaves_nothing(bench, make_submission, keys, words):
    with pytest.raises(Refused, match=f"(?i){words}"):
        bench.arbiter.submit([make_submission("ok-aaaaaa"), make_submission(**keys)], 100.0)
    assert bench.journal.latest(10) == []
    assert bench.arbiter.jobs == {}
    bench.flush()
    assert bench.hands.done == []


def test_a_refused_job_does_not_take_a_number(bench, make_submission):
    with pytest.raises(Refused):
        bench.arbiter.submit([make_submission(resources={"gpus": 99})], 100.0)
    ((row, _),) = bench.arbiter.submit([make_submission()], 100.0)
    assert row.number == 1


def test_a_job_whose_environment_must_be_built_waits_for_it(bench):
    job = bench.submit(launch_keys={"environment": {"kind": "uv", "request": {}}})
    assert bench.hands.done == [("prepare", "train-aaaaaa")]
    assert bench.journal.job("train-aaaaaa").state == "preparing"
    bench.arbiter.environment_built(job, {"kind": "uv", "python": "/e/bin/python"}, 101.0)
    bench.flush()
    assert bench.hands.of("launch") == [("train-aaaaaa", "worker-0/1")]
    assert job.environment["python"] == "/e/bin/python"


def test_a_failed_build_is_the_jobs_verdict(bench):
    job = bench.submit(launch_keys={"environment": {"kind": "uv", "request": {}}})
    bench.arbiter.happen(job, ev.PrepareFailed("environment", "no such package"), 101.0)
    bench.flush()
    row = bench.journal.job("train-aaaaaa")
    assert row.state == "failed"
    assert "no such package" in row.verdict


# ---- from start to end --------------------------------------------------------------------------


def test_a_gang_starts_as_one_and_its_end_is_told_and_cleaned(bench):
    job = bench.submit(replicas=2)
    told = []
    job.watchers.append(told.append)
    bench.start(job)
    assert bench.journal.job(job.id).state == "running"
    bench.exit(job)
    assert bench.hands.of("clean") == [(job.id,)]
    assert (told[-1]["state"], told[-1]["ended"]) == ("succeeded", bench.now)
    assert job.id not in bench.arbiter.jobs
    assert bench.journal.job(job.id).ended == bench.now


def test_who_begins_to_watch_is_told_only_what_comes_after(bench):
    job = bench.submit(replicas=2)
    bench.start(job)
    first, second = [], []
    job.add_watcher(first.append)
    bench.hear(job, "worker-0", op="exited", exit={"code": 0, "cause": "success"})
    assert first == []  # still running, and one member's end can wait a moment
    bench.arbiter.tell_late()
    assert [status["state"] for status in first] == ["running"]
    job.add_watcher(second.append)
    bench.exit(job)
    assert (first[-1]["state"], second[-1]["state"]) == ("succeeded", "succeeded")


def test_the_end_is_not_told_before_the_outputs_are_kept(bench):
    job = bench.submit(outputs=["model"])
    told = []
    job.watchers.append(told.append)
    bench.start(job)
    bench.exit(job)
    assert bench.hands.of("keep") == [(job.id,)]
    assert bench.hands.of("clean") == []
    assert {status["state"] for status in told} == {"running"}
    bench.arbiter.close(job, bench.now)
    bench.flush()
    assert told[-1]["state"] == "succeeded"
    assert bench.hands.of("clean") == [(job.id,)]


def test_what_does_not_fit_beside_others_waits_until_they_end(bench):
    first = bench.submit("first-aaaaaa", resources={"cpus": 4})
    bench.submit("second-aaaaaa", resources={"cpus": 1})
    assert [id for id, _ in bench.hands.of("launch")] == ["first-aaaaaa"]
    bench.start(first)
    bench.exit(first)
    assert [id for id, _ in bench.hands.of("launch")] == ["first-aaaaaa", "second-aaaaaa"]


def test_a_queued_job_is_woken_for_its_pending_policy(bench):
    bench.submit("first-aaaaaa", resources={"cpus": 4})
    bench.submit("second-aaaaaa", policies={"pending:10m": "abort_job"})
    bench.tick(0)  # its gang asks for this one at once
    bench.tick(599)
    assert bench.journal.job("second-aaaaaa").state == "queued"
    bench.tick(2)
    assert bench.journal.job("second-aaaaaa").state == "failed"


# ---- preemption ---------------------------------------------------------------------------------


def test_the_lower_priority_gives_way_comes_back_and_no_retry_is_used(bench):
    low = bench.submit("low-aaaaaa", resources={"cpus": 4}, priority="low", preemptible=True)
    bench.start(low)
    high = bench.submit("high-aaaaaa", resources={"cpus": 4}, priority="high")
    assert ("stop",) in [told[1:] for told in bench.hands.of("send")]
    assert [id for id, *_ in bench.hands.of("launch")] == ["low-aaaaaa"]

    bench.exit(low, 143)
    assert [id for id, *_ in bench.hands.of("launch")] == ["low-aaaaaa", "high-aaaaaa"]
    assert bench.journal.job(low.id).state == "queued"
    bench.start(high)
    bench.exit(high)

    assert bench.hands.of("launch")[-1] == ("low-aaaaaa", "worker-0/2")
    bench.start(low)
    bench.exit(low)
    assert bench.journal.job(low.id).state == "succeeded"  # though retries.max is 0


def test_who_is_not_preemptible_does_not_give_way(bench):
    low = bench.submit("low-aaaaaa", resources={"cpus": 4}, priority="low", preemptible=False)
    bench.start(low)
    bench.submit("high-aaaaaa", resources={"cpus": 4}, priority="high")
    assert [told[1:] for told in bench.hands.of("send")].count(("stop",)) == 0
    assert bench.journal.job("high-aaaaaa").state == "queued"


# ---- GPUs ---------------------------------------------------------------------------------------


def held(bench) -> list[str]:
    """GPUs somebody holds, by the words of the locks."""
    uuids = [f"FAKE-{i}" for i in range(4)]
    return [uuid for uuid in uuids if bench.locks.holder(uuid) is not None]


def test_the_gpus_of_a_job_are_locked_from_its_start_to_its_end(bench):
    job = bench.submit(replicas=2, **GPU)
    gpus = sorted(gpu for seat in job.placement.values() for gpu in seat.gpus)
    assert len(set(gpus)) == 2
    assert held(bench) == gpus
    assert bench.locks.holder(gpus[0]) == {"user": "ann", "job": job.id}
    bench.start(job)
    bench.exit(job)
    assert held(bench) == []


def test_a_gpu_of_another_user_is_passed_over_for_a_free_one(bench):
    theirs = bench.locks.take("FAKE-0", {"user": "bob"})
    job = bench.submit(**GPU)
    (seat,) = job.placement.values()
    assert seat.gpus == ("FAKE-1",)
    os.close(theirs)


def test_a_job_waits_for_another_users_gpu_and_starts_once_it_is_let_go(bench):
    theirs = bench.locks.take("FAKE-3", {"user": "bob"})
    job = bench.submit(resources={"gpus": 4})
    assert bench.hands.of("launch") == []
    assert held(bench) == ["FAKE-3"]  # what was taken for it meanwhile was given back
    bench.arbiter.look_for_freed_gpus()
    bench.flush()
    assert job.placement is None
    os.close(theirs)
    bench.arbiter.look_for_freed_gpus()
    bench.flush()
    assert bench.hands.of("launch") == [(job.id, "worker-0/1")]


def test_whose_a_gpu_is_is_said_in_words(bench):
    job = bench.submit(**GPU)
    fds = [
        bench.locks.take("FAKE-1", {"user": "bob", "job": "eval-aaaaaa"}),
        bench.locks.take("FAKE-2", {"user": "bob"}),
    ]
    assert [bench.arbiter.holder(f"FAKE-{i}") for i in range(4)] == [
        job.id,
        "eval-aaaaaa of bob",
        "user bob",
        None,
    ]
    for fd in fds:
        os.close(fd)


def test_a_lock_in_use_does_not_look_old(bench):
    job = bench.submit(**GPU)
    (seat,) = job.placement.values()
    path = os.path.join(bench.locks.root, f"{seat.gpus[0]}.lock")
    os.utime(path, (1000.0, 1000.0))
    bench.arbiter.look_for_freed_gpus()
    assert os.stat(path).st_mtime > 1000.0


# ---- the disk refuses ---------------------------------------------------------------------------


def test_effects_are_kept_back_while_the_disk_refuses_and_follow_later(bench, full_disk):
    job = bench.submit()
    with full_disk(bench.journal.path + "-wal"):
        bench.arbiter.happen(job, ev.StopRequested("ann"), 101.0)
        for _ in range(2):
            with pytest.raises(JournalFull):
                bench.flush()
        assert bench.hands.of("clean") == []
    # The agent never came, so the stop is owed to whoever says hello.
    bench.flush()
    assert bench.journal.events(job.id)[-1][1]["kind"] == "StopRequested"
    bench.hear(job, "worker-0", op="exited", exit={"code": 143, "cause": "stopped"})
    assert bench.journal.job(job.id).state == "stopped"
    assert bench.hands.of("clean") == [(job.id,)]


def test_no_job_is_accepted_while_the_disk_refuses(bench, make_submission, full_disk):
    bench.submit("first-aaaaaa")
    with full_disk(bench.journal.path + "-wal"), pytest.raises(JournalFull):
        bench.arbiter.submit([make_submission("second-aaaaaa")], 101.0)
    assert "second-aaaaaa" not in bench.arbiter.jobs
    bench.flush()
    assert bench.journal.job("second-aaaaaa") is None
    ((row, created),) = bench.arbiter.submit([make_submission("second-aaaaaa")], 102.0)
    assert (row.number, created) == (2, True)


def test_parts_of_one_gpu_are_held_by_one_lock_until_the_last_lets_go(bench):
    half = {"resources": {"gpus": 0.5, "cpus": 0}}
    first, second = bench.submit("first-aaaaaa", **half), bench.submit("second-aaaaaa", **half)
    (device,) = first.gpu_fds
    assert list(second.gpu_fds) == [device]
    assert bench.arbiter.holder(device) == "first-aaaaaa"
    bench.start(first)
    bench.exit(first)
    assert bench.arbiter.holder(device) is not None
    bench.start(second)
    bench.exit(second)
    assert bench.arbiter.holder(device) is None


def test_what_was_held_and_how_long_it_was_waited_for_is_kept(bench):
    job = bench.submit(resources={"gpus": 2, "cpus": 1})
    bench.start(job)
    bench.now += 50
    bench.exit(job)
    bench.journal.remove([job.id])
    bench.journal.commit()
    (spell,) = bench.journal.spells(0.0)
    assert (spell.start, spell.end, spell.since) == (100.0, 150.0, 100.0)
    assert (spell.user, spell.queue) == ("ann", "default")
    assert spell.amounts == {"cpus": 1.0, "gpus": 2.0, "gpus.f100": 2.0}


def test_the_scheduler_hears_that_a_job_is_being_stopped(bench):
    job = bench.submit(resources={"gpus": 4, "cpus": 0})
    bench.start(job)
    bench.arbiter.happen(job, ev.StopRequested(by="ann"), bench.now)
    bench.flush()
    assert bench.arbiter.scheduler.why(job.id, bench.now).reason == "stopping"


# ---- elastic gangs ------------------------------------------------------------------------------

ELASTIC = {"replicas": 4, "min": 1, "resources": {"gpus": 1, "cpus": 0}, "gang_wait": 0}


def elastic(bench, room: int):
    """A gang of `room` members, which has saved its work; and whoever has the other GPUs."""
    other = bench.submit("other-aaaaaa", resources={"gpus": 4 - room, "cpus": 0})
    bench.start(other)
    job = bench.submit("grow-aaaaaa", **ELASTIC)
    bench.start(job)
    assert len(job.gang.world) == room
    bench.now += 1000
    bench.hear(job, "worker-0", op="saved", ago=1.0)
    bench.arbiter.saved(job)
    return job, other


def test_a_gang_grows_by_an_orderly_restart_and_what_it_held_before_is_counted(bench):
    job, other = elastic(bench, room=2)
    bench.exit(other)
    assert job.gang.state == "restarting"
    assert {m.state for m in job.gang.members.values()} == {"ending"}
    assert len(job.placement) == len(job.gpu_fds) == 4
    bench.exit(job, 143)
    runs = ("worker-0/2", "worker-1/2", "worker-2/1", "worker-3/1")
    assert bench.hands.of("launch")[-1][1:] == runs
    bench.start(job)
    assert (job.state, job.gang.attempt, job.gang.retries_used) == ("running", 2, 0)
    (spell,) = [s for s in bench.journal.spells(0.0) if s.job == job.id]
    assert (spell.amounts["gpus"], spell.end - spell.start) == (2, 1000)
    bench.exit(job)
    assert [s.amounts["gpus"] for s in bench.journal.spells(0.0) if s.job == job.id] == [2, 4]


def test_members_above_min_go_first_and_hold_their_gpus_until_they_have_gone(bench):
    job = bench.submit("grow-aaaaaa", **ELASTIC)
    bench.start(job)
    second = bench.submit("second-aaaaaa", resources={"gpus": 3, "cpus": 0})
    assert job.gang.state == "restarting"
    assert second.state == "queued"
    assert len(job.gpu_fds) == 4
    bench.exit(job, 143)
    bench.start(job)
    assert (len(job.placement), len(job.gpu_fds), len(job.gang.world)) == (1, 1, 1)
    bench.start(second)
    assert second.state == "running"


def test_a_gang_one_of_whose_members_is_done_does_not_grow(bench):
    job, other = elastic(bench, room=2)
    bench.hear(job, "worker-1", op="exited", exit={"code": 0, "cause": "success"})
    bench.exit(other)
    assert (job.state, len(job.placement), len(job.gpu_fds)) == ("running", 2, 2)
    bench.submit("second-aaaaaa", resources={"gpus": 2, "cpus": 0})
    assert ("second-aaaaaa", "worker-0/1") in bench.hands.of("launch")


def test_members_whose_gpu_somebody_else_has_do_not_come(bench):
    job, other = elastic(bench, room=3)
    for fd in other.gpu_fds.values():
        os.close(fd)
    other.gpu_fds = {}
    (free,) = set(other.placement["worker-0"].gpus)
    taken = bench.locks.take(free, {"user": "bob"})
    bench.exit(other)
    assert (job.state, len(job.placement)) == ("running", 3)
    os.close(taken)
