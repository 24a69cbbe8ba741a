"""How a job stands, as its page, its clients and its record are told."""


def test_a_job_that_waits_says_for_what(stage):
    job = stage(replicas=3)
    job.grant(1)
    found = job.status()
    assert (found["state"], found["attempt"], found["members"]) == ("queued", 0, [])
    assert (found["missing"], found["held"]) == ({"worker": 2}, 1)
    assert found["verdict"] is None
    assert found["trouble"] == ""


def test_a_member_is_told_with_its_container_and_what_it_uses(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1, node="n7:45454")
    agent.tell("beat", memory=1 << 20, cpu=0.5)
    from stage import until

    until(lambda: job.member("worker-0")["memory"], "the beat")
    found = job.member("worker-0")
    assert (found["run"], found["rank"], found["state"], found["pid"]) == (1, 0, "up", 7)
    assert (found["node"], found["memory"]) == ("n7:45454", 1 << 20)
    assert found["container"].endswith("_000001")
    assert found["connected"] is True
    assert found["exit"] is None


def test_a_job_that_is_over_misses_nothing(stage):
    job = stage(replicas=1)
    (agent,) = job.run(1)
    agent.exited(2)
    found = job.wait_state("failed")
    assert found["missing"] == {}
    assert found["verdict"]["code"] == 2
    assert found["members"][0]["exit"]["code"] == 2
    assert found["ended"] >= found["started"]
