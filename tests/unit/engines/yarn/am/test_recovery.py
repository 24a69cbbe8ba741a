"""The next attempt of the ApplicationMaster: what it finds, adopts, gives back and fences."""

from stage import name, until

from dromon.engines.yarn.am.scheduler import NOTHING, Registration


def again(stage, first, *, seen=(), running=None, **keys):
    """The attempt after `first`, told by YARN which containers still run; all, unless said."""
    numbers = first.held() if running is None else running
    first.wait_written()
    job = stage(epoch=first.epoch + 1, begin=False, **keys)
    job.master.recover(job.entries)
    still = tuple(first.containers[name(number)] for number in numbers)
    job.strange = job.master.containers.adopt(Registration(NOTHING, containers=still))
    job.master.post(lambda: job.master.containers.missing_after({name(number) for number in seen}))
    job.start()
    return job


def test_the_gang_of_an_earlier_attempt_goes_on(stage):
    before = stage(replicas=2)
    before.run(2)
    job = again(stage, before, replicas=2)
    assert job.held() == {1: "worker-0", 2: "worker-1"}
    assert job.nodes.adopted == [name(1), name(2)]
    assert job.state() == "running"
    assert job.status()["runs"] == [["worker-0", 1], ["worker-1", 1]]
    assert job.left() == 0
    agents = [job.agent(f"worker-{i}", i + 1, run=1) for i in range(2)]
    for agent in agents:
        assert agent.welcome["epoch"] == 2
        agent.exited(0)
    for agent in agents:
        agent.wait("bye")
    assert job.status()["verdict"]["cause"] == "success"
    assert job.nodes.started == []


def test_a_gang_that_was_gathering_goes_on_gathering(stage):
    before = stage(replicas=2)
    before.grant(1)
    until(lambda: before.starts() == [1], "the start")
    job = again(stage, before, replicas=2)
    assert job.held() == {1: "worker-0"}
    until(lambda: job.left() == 1, "the other to be asked for")
    job.grant(2)
    agents = [job.agent(f"worker-{index}", index + 1) for index in range(2)]
    assert [agent.wait("again")["run"] for agent in agents] == [1, 1]


def test_a_container_that_nobody_knows_is_given_back(stage):
    before = stage(replicas=1)
    before.run(1)
    before.grant(2)  # granted, and the master died before it was written down
    job = again(stage, before, running=[1, 2], replicas=1)
    assert job.strange == [name(2)]


def test_what_was_given_back_before_is_strange_too(stage):
    before = stage(replicas=2)
    first, _ = before.run(2)
    first.exited(0)
    before.wait_members("done", 1)
    before.hear(contract=(name(2),))
    until(lambda: {"released": name(1)} in before.written(), "the release on the journal")
    job = again(stage, before, running=[1, 2], replicas=2)
    assert job.strange == [name(1)]
    assert job.held() == {2: "worker-1"}


def test_a_container_of_which_yarn_says_nothing_is_on_a_lost_node(stage):
    before = stage(replicas=2, stop_grace="1s")
    before.run(2)
    job = again(stage, before, running=[2], replicas=2, stop_grace="1s")
    assert job.status()["fenced"] == ["worker-0"]
    assert job.status()["trouble"] == ""
    job.pass_time(70)
    assert job.wait_kind("MemberLost")["member"] == "worker-0"


def test_a_container_that_ended_meanwhile_is_told_of_and_not_lost(stage):
    before = stage(replicas=1)
    before.run(1)
    job = again(stage, before, running=[], seen=[1], replicas=1)
    assert job.status()["fenced"] == []
    job.over(1, -102)
    assert job.wait_kind("MemberEvicted")["member"] == "worker-0"


def test_the_end_of_a_container_that_was_replaced_does_not_touch_the_member(stage):
    keys = {"replicas": 1, "policies": {"member_lost": "restart_member"}}
    before = stage(**keys)
    (agent,) = before.run(1)
    agent.leave()
    before.over(1, 137)
    until(lambda: before.left() == 1, "another to be asked for")
    before.grant(2)
    new = before.agent("worker-0", 2)
    new.wait("again")
    new.ready()
    new.wait("world")
    new.tell("started", pid=8)
    before.wait_members("up", 1)
    job = again(stage, before, **keys)
    assert job.held() == {2: "worker-0"}
    assert job.status()["fenced"] == []
    back = job.agent("worker-0", 2, run=2)
    back.tell("started", pid=8)
    back.exited(0)
    back.wait("bye")
    assert back.of("stop") == []


def test_a_member_that_ended_before_its_end_was_written_tells_it_again(stage, name_node):
    before = stage(replicas=1)
    (agent,) = before.run(1)
    until(lambda: "MemberStarted" in before.kinds(), "the journal")
    job = again(stage, before, replicas=1)
    agent.exited(0)  # to the first, which may not write any more
    until(lambda: before.master.superseded, "the first to be superseded")
    assert agent.of("bye") == []
    back = job.agent("worker-0", 1, run=1)
    back.exited(0)
    back.wait("bye")


def test_a_job_that_was_over_is_closed_again_with_its_outputs(stage):
    before = stage(replicas=1, outputs=["m"])
    (agent,) = before.run(1)
    agent.exited(0)
    agent.wait("keep")
    job = again(stage, before, replicas=1, outputs=["m"])
    job.master.post(job.master.close_again)
    back = job.agent("worker-0", 1, run=1)
    back.wait("keep")
    back.tell("kept", attempt=1, found=["m/a"])
    assert back.wait("keep", 2)["paths"] == ["m/a"]
    back.tell("kept", attempt=1, outputs=[{"path": "m/a", "size": 1}])
    back.wait("bye")
    back.leave()
    until(lambda: not job._thread.is_alive(), "the master to be done")
    assert job.master.gang.state == "succeeded"
    assert list(job.master.closing.outputs) == ["m/a"]


def test_agents_that_do_not_come_back_do_not_hold_the_end_up(stage):
    before = stage(replicas=1)
    (agent,) = before.run(1)
    agent.exited(0)
    agent.wait("bye")
    job = again(stage, before, replicas=1)
    job.ask(lambda master: master.close_again())
    job.ahead += 61
    job.master.post(lambda: None)
    until(lambda: not job._thread.is_alive(), "the master to be done")


def test_three_attempts_tell_one_story(stage):
    first = stage(replicas=2)
    first.grant(1)
    until(lambda: first.starts() == [1], "the start")
    second = again(stage, first, replicas=2)
    second.containers.update(first.containers)
    second.grant(2)
    agents = [second.agent(f"worker-{index}", index + 1) for index in range(2)]
    for agent in agents:
        agent.wait("again")
        agent.ready()
    second.wait_state("running")
    until(lambda: second.kinds().count("MemberReady") == 2, "the journal")
    third = again(stage, second, replicas=2)
    assert third.state() == "running"
    assert third.held() == {1: "worker-0", 2: "worker-1"}
