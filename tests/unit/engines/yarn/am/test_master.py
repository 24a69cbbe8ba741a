"""The ApplicationMaster's decisions: what it waits for, whom it believes, what it gives back."""

import threading

import pytest
from stage import LOST, name, until

from dromon.engines.yarn.am.gathering import Patience
from dromon.engines.yarn.am.scheduler import (
    Superseded,
)
from dromon.frameworks.world import World
from dromon.lifecycle import events as ev

# ---- from containers to a gang ------------------------------------------------------------------


def test_every_member_is_asked_for_and_its_container_started(stage):
    job = stage(replicas=2)
    until(lambda: job.left() == 2, "two to be asked for")
    job.grant(1, 2)
    until(lambda: job.starts() == [1, 2], "both to be started")
    assert job.held() == {1: "worker-0", 2: "worker-1"}
    assert job.left() == 0
    words = " ".join(job.nodes.started[1].context["command"])
    assert "yarn-member worker-1" in words


def test_no_container_is_started_before_the_journal_has_it(stage, name_node):
    job = stage(replicas=1)
    gate, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        gate.wait(30)

    name_node.meanwhile["CREATE"] = hold
    job.grant(1)
    assert reached.wait(30)
    assert job.starts() == []
    gate.set()
    until(lambda: job.starts() == [1], "the start")
    assert job.written()[0] == {
        "container": name(1), "member": "worker-0", "node": "n1:1", "http": "",
    }  # fmt: skip


def test_no_agent_is_told_to_begin_before_the_placement_is_on_the_journal(stage, name_node):
    job = stage(replicas=1)
    job.grant(1)
    until(lambda: job.starts() == [1], "the start")
    gate, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        gate.wait(30)

    name_node.meanwhile["CREATE"] = hold
    agent = job.agent("worker-0", 1)
    assert reached.wait(30)
    assert job.state() == "starting"
    assert agent.heard == []
    gate.set()
    assert agent.wait("again") == {"op": "again", "run": 1, "attempt": 1}
    assert job.kinds() == ["Placed"]


def test_a_gang_starts_only_when_all_it_cannot_do_without_are_there(stage):
    job = stage(replicas=3, min=2, gang_wait="60s")
    job.grant(1, 2, 3)
    first = job.agent("worker-0", 1)
    job.ask(lambda master: None)
    assert job.state() == "queued"
    assert first.heard == []
    second = job.agent("worker-1", 2)
    for agent in (first, second):
        agent.wait("again")
        agent.ready()
    until(lambda: [m["state"] for m in job.status()["members"]] == ["ready"] * 2, "the two")
    assert first.of("world") == []  # the third may still come
    job.pass_time(61)
    world = World.from_json(first.wait("world")["world"])
    assert [m.name for m in world.members] == ["worker-0", "worker-1"]
    second.wait("world")


def test_who_comes_while_the_others_gather_joins_them(stage):
    job = stage(replicas=2, min=1)
    job.grant(1, 2)
    first = job.agent("worker-0", 1)
    first.wait("again")
    first.ready()
    second = job.agent("worker-1", 2)
    second.wait("again")
    second.ready()
    assert len(World.from_json(first.wait("world")["world"]).members) == 2


def test_who_came_too_late_for_this_world_gives_its_container_back(stage):
    job = stage(replicas=2, min=1, gang_wait="5s")
    job.grant(1, 2)
    first = job.agent("worker-0", 1)
    first.wait("again")
    first.ready()
    job.wait_members("ready", 1)
    job.pass_time(6)
    first.wait("world")
    until(lambda: job.released() == [2], "the other container to go back")
    assert job.left() == 0


def test_a_container_too_many_goes_back(stage):
    job = stage(replicas=1)
    until(lambda: job.left() == 1, "the ask")
    job.grant(1, 2)
    until(lambda: job.released() == [2], "the second to go back")
    until(lambda: job.starts() == [1], "the first to be started")


