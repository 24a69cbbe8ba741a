"""Containers that YARN wants back, and those that do not start."""

from stage import name, until

from dromon.engines.yarn.am.beats import News
from dromon.engines.yarn.am.scheduler import (
    AskRefused,
    Heard,
)

# ---- preemption ---------------------------------------------------------------------------------


def test_an_idle_container_is_given_back_at_once(stage):
    job = stage(replicas=2)
    job.grant(1)
    job.hear(contract=(name(1),))
    assert job.released() == [1]
    assert job.state() == "queued"


def test_containers_that_do_no_work_go_before_those_that_do(stage):
    job = stage(replicas=2)
    first, second = job.run(2)
    first.exited(0)
    job.wait_members("done", 1)
    job.hear(contract=(name(2),))
    assert job.released() == [1]
    assert second.of("stop") == []
    assert job.state() == "running"


def test_a_gang_at_work_saves_within_yarns_grace_and_leaves_everything(stage, make_request):
    job = stage(replicas=2, stop_grace="60s")
    job.master.request["grace"] = 15.0
    agents = job.run(2)
    job.hear(strict=(name(2),))
    for agent in agents:
        assert agent.wait("stop") == {"op": "stop", "grace": 15, "reason": "preempt"}
    assert job.wait_kind("PreemptRequested")["grace"] == 15
    job.hear(strict=(name(1), name(2)))  # YARN says it again and again
    assert job.released() == []
    for agent in agents:
        agent.exited(0, stopped=True)
    until(lambda: job.released() == [1, 2], "both to go back")
    assert job.kinds().count("PreemptRequested") == 1
    until(lambda: job.left() == 2, "it to ask again")
    assert job.state() == "queued"


def test_one_member_alone_is_preempted_where_it_may_be_restarted_alone(stage):
    job = stage(replicas=2, policies={"member_evicted": "restart_member"})
    first, second = job.run(2)
    job.hear(strict=(name(1),))
    assert first.wait("stop")["reason"] == "preempt"
    assert second.of("stop") == []
    assert "PreemptRequested" not in job.kinds()


def test_a_container_that_yarn_took_is_an_eviction(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    agent.leave()
    job.over(1, -102)
    assert job.wait_kind("MemberEvicted")["member"] == "worker-0"
    until(lambda: job.left() == 1, "it to ask again")


# ---- what does not start ------------------------------------------------------------------------


def test_a_node_that_fails_three_starts_in_a_row_is_avoided(stage):
    job = stage(replicas=1)
    job.nodes.failing["bad:1"] = "no space left on device"
    for number in (1, 2, 3):
        until(lambda: job.left() == 1, "the ask")
        assert "bad:1" not in job.beats.asks._avoided
        job.grant(number, node="bad:1")
        until(lambda number=number: job.released()[-1:] == [number], "it to go back")
    until(lambda: "bad:1" in job.beats.asks._avoided, "the node to be avoided")
    assert "no space left" in job.status()["trouble"]


def test_a_start_that_succeeds_forgives_the_failures_before_it(stage):
    job = stage(replicas=2)
    job.nodes.failing["bad:1"] = "no"
    for number in (1, 2):
        job.grant(number, node="bad:1")
        until(lambda number=number: job.released()[-1:] == [number], "it to go back")
    job.nodes.failing.clear()
    job.grant(3, node="bad:1")
    until(lambda: 3 in job.starts(), "the start")
    job.ask(lambda master: None)
    job.nodes.failing["bad:1"] = "no"
    job.grant(4, node="bad:1")
    until(lambda: job.released()[-1:] == [4], "it to go back")
    assert "bad:1" not in job.beats.asks._avoided


def test_containers_that_die_before_their_agent_comes_end_the_job_with_words(stage):
    job = stage(replicas=1)
    words = "Exception from container-launch\n[2026-01-01 00:00:00.000]\n"
    for number in (1, 2, 3, 4):
        assert job.state() == "queued"
        job.grant(number)
        until(lambda number=number: number in job.starts(), "the start")
        job.over(number, 127, words)
    verdict = job.wait_state("failed")["verdict"]
    assert verdict["cause"] == "internal"
    assert "no such program" in verdict["message"]


def test_an_agent_that_comes_forgives_those_that_did_not(stage):
    job = stage(replicas=2)
    for number in (1, 2, 3):
        job.grant(number)
        job.over(number, 127)
    job.grant(4)
    job.agent("worker-0", 4)
    until(lambda: job.ask(lambda m: "worker-0" in m.coordinator.peers), "the agent")
    job.grant(5)
    job.over(5, 127)
    assert job.state() == "queued"


def test_files_that_cannot_be_brought_to_a_node_end_the_job_at_once(stage):
    job = stage(replicas=1)
    job.grant(1)
    job.over(1, -1000, "File does not exist: hdfs://nn/blobs/x.tar.gz")
    verdict = job.wait_state("failed")["verdict"]
    assert verdict["cause"] == "environment"
    assert "x.tar.gz is gone" in verdict["message"]


def test_what_yarn_will_never_give_ends_the_job(stage):
    job = stage(replicas=1)
    job.master.on_end_of_beats(AskRefused("too much memory"))
    verdict = job.wait_state("failed")["verdict"]
    assert (verdict["cause"], verdict["message"]) == ("impossible", "too much memory")


def test_containers_that_come_too_small_end_a_job_that_waits(stage):
    job = stage(replicas=1)
    job.master.on_news(News(Heard(), shortages=(("worker", "512 of 1024 MB of memory"),)))
    verdict = job.wait_state("failed")["verdict"]
    assert verdict["cause"] == "impossible"
    assert "512 of 1024 MB" in verdict["message"]


def test_a_shortage_is_not_written_down_with_every_beat_of_a_job_at_work(stage):
    job = stage(replicas=1)
    job.run(1)
    before = job.kinds()
    for _ in range(3):
        job.master.on_news(News(Heard(), shortages=(("worker", "0 of 1 fpga"),)))
    assert "0 of 1 fpga" in job.status()["trouble"]
    job.wait_written()
    assert job.state() == "running"
    assert "PrepareFailed" not in job.kinds()[len(before) :]


def test_of_a_gang_at_work_one_whose_containers_all_die_before_their_agent_comes_has_failed(stage):
    policies = {"member_failed": "restart_member", "member_lost": "restart_member"}
    job = stage(replicas=2, policies=policies, retries={"max": 1, "backoff": 0})
    job.run(2)
    job.over(2, 137)  # with its agent
    for number in range(3, 11):
        until(lambda: job.left() == 1, "it to ask again")
        assert not job.ask(lambda master: master.gang.is_terminal)
        job.grant(number)
        job.over(number, 127, "Last 99 bytes of agent.stderr :\nno python\n")
    job.wait_kind("MemberExited", 2)  # once more after the retry, then it is over
    job.agents[0].wait("stop")
    job.agents[0].exited(143, stopped=True)
    verdict = until(lambda: job.status()["verdict"], "the verdict")
    assert (verdict["cause"], verdict["member"]) == ("internal", "worker-1")
    assert "its agent never came" in verdict["message"]
    assert "no python" in verdict["message"]
