"""A new life of the daemon: what it finds, what it owes, what it must not do twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dromon.agent import claim, exitrecord, process
from dromon.agent.record import Record
from dromon.engines.home import Home
from dromon.engines.local import recovery, usage
from dromon.engines.local.journal import Spell
from dromon.engines.local.rulebook import Rulebook
from dromon.lifecycle import events as ev
from dromon.lifecycle.verdict import Exit


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(str(tmp_path / "state"))
    os.makedirs(made.path("secrets"))
    return made


def again(bench, home: Home, same_boot: bool = True) -> None:
    """The daemon dies now and comes back."""
    for job in bench.arbiter.jobs.values():
        for fd in job.gpu_fds.values():
            os.close(fd)
    bench.journal.close()
    bench.live()
    recovery.recover(bench.arbiter, home, bench.now, same_boot)
    bench.flush()


def folder(home: Home, member: str = "worker-0", run: int = 1, id: str = "train-aaaaaa") -> str:
    made = Record(home.record(id)).run(member, run)
    os.makedirs(made, exist_ok=True)
    return made


def snapshot(bench) -> dict:
    return {id: job.status() for id, job in bench.arbiter.jobs.items()}


def test_jobs_come_back_as_they_were(bench, home):
    running = bench.submit("run-aaaaaa", replicas=2, resources={"gpus": 1})
    bench.start(running)
    bench.submit("wait-aaaaaa", resources={"cpus": 4})
    build = {"environment": {"kind": "uv", "request": {}}}
    bench.submit("build-aaaaaa", launch_keys=build)
    for member in running.gang.members:
        assert claim.take(folder(home, member, 1, running.id))
    before, free = snapshot(bench), bench.arbiter.scheduler.free()
    again(bench, home)
    assert snapshot(bench) == before
    assert bench.arbiter.scheduler.free() == free
    assert bench.hands.done == [("prepare", "build-aaaaaa")]


def test_a_run_that_is_claimed_is_not_launched_again(bench, home):
    bench.submit()
    assert claim.take(folder(home))
    again(bench, home)
    assert bench.hands.of("launch") == []


def test_a_run_no_agent_has_is_launched_again_as_the_same_run(bench, home):
    bench.submit()
    again(bench, home)
    assert bench.hands.of("launch") == [("train-aaaaaa", "worker-0/1")]


def test_a_member_at_the_barrier_that_no_agent_has_is_launched_again(bench, home):
    job = bench.submit(replicas=2)
    bench.arbiter.happen(job, ev.MembersReady(("worker-0", "worker-1"), (1, 1), "h"), bench.now)
    bench.flush()
    assert job.gang.state == "running"
    assert claim.take(folder(home, "worker-1"))
    again(bench, home)
    assert bench.hands.of("launch") == [("train-aaaaaa", "worker-0/1")]


def test_one_at_the_barrier_whose_agent_does_not_come_can_be_stopped(bench, home):
    job = bench.submit()
    bench.arbiter.happen(job, ev.MembersReady(("worker-0",), (1,), "h"), bench.now)
    job.coordinator.peers["worker-0"] = 1  # who stands there for it
    bench.flush()
    recovery.sweep(bench.arbiter, home, bench.now)
    bench.arbiter.happen(job, ev.StopRequested("ann"), bench.now)
    bench.flush()
    assert job.gang.state == "stopping"
    recovery.sweep(bench.arbiter, home, bench.now)
    bench.flush()
    assert bench.journal.job(job.id).state == "stopped"
    assert not claim.take(folder(home))


def test_one_whose_line_broke_before_it_began_is_launched_by_the_sweep(bench, home):
    job = bench.submit()
    look = (bench.arbiter, home, job, "worker-0", 1, bench.now)
    bench.hands.done.clear()
    recovery.look_at(*look, at_once=True)
    bench.flush()
    assert bench.hands.of("launch") == []
    recovery.look_at(*look)
    bench.flush()
    assert bench.hands.of("launch") == [("train-aaaaaa", "worker-0/1")]


def test_an_agent_that_has_gone_on_is_not_ended_for_the_run_it_has_left(bench, home):
    job = bench.submit()
    bench.start(job)
    child = subprocess.Popen(["sleep", "60"])
    try:
        ticks = process.start_ticks(child.pid)
        Path(folder(home), "claim").write_text(
            json.dumps({"pid": child.pid, "start_ticks": ticks, "boot_id": claim.boot_id()})
        )
        exitrecord.append(Record(home.record(job.id)).exits, Exit(code=0), member="worker-0", run=1)
        recovery.end_agent(home, job, "worker-0")
        assert child.poll() is None
        os.unlink(Record(home.record(job.id)).exits)
        recovery.end_agent(home, job, "worker-0")
        assert child.wait(30) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


def test_an_exit_is_learnt_though_its_agent_lives_on_for_another_run(bench, home):
    job = bench.submit()
    bench.start(job)
    assert claim.take(folder(home))  # by this very process, which lives
    exit = Exit(code=3, cause="user_error")
    exitrecord.append(Record(home.record(job.id)).exits, exit, member="worker-0", run=1)
    again(bench, home)
    assert "exit code 3" in bench.journal.job(job.id).verdict


def test_an_exit_that_happened_meanwhile_is_learnt_from_its_record(bench, home):
    job = bench.submit()
    bench.start(job)
    where = folder(home)
    ended = subprocess.Popen(["true"])
    ended.wait()
    Path(where, "claim").write_text(
        json.dumps({"pid": ended.pid, "start_ticks": 1, "boot_id": claim.boot_id()})
    )
    Path(where, "exit.json").write_text(json.dumps({"code": 3, "cause": "user_error"}))
    again(bench, home)
    row = bench.journal.job(job.id)
    assert row.state == "failed"
    assert "exit code 3" in row.verdict


def test_a_member_whose_agent_was_killed_is_lost_and_its_gang_restarts(bench, home):
    job = bench.submit()
    bench.start(job)
    Path(folder(home), "claim").write_text(
        json.dumps({"pid": 2**22 - 1, "start_ticks": 1, "boot_id": claim.boot_id()})
    )
    again(bench, home)
    kinds = [event["kind"] for _, event in bench.journal.events(job.id)]
    assert "MemberLost" in kinds
    assert bench.arbiter.jobs[job.id].gang.members["worker-0"].run == 2


def test_half_an_exit_record_is_no_exit_record(bench, home):
    job = bench.submit()
    bench.start(job)
    where = folder(home)
    assert claim.take(where)  # by this very process, which lives
    Path(where, "exit.json").write_text('{"code": ')
    again(bench, home)
    assert bench.arbiter.jobs[job.id].gang.members["worker-0"].state == "up"


def test_after_a_restart_of_the_machine_nothing_is_believed_to_run(bench, home):
    job = bench.submit()
    bench.start(job)
    assert claim.take(folder(home))
    again(bench, home, same_boot=False)
    assert "MemberLost" in [event["kind"] for _, event in bench.journal.events(job.id)]
    assert bench.hands.of("launch") == [("train-aaaaaa", "worker-0/2")]


def test_a_run_stopped_before_it_was_claimed_can_no_longer_start(bench, home):
    job = bench.submit()
    bench.arbiter.happen(job, ev.StopRequested("ann"), bench.now)
    bench.flush()
    again(bench, home)
    assert bench.journal.job(job.id).state == "stopped"
    assert not claim.take(folder(home))


def test_a_job_that_ended_while_its_outputs_were_being_kept_has_them_kept(bench, home):
    job = bench.submit(outputs=["model"])
    bench.start(job)
    bench.exit(job)
    again(bench, home)
    assert bench.hands.done == [("keep", job.id)]


def test_a_preemption_under_way_goes_on(bench, home):
    low = bench.submit("low-aaaaaa", resources={"cpus": 4}, priority="low", preemptible=True)
    bench.start(low)
    bench.submit("high-aaaaaa", resources={"cpus": 4}, priority="high")
    assert claim.take(folder(home, id="low-aaaaaa"))
    again(bench, home)
    assert bench.hands.of("launch") == []  # it still has its place
    low = bench.arbiter.jobs["low-aaaaaa"]
    bench.exit(low, 143)
    assert bench.hands.of("launch") == [("high-aaaaaa", "worker-0/1")]


@pytest.mark.parametrize("grows", [True, False])
def test_a_change_of_size_under_way_goes_on(bench, home, grows):
    asked = {"replicas": 4, "min": 1, "resources": {"gpus": 1, "cpus": 0}, "gang_wait": 0}
    if grows:
        other = bench.submit("other-aaaaaa", resources={"gpus": 2, "cpus": 0})
        bench.start(other)
    job = bench.submit("grow-aaaaaa", **asked)
    bench.start(job)
    for member in job.gang.members:
        assert claim.take(folder(home, member, 1, job.id))
    bench.now += 1000
    if grows:
        bench.hear(job, "worker-0", op="saved", ago=1.0)
        bench.arbiter.saved(job)
        bench.exit(other)
    else:
        bench.submit("other-aaaaaa", resources={"gpus": 3, "cpus": 0})
    held, ends = len(job.placement), 4 if grows else 1
    assert job.state == "restarting"
    again(bench, home)
    job = bench.arbiter.jobs[job.id]
    assert (job.state, len(job.placement)) == ("restarting", held)
    kinds = [event["kind"] for _, event in bench.journal.events(job.id)]
    assert kinds.count("ResizeRequested") == 1  # the scheduler knows that they go
    bench.exit(job, 143)
    bench.start(job)
    assert (job.state, job.gang.attempt, job.gang.retries_used) == ("running", 2, 0)
    assert len(job.placement) == len(job.gang.world) == ends
    for member, state in job.gang.members.items():
        assert claim.take(folder(home, member, state.run, job.id))
    again(bench, home)
    assert len(bench.arbiter.jobs[job.id].placement) == ends
    if not grows:
        assert bench.arbiter.jobs["other-aaaaaa"].placement is not None


def test_numbers_go_on_where_they_were(bench, home):
    bench.submit("a-aaaaaa")
    again(bench, home)
    assert bench.submit("b-aaaaaa").number == 2


def test_secrets_of_jobs_that_are_over_or_never_were_do_not_stay(bench, home):
    bench.submit("a-aaaaaa")
    for id in ("a-aaaaaa", "never-aaaaaa"):
        Path(home.secrets(id)).write_text("{}")
    again(bench, home)
    assert os.listdir(home.path("secrets")) == ["a-aaaaaa.json"]


AGENT = """
import sys, time
from dromon.agent import claim
assert claim.take(sys.argv[1])
print("claimed", flush=True)
time.sleep(600)
"""


def test_an_agent_that_hangs_long_after_the_grace_is_ended(bench, home):
    job = bench.submit(stop_grace=5)
    bench.start(job)
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, folder(home)], stdout=subprocess.PIPE
    ) as agent:
        assert agent.stdout.readline()
        bench.arbiter.happen(job, ev.StopRequested("ann"), bench.now)
        recovery.sweep(bench.arbiter, home, bench.now + 5 + recovery.HANGING - 1)
        assert agent.poll() is None
        recovery.sweep(bench.arbiter, home, bench.now + 5 + recovery.HANGING + 1)
        assert agent.wait() == -signal.SIGKILL


def test_use_that_no_report_reaches_any_more_is_forgotten(bench, home):
    for id, end in (("old-aaaaaa", 1.0), ("new-aaaaaa", 2 * usage.YEAR)):
        bench.journal.add_spell(Spell(id, 0.0, end, 0.0, "ann", "default", 0, {"gpus": 1}))
    bench.journal.commit()
    bench.now = 2 * usage.YEAR + 1
    bench.arbiter.rulebook = Rulebook(bench.journal)
    recovery.recover(bench.arbiter, home, bench.now, True)
    bench.journal.commit()
    assert [spell.job for spell in bench.journal.spells(0.0)] == ["new-aaaaaa"]