def test_a_container_of_another_role_is_not_used(stage):
    roles = {
        "ps": {"command": "true", "replicas": 1},
        "worker": {"command": "true", "replicas": 1},
    }
    job = stage(command=None, framework="tensorflow", roles=roles)
    until(lambda: job.left("ps") == 1, "the ask")
    job.grant(1, 2, role="ps")
    assert job.held() == {1: "ps-0"}
    assert job.left("worker") == 1
    until(lambda: job.released() == [2], "it to go back")


def test_half_a_gang_gives_way_and_asks_again_after_a_pause(stage):
    job = stage(replicas=2, patience=Patience(hold=20, hold_growth=0, pause=10))
    job.grant(1)
    job.pass_time(19)
    assert job.released() == []
    job.pass_time(2)
    assert job.released() == [1]
    assert job.left() == 0
    job.pass_time(11)
    assert job.left() == 2


# ---- agents -------------------------------------------------------------------------------------


def test_an_agent_of_a_container_that_is_not_ours_is_told_to_stop_and_leave(stage):
    job = stage(replicas=1)
    job.grant(1)
    stranger = job.agent("worker-0", 9, run=1)
    stranger.wait("bye")
    assert [m["op"] for m in stranger.heard] == ["stop", "bye"]
    assert stranger.heard[0]["grace"] == 0
    assert job.state() == "queued"


def test_a_stranger_at_the_barrier_never_takes_the_members_place(stage):
    job = stage(replicas=1)
    job.grant(1)
    agent = job.agent("worker-0", 1)
    agent.wait("again")
    stranger = job.agent("worker-0", 9, run=1)
    stranger.ready()
    stranger.wait("bye")
    job.ask(lambda master: None)
    assert job.member("worker-0")["state"] == "launched"
    agent.ready()
    agent.wait("world")
    assert stranger.of("world") == []


def test_somebody_without_the_key_is_hung_up_on(stage):
    from stage import FakeAgent

    job = stage(replicas=1)
    with pytest.raises(ConnectionError):
        FakeAgent(job.master.peers.port, job.job, "worker-0", name(1), key=b"guess")


def test_a_gang_that_does_its_work_succeeds(stage):
    job = stage(replicas=2)
    agents = job.run(2)
    assert job.status()["runs"] == [["worker-0", 1], ["worker-1", 1]]
    for agent in agents:
        agent.exited(0)
    for agent in agents:
        agent.wait("bye")
        agent.leave()
    until(lambda: not job._thread.is_alive(), "the master to be done")
    assert job.master.gang.state == "succeeded"
    assert job.master.closing.is_done


def test_a_failed_gang_begins_again_in_the_containers_it_has(stage):
    job = stage(replicas=2, retries={"max": 1, "backoff": "1s"})
    first, second = job.run(2)
    first.exited(3)
    second.wait("stop")
    second.exited(0, stopped=True)
    until(lambda: job.state() == "restarting", "the back-off")
    job.pass_time(2)
    assert first.wait("again", 2) == {"op": "again", "run": 2, "attempt": 2}
    assert second.wait("again", 2)["run"] == 2
    assert job.starts() == [1, 2]
    assert job.released() == []


