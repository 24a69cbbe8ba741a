"""Where the parts of a job's record lie."""

from dromon.agent.record import Record, runs_among


def test_runs_are_told_from_everything_else_in_a_record():
    names = ["worker-0.2", "worker-0.1", "chief-0.1", "status.json", "status.json.77", "work-1",
             "key", "events.jsonl", ".nfs.3", "worker-1.x", "coordinator.json.8"]  # fmt: skip
    assert runs_among(names) == [("chief-0", 1), ("worker-0", 1), ("worker-0", 2)]


def test_a_run_is_a_directory_of_the_record():
    assert Record("/r").run("worker-0", 3) == "/r/worker-0.3"
    assert Record("/r").log("worker-0", 3) == "/r/worker-0.3/log"
