"""Handing a job over: once, durably, or not at all."""

import json

import pytest

from dromon.engines.base import Filter
from dromon.errors import JobNotFound, Refused


def test_a_submitted_job_runs_to_success(bench):
    ref = bench.run("say('hello')")
    status = bench.ended(ref)
    assert (status.state, status.verdict["cause"]) == ("succeeded", "success")
    assert bench.texts(ref) == ["hello"]


def test_the_same_submit_twice_is_one_job(bench):
    submission = bench.engine.compile(bench.launch("note('starts'); say(len(notes('starts')))"))
    first = bench.engine.submit(submission)
    second = bench.engine.submit(submission)
    assert first == second == submission.id
    ended = bench.ended(first)
    assert ended.state == "succeeded"
    assert bench.engine.submit(submission) == first  # also after its end
    assert bench.engine.status(first) == ended
    assert bench.texts(first) == ["1"]
    assert [s.id for s in bench.engine.list(Filter(active_only=False))].count(first) == 1


def test_a_submission_is_a_printable_value(bench):
    launch = bench.launch("say('never run')", secrets=["CANARY"], supplied={"CANARY": "s3kr1t"})
    submission = bench.engine.compile(launch)
    assert submission == bench.engine.compile(launch)
    assert submission.id == launch.id
    printed = json.dumps(submission.request, default=str) + repr(submission)
    assert "s3kr1t" not in printed


def test_what_was_supplied_reaches_the_member_alone(bench):
    ref = bench.run(
        "say(os.environ['CANARY'][::-1], os.environ['TOKEN'][::-1])",
        secrets=["CANARY"],
        env={"TOKEN": None},
        supplied={"CANARY": "s3kr1t", "TOKEN": "t0k3n"},
    )
    assert bench.ended(ref).state == "succeeded"
    assert bench.texts(ref) == ["t1rk3s n3k0t"]


def test_a_job_that_can_never_fit_is_refused_and_says_what_lacks(bench):
    too_many = int(bench.cpus) + 1
    launch = bench.launch("say('never run')", resources={"cpus": too_many})
    with pytest.raises(Refused, match=rf"(?i)cpu.*{too_many}|{too_many}.*cpu"):
        bench.engine.submit(bench.engine.compile(launch))
    with pytest.raises(JobNotFound):
        bench.engine.status(launch.id)


def test_a_gang_that_can_never_fit_together_is_refused(bench):
    replicas = int(bench.cpus) + 1
    launch = bench.launch("say('never run')", replicas=replicas, resources={"cpus": 1})
    with pytest.raises(Refused, match=r"(?i)cpu"):
        bench.engine.submit(bench.engine.compile(launch))


def test_a_gpu_nobody_has_is_refused(bench):
    launch = bench.launch("say('never run')", resources={"cpus": 0.1, "gpus": 64})
    with pytest.raises(Refused, match=r"(?i)gpu"):
        bench.engine.submit(bench.engine.compile(launch))


def test_a_job_nobody_submitted_is_not_found(bench):
    for ask in (bench.engine.status, bench.engine.why, bench.engine.stop):
        with pytest.raises(JobNotFound):
            ask("nobody-aaaaaa")


def test_active_jobs_are_listed_and_ended_ones_only_on_request(bench):
    done = bench.run("say('quick')", name="quick")
    bench.ended(done)
    going = bench.run("say('up'); time.sleep(600)", name="slow")
    bench.has_said(going, "up")
    active = [s.id for s in bench.engine.list(Filter())]
    assert going in active
    assert done not in active
    everything = [s.id for s in bench.engine.list(Filter(active_only=False))]
    assert {going, done} <= set(everything)
    assert [s.id for s in bench.engine.list(Filter(active_only=False, name="quick"))] == [done]


def test_the_engine_says_what_it_has(bench):
    capabilities = bench.engine.probe()
    assert capabilities.engine == bench.name
    nodes = bench.engine.nodes()
    assert sum(node.total["cpus"] for node in nodes) >= bench.cpus
    assert "default" in [queue.name for queue in bench.engine.queues()]


def test_what_runs_is_taken_from_what_is_free(bench):
    assert bench.until(lambda: bench.free_cpus() == bench.cpus)
    ref = bench.run("say('up'); time.sleep(600)", resources={"cpus": 1})
    bench.has_said(ref, "up")
    assert bench.until(lambda: bench.free_cpus() == bench.cpus - 1)
    assert bench.until(lambda: sum(queue.running for queue in bench.engine.queues()) == 1)
    bench.engine.stop(ref, 0)
    bench.ended(ref)
    assert bench.until(lambda: bench.free_cpus() == bench.cpus)


def test_a_watcher_sees_the_states_up_to_the_last(bench):
    ref = bench.run("say('hello')")
    seen = [status.state for status in bench.engine.watch(ref)]
    assert seen[-1] == "succeeded"
    assert seen.count("succeeded") == 1