def test_an_agent_that_comes_back_after_its_line_broke_goes_on(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    agent.leave()
    again = job.agent("worker-0", 1, run=1)
    again.tell("started", pid=7)
    again.exited(0)
    again.wait("bye")


# ---- leases -------------------------------------------------------------------------------------


def test_a_lease_is_renewed_while_the_journal_waits_for_hdfs(stage, name_node):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    gate, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        gate.wait(30)

    name_node.meanwhile["CREATE"] = hold
    job.ask(lambda master: master.happen(ev.StopRequested("ann")))
    assert reached.wait(30)
    agent.tell("alive", asked=4.5)
    assert agent.wait("alive")["asked"] == 4.5
    assert agent.of("stop") == []  # which does wait
    gate.set()
    agent.wait("stop")


def test_no_lease_is_renewed_by_a_master_that_yarn_may_have_given_up(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    job.pass_time(599)
    agent.tell("alive", asked=1.0)
    agent.wait("alive")
    job.pass_time(2)
    agent.tell("alive", asked=2.0)
    agent.tell("beat", memory=5)
    until(lambda: job.member("worker-0")["memory"] == 5, "it to be heard")
    assert [m["asked"] for m in agent.of("alive")] == [1.0]
    job.hear()
    agent.tell("alive", asked=3.0)
    agent.wait("alive", 2)


def test_the_lease_of_a_fenced_member_is_not_renewed(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    job.over(1, *LOST)
    agent.wait("stop")
    agent.tell("alive", asked=1.0)
    agent.exited(0, stopped=True)
    agent.wait("bye")
    assert agent.of("alive") == []


# ---- losses -------------------------------------------------------------------------------------


def test_a_member_of_a_lost_node_is_not_replaced_before_it_must_have_ended(stage):
    job = stage(replicas=2, stop_grace="10s", yarn={"lease": 30})
    first, second = job.run(2)
    first.leave()
    until(lambda: not job.member("worker-0")["connected"], "the line to end")
    job.over(1, *LOST)
    assert job.status()["fenced"] == ["worker-0"]
    assert job.left() == 0  # nobody is asked for in its place
    job.pass_time(35)
    assert "MemberLost" not in job.kinds()
    assert second.of("stop") == []
    job.pass_time(10)
    lost = job.wait_kind("MemberLost")
    assert (lost["member"], lost["run"]) == ("worker-0", 1)
    assert lost["message"] == "its node is lost"
    second.wait("stop")
    assert job.status()["fenced"] == []


def test_a_member_of_a_lost_node_that_is_still_heard_is_told_to_stop(stage):
    job = stage(replicas=1, stop_grace="10s")
    (agent,) = job.run(1)
    job.over(1, *LOST)
    assert agent.wait("stop") == {"op": "stop", "grace": 10, "reason": "lost"}
    assert job.status()["fenced"] == ["worker-0"]
    agent.exited(0, stopped=True)
    until(lambda: job.status()["fenced"] == [], "the fence to be lifted")
    told = job.wait_kind("MemberExited")
    assert told["exit"]["cause"] == "lost"
    assert told["exit"]["message"] == "its node is lost"


@pytest.mark.parametrize("policies", [{}, {"member_lost": "restart_member"}])
def test_the_agent_of_a_lost_node_does_not_begin_again(stage, policies):
    job = stage(replicas=1, policies=policies)
    (agent,) = job.run(1)
    job.over(1, *LOST)
    agent.wait("stop")
    agent.exited(0, stopped=True)
    agent.wait("bye")
    assert len(agent.of("again")) == 1
    until(lambda: job.left() == 1, "another container to be asked for")
    job.grant(2, node="n2:1")
    other = job.agent("worker-0", 2)
    assert other.wait("again")["run"] == 2
    assert len(agent.of("again")) == 1


def test_the_line_to_a_lost_node_is_cut_when_its_member_must_have_ended(stage):
    job = stage(replicas=1, stop_grace="1s", policies={"member_lost": "restart_member"})
    (agent,) = job.run(1)
    job.over(1, *LOST)
    job.pass_time(100)  # nothing was heard; it would hear, though
    job.wait_kind("MemberLost")
    agent.wait_until_gone()
    assert len(agent.of("again")) == 1


def test_a_fenced_member_that_comes_back_may_tell_its_end(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    agent.leave()
    until(lambda: not job.member("worker-0")["connected"], "the line to end")
    job.over(1, *LOST)
    back = job.agent("worker-0", 1, run=1)
    assert back.wait("stop")["grace"] == 0
    back.exited(1)
    back.wait("bye")
    assert job.wait_kind("MemberExited")["exit"]["cause"] == "lost"
    assert job.status()["fenced"] == []


def test_an_agent_of_a_fenced_member_that_ran_nothing_is_sent_away(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    agent.leave()
    until(lambda: not job.member("worker-0")["connected"], "the line to end")
    job.over(1, *LOST)
    job.agent("worker-0", 1, run=0).wait("bye")
    assert job.status()["fenced"] == ["worker-0"]


def test_an_agent_that_was_killed_is_a_loss(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    agent.leave()
    job.over(1, 137)
    lost = job.wait_kind("MemberLost")
    assert "its agent ended without a word" in lost["message"]
    assert job.status()["fenced"] == []
    assert job.state() == "queued"


def test_a_container_over_its_memory_says_so(stage):
    job = stage(replicas=1)
    job.run(1)
    job.over(1, -104, "1.2 GB of 1 GB physical memory used")
    told = job.wait_kind("MemberExited")
    assert told["exit"]["cause"] == "out_of_memory"
    assert job.wait_state("failed")["verdict"]["cause"] == "out_of_memory"


def test_a_lost_member_alone_is_replaced_by_its_next_run(stage):
    job = stage(replicas=2, policies={"member_lost": "restart_member"})
    first, second = job.run(2)
    first.leave()
    job.over(1, 137)
    until(lambda: job.left() == 1, "one to be asked for")
    job.grant(3)
    assert job.held() == {2: "worker-1", 3: "worker-0"}
    new = job.agent("worker-0", 3)
    assert new.wait("again") == {"op": "again", "run": 2, "attempt": 1}
    new.ready()
    world = World.from_json(new.wait("world")["world"])
    assert [m.name for m in world.members] == ["worker-0", "worker-1"]
    assert second.of("stop") == []
    assert job.released() == []


def test_the_next_container_of_a_member_whose_first_died_early_gets_the_same_run(stage):
    job = stage(replicas=1)
    job.grant(1)
    first = job.agent("worker-0", 1)
    first.wait("again")
    first.leave()
    job.over(1, 137)
    until(lambda: job.left() == 1, "another to be asked for")
    job.grant(2)
    assert job.agent("worker-0", 2).wait("again")["run"] == 1


# ---- stop ---------------------------------------------------------------------------------------


def test_a_stop_reaches_every_member_with_its_grace(stage):
    job = stage(replicas=2)
    agents = job.run(2)
    job.ask(lambda master: master.happen(ev.StopRequested("ann", 3.0)))
    for agent in agents:
        assert agent.wait("stop") == {"op": "stop", "grace": 3, "reason": "stop"}
        agent.exited(0, stopped=True)
    assert job.wait_state("stopped")["verdict"]["cause"] == "stopped"


def test_a_stop_does_not_wait_for_a_member_that_has_no_container(stage):
    job = stage(replicas=2)
    job.grant(1, 2)
    first, second = job.agent("worker-0", 1), job.agent("worker-1", 2)
    first.wait("again")
    second.wait("again")
    second.leave()
    job.over(2, 137)
    job.ask(lambda master: master.happen(ev.StopRequested("ann", 3.0)))
    first.wait("stop")
    first.exited(0, stopped=True)
    job.wait_state("stopped")


def test_a_stop_before_anything_came_ends_the_job_at_once(stage):
    job = stage(replicas=1)
    job.ask(lambda master: master.happen(ev.StopRequested("ann")))
    until(lambda: not job._thread.is_alive(), "the master to be done")
    assert job.master.gang.state == "stopped"


def test_a_later_attempt_leaves_everything_alone(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    job.master.on_end_of_beats(Superseded("YARN knows this attempt no more"))
    until(lambda: not job._thread.is_alive(), "the master to leave")
    assert "knows this attempt no more" in job.master.superseded
    assert job.released() == []
    assert agent.of("stop") == agent.of("bye") == []


def test_a_journal_that_was_closed_by_a_later_attempt_ends_this_one(stage, hdfs):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    until(lambda: "MemberStarted" in job.kinds(), "the journal")
    hdfs.rename(f"{job.record}/journal-1", f"{job.record}/journal-1.closed")
    agent.exited(0)
    until(lambda: not job._thread.is_alive(), "the master to leave")
    assert job.master.superseded
    assert agent.of("bye") == []
