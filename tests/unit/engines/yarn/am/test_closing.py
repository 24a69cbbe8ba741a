"""The end of a job: outputs first, then the agents leave, then it is over."""

from stage import until

from dromon.lifecycle import events as ev


def has(agent, *paths):
    """It is asked what it has, and says it."""
    assert agent.wait("keep") == {"op": "keep", "attempt": 1}
    agent.tell("kept", attempt=1, found=list(paths))


def keeps(agent, count=2):
    """It is asked to keep some of it, and does; which?"""
    paths = agent.wait("keep", count)["paths"]
    agent.tell("kept", attempt=1, outputs=[{"path": path, "size": 1} for path in paths])
    return paths


def test_outputs_are_home_before_anybody_is_sent_away(stage):
    job = stage(replicas=2, outputs=["m"])
    first, second = job.run(2)
    for agent in (first, second):
        agent.exited(0)
    has(first, "m/a")
    has(second)
    first.wait("keep", 2)
    job.ask(lambda master: None)
    assert first.of("bye") == second.of("bye") == []
    assert keeps(first) == ["m/a"]
    for agent in (first, second):
        agent.wait("bye")
        agent.leave()
    until(lambda: not job._thread.is_alive(), "the master to be done")
    found = list(job.master.closing.outputs.values())
    assert found == [{"path": "m/a", "size": 1, "member": "worker-0"}]
    assert len(second.of("keep")) == 1


def test_of_the_same_path_the_first_ranks_is_kept_and_no_other(stage):
    job = stage(replicas=2, outputs=["m"])
    first, second = job.run(2)
    for agent in (first, second):
        agent.exited(0)
    has(second, "m/model", "m/b")
    has(first, "m/model")
    assert keeps(second) == ["m/b"]
    assert keeps(first) == ["m/model"]
    first.wait("bye")
    found = {o["path"]: o["member"] for o in job.status()["outputs"]}
    assert found == {"m/model": "worker-0", "m/b": "worker-1"}


def test_nobody_is_waited_for_whose_container_is_over(stage):
    job = stage(replicas=2, outputs=["m"])
    first, second = job.run(2)
    for agent in (first, second):
        agent.exited(0)
    second.wait("keep")
    has(first, "m/a")
    second.leave()
    until(lambda: not job.member("worker-1")["connected"], "its line to end")
    assert len(first.of("keep")) == 1  # it may come back
    job.over(2, 137)
    assert keeps(first) == ["m/a"]
    first.wait("bye")
    first.leave()
    until(lambda: not job._thread.is_alive(), "the master to be done")


def test_an_agent_whose_line_broke_is_asked_again_for_what_it_keeps(stage):
    job = stage(replicas=2, outputs=["m"])
    first, second = job.run(2)
    for agent in (first, second):
        agent.exited(0)
    has(first, "m/a")
    first.leave()  # before the second has answered
    until(lambda: not job.member("worker-0")["connected"], "its line to end")
    has(second, "m/a", "m/b")
    assert keeps(second) == ["m/b"]
    back = job.agent("worker-0", 1, run=1)
    assert keeps(back, 1) == ["m/a"]
    back.wait("bye")
    assert [o["path"] for o in job.status()["outputs"]] == ["m/b", "m/a"]


def test_outputs_that_never_come_do_not_hold_the_end_up_for_ever(stage):
    job = stage(replicas=1, outputs=["m"])
    (agent,) = job.run(1)
    agent.exited(0)
    agent.wait("keep")
    job.pass_time(1801)
    agent.wait("bye")
    assert job._thread.is_alive()
    job.ahead += 11  # it does not leave either
    job.master.post(lambda: None)
    until(lambda: not job._thread.is_alive(), "the master to be done")


def test_a_job_that_never_ran_has_no_outputs_to_wait_for(stage):
    job = stage(replicas=1, outputs=["m"])
    job.grant(1)
    agent = job.agent("worker-0", 1)
    agent.wait("again")
    other = stage(epoch=2, replicas=2, outputs=["m"])
    other.ask(lambda master: master.happen(ev.StopRequested("ann")))
    until(lambda: not other._thread.is_alive(), "the master to be done")
    assert other.master.closing.outputs == {}


def test_whoever_comes_after_the_end_is_sent_away(stage):
    job = stage(replicas=2)
    first, second = job.run(2)
    second.leave()
    until(lambda: not job.member("worker-1")["connected"], "its line to end")
    job.over(2, 137)
    first.wait("stop")
    job.ask(lambda master: master.happen(ev.StopRequested("ann", 1.0)))
    first.exited(0, stopped=True)
    first.wait("bye")
    late = job.agent("worker-0", 1, run=1)
    late.wait("bye")
