"""Whole simulations, small enough to be worked out by hand."""

from dataclasses import replace

import pytest

from dromon.sched.policies import Fifo
from dromon.sched.rules import QueueRule, Rules
from dromon.sim import FOREVER, Outcome, StartUp, Trace, TraceJob, simulate
from dromon.sim.fleet import fleet
from dromon.sim.measures import summarise
from dromon.sim.outcome import DONE, DROPPED, OPEN, REFUSED


def job(id: str, submit: float, duration: float, gpus: float = 1, **more: object) -> TraceJob:
    return replace(TraceJob(id, submit, duration, gpus), **more)  # type: ignore[arg-type]


def run(jobs: list[TraceJob], nodes: str = "1x4", policy: str = "fifo", **more: object) -> Outcome:
    rules = more.pop("rules", Rules())
    assert isinstance(rules, Rules)
    return simulate(Trace(jobs), fleet([nodes]), replace(rules, policy=policy), **more)  # type: ignore[arg-type]


def ends(outcome: Outcome) -> list[float]:
    return list(outcome.finished)


def test_jobs_that_fit_run_at_once_and_others_wait():
    outcome = run([job("a", 0, 10, 3), job("b", 1, 10, 1), job("c", 2, 5, 2)])
    assert list(outcome.started) == [0, 1, 10]
    assert ends(outcome) == [10, 11, 15]
    assert set(outcome.state) == {DONE}


def test_known_durations_let_a_short_job_pass_a_blocked_one_and_blind_does_not():
    jobs = [job("a", 0, 10, 3), job("wide", 1, 10, 4), job("short", 2, 5, 1)]
    assert ends(run(jobs)) == [10, 20, 7]
    assert ends(run(jobs, blind=True)) == [10, 20, 25]


def test_a_strict_policy_lets_nobody_pass():
    class Strict(Fifo):
        backfills = False

    jobs = [job("a", 0, 10, 3), job("wide", 1, 10, 4), job("short", 2, 5, 1)]
    assert ends(run(jobs, policy="fair")) == [10, 20, 7]
    assert ends(simulate(Trace(jobs), fleet(["1x4"]), policy=Strict())) == [10, 20, 25]


def test_more_gpus_than_a_node_has_become_whole_nodes_and_a_rest():
    outcome = run([job("a", 0, 10, 10), job("b", 1, 10, 2), job("c", 1, 5, 3)], "3x4")
    assert ends(outcome) == [10, 11, 15]


def test_srtf_sends_the_longer_job_away_and_it_goes_on_where_it_was():
    outcome = run([job("long", 0, 100, 4), job("short", 10, 20, 4)], policy="srtf")
    assert ends(outcome) == [120, 30]
    assert outcome.interruptions == {0: 1}
    assert outcome.ran[0] == pytest.approx(100)


def test_every_start_costs_what_the_model_says():
    jobs = [job("long", 0, 100, 4), job("short", 10, 20, 4)]
    outcome = run(jobs, policy="srtf", costs=StartUp(5.0))
    assert ends(outcome) == [35 + 5 + 95, 35]


def test_las_prefers_who_has_had_least():
    jobs = [job("old", 0, 10_000, 4), job("new", 5000, 100, 4)]
    assert ends(run(jobs, policy="las", blind=True)) == [10_100, 5100]


def test_urgent_work_preempts_in_its_queue():
    outcome = run([job("low", 0, 100, 4), job("high", 10, 20, 4, priority=5)], policy="fair")
    assert ends(outcome) == [120, 30]


def test_who_is_warned_has_its_grace():
    jobs = [job("low", 0, 100, 4, stop_grace=7.0), job("high", 10, 20, 4, priority=5)]
    assert ends(run(jobs, policy="fair")) == [37 + 83, 37]


def test_impatient_jobs_leave_and_never_ending_ones_stay():
    jobs = [job("a", 0, FOREVER, 3), job("b", 1, FOREVER, 2), job("c", 2, FOREVER, 1)]
    outcome = run(jobs, patience=0)
    assert list(outcome.state) == [OPEN, DROPPED, OPEN]
    assert summarise(outcome, "", "", 0).allocated == 1.0


def test_what_can_never_run_is_refused_with_a_reason():
    outcome = run([job("huge", 0, 10, 5, members=1), job("b", 0, 10, 1)])
    assert list(outcome.state) == [REFUSED, DONE]
    assert "5 GPUs" in outcome.reasons[0]


def test_parts_of_a_gpu_share_one():
    outcome = run([job(str(n), 0, 10, 0.5) for n in range(3)], "1x1")
    assert sorted(ends(outcome)) == [10, 10, 20]


def test_either_of_two_kinds_will_do():
    nodes = fleet(["1x1xa100", "1x1xv100", "1x1xp4"])
    jobs = [job(str(n), 0, 10, 1, kinds=("a100", "v100")) for n in range(3)]
    assert sorted(simulate(Trace(jobs), nodes).finished) == [10, 10, 20]


def test_limits_of_queues_hold():
    rules = Rules(queues=(QueueRule("a", limit={"gpus": 1.0}), QueueRule("b")))
    jobs = [job("a1", 0, 10, queue="a"), job("a2", 0, 10, queue="a"), job("b1", 0, 10, queue="b")]
    assert ends(run(jobs, policy="fair", rules=rules)) == [10, 20, 10]


def test_the_same_input_gives_the_same_outcome():
    jobs = [job(str(n), n * 3 % 17, 5 + n % 7, 1 + n % 4) for n in range(60)]
    jobs.sort(key=lambda each: each.submit)
    for policy in ("fair", "srtf", "las"):
        first, second = run(jobs, "2x4", policy), run(jobs, "2x4", policy)
        assert (first.started, first.finished) == (second.started, second.finished)
        assert first.interruptions == second.interruptions


def test_progress_is_told():
    told: list[int] = []
    run([job(str(n), n, 1) for n in range(2000)], on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] > 1000
