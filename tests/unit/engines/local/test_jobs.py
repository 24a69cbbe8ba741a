"""One job as the daemon holds it: what it says of itself at every stage."""

from dromon.engines.local.jobs import asked, placement_json, placement_of, status_of
from dromon.sched.asks import Share


def test_a_queued_job_says_so_without_a_gang(bench):
    bench.submit("first-aaaaaa", resources={"cpus": 4})
    status = bench.submit("second-aaaaaa").status()
    assert (status["state"], status["members"], status["attempt"]) == ("queued", [], 0)
    assert status["number"] == 2
    assert status["user"] == "ann"


def test_members_are_told_with_rank_run_and_gpus(bench):
    job = bench.submit(replicas=2, resources={"gpus": 1})
    bench.start(job)
    members = job.status()["members"]
    assert [(m["member"], m["run"], m["rank"], m["state"]) for m in members] == [
        ("worker-0", 1, 0, "up"),
        ("worker-1", 1, 1, "up"),
    ]
    assert sorted(m["gpus"] for m in members) == [("FAKE-0",), ("FAKE-1",)]


def test_memory_of_a_beat_is_shown(bench):
    job = bench.submit()
    bench.start(job)
    bench.hear(job, "worker-0", op="beat", memory=4096)
    assert job.status()["members"][0]["memory"] == 4096


def test_a_job_that_is_over_says_the_same_from_its_row_alone(bench):
    job = bench.submit()
    bench.start(job)
    bench.exit(job, 2)
    full, brief = job.status(), status_of(bench.journal.job(job.id))
    assert brief == {**full, "members": []}
    assert brief["verdict"]["cause"] == "user_error"


def test_what_a_job_asks_for_in_all_is_summed_over_its_roles(make_submission):
    made = make_submission(replicas=3, resources={"cpus": 2, "memory": "1GiB", "gpus": 1})
    assert asked(made.request) == {"members": 3, "cpus": 6, "memory": 3 << 30, "gpus": 3}


def test_a_placement_survives_the_journal():
    placement = {"worker-0": Share("box", 1.5, 1 << 30, ("FAKE-0", "FAKE-1"))}
    assert placement_of(placement_json(placement)) == placement
