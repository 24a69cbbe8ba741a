"""Reasons of waiting jobs in a list: those of clusters never keep it from being shown."""

import threading

from fake_api import FakeApi, FakeJob, make_status

from dromon.cli.commands import ps
from dromon.engines.base import Waiting


class Slow(FakeApi):
    """A cluster that takes its time over a reason."""

    def __init__(self, jobs: list[FakeJob]) -> None:
        super().__init__()
        self.known = jobs
        self.answered = threading.Event()

    def why(self, ref: str, *, on: str = "") -> Waiting | None:
        if on != "local":
            self.answered.wait(60)
        return super().why(ref, on=on)


def waiting(number: int, on: str) -> FakeJob:
    status = make_status(number, f"job{number}", state="queued", on=on)
    return FakeJob(status, waiting=Waiting("waits for 2 GPUs", "resources"))


def reasons(jobs: list[FakeJob], api: FakeApi) -> dict[str, str]:
    return ps.why_they_wait([job.status for job in jobs], api)


def test_the_reason_of_a_clusters_job_is_shown_where_it_is_known_in_time():
    jobs = [waiting(1, "prod"), waiting(2, "local")]
    api = Slow(jobs)
    api.answered.set()
    assert set(reasons(jobs, api).values()) == {"waits for 2 GPUs"}


def test_a_cluster_that_takes_its_time_holds_up_nobody():
    jobs = [waiting(1, "prod"), waiting(2, "local")]
    api = Slow(jobs)
    assert reasons(jobs, api) == {jobs[1].status.id: "waits for 2 GPUs"}
    api.answered.set()


def test_of_a_long_list_no_cluster_is_asked_for_reasons():
    jobs = [waiting(number, "prod") for number in range(ps.SHORT + 1)]
    api = Slow(jobs)
    api.answered.set()
    assert reasons(jobs, api) == {}


def test_a_job_that_was_sent_away_has_nobody_ready_and_does_not_run():
    running = ps.row(make_status(1, "gang", state="running", members=2), "", 100.0)
    waits = ps.row(make_status(1, "gang", state="queued", members=2), "", 100.0)
    assert (running[4], waits[4]) == ("2/2", "0/2")
    assert running[7] != "-"
    assert waits[7] == "-"
