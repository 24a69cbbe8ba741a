"""The end of a job: outputs first, then the agents leave, then it is over."""

from stage import until

from dromon.lifecycle import events as ev

OUTPUT = {"path": "m/model", "size": 3}


def test_outputs_are_home_before_anybody_is_sent_away(stage):
    job = stage(replicas=2, outputs=["m"])
    first, second = job.run(2)
    for agent in (first, second):
        agent.exited(0)
    for agent in (first, second):
        assert agent.wait("keep") == {"op": "keep", "attempt": 1}
    first.tell("kept", attempt=1, outputs=[OUTPUT])
    until(lambda: job.status()["outputs"], "the first output")
    assert first.of("bye") == second.of("bye") == []
    second.tell("kept", attempt=1, outputs=[])
    for agent in (first, second):
        agent.wait("bye")
        agent.leave()
    until(lambda: not job._thread.is_alive(), "the master to be done")
    assert list(job.master.closing.outputs.values()) == [{**OUTPUT, "member": "worker-0"}]


def test_of_the_same_path_the_first_ranks_counts(stage):
    job = stage(replicas=2, outputs=["m"])
    first, second = job.run(2)
    for agent in (first, second):
        agent.exited(0)
    for agent in (first, second):
        agent.wait("keep")
    second.tell("kept", attempt=1, outputs=[{**OUTPUT, "size": 5}, {"path": "m/b", "size": 1}])
    until(lambda: len(job.status()["outputs"]) == 2, "the second's")
    first.tell("kept", attempt=1, outputs=[OUTPUT])
    first.wait("bye")
    found = {o["path"]: (o["member"], o["size"]) for o in job.status()["outputs"]}
    assert found == {"m/model": ("worker-0", 3), "m/b": ("worker-1", 1)}


def test_nobody_is_waited_for_whose_container_is_over(stage):
    job = stage(replicas=2, outputs=["m"])
    first, second = job.run(2)
    for agent in (first, second):
        agent.exited(0)
    for agent in (first, second):
        agent.wait("keep")
    first.tell("kept", attempt=1, outputs=[OUTPUT])
    second.leave()
    until(lambda: not job.member("worker-1")["connected"], "its line to end")
    assert first.of("bye") == []  # it may come back
    job.over(2, 137)
    first.wait("bye")
    first.leave()
    until(lambda: not job._thread.is_alive(), "the master to be done")


def test_an_agent_whose_line_broke_is_asked_for_its_outputs_again(stage):
    job = stage(replicas=1, outputs=["m"])
    (agent,) = job.run(1)
    agent.exited(0)
    agent.wait("keep")
    agent.leave()
    until(lambda: not job.member("worker-0")["connected"], "its line to end")
    back = job.agent("worker-0", 1, run=1)
    back.wait("keep")
    assert back.of("bye") == []
    back.tell("kept", attempt=1, outputs=[OUTPUT])
    back.wait("bye")
    assert [o["path"] for o in job.status()["outputs"]] == ["m/model"]


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
