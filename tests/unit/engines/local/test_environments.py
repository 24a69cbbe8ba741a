"""Environments of jobs, through a real daemon: built once, recorded, kept as long as needed."""

import os
import socket
import sys
from pathlib import Path

import pytest

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
SAY = ["python", "-c", "import six; print(six.__version__)"]


def environments(local) -> set[str]:
    """The digests of those that are built."""
    root = Path(local.home.cache, "environments")
    return {p.name for p in root.iterdir() if p.is_dir()} if root.is_dir() else set()


@pytest.fixture
def texts(local, registry):
    """What a job said, once it has ended well."""

    def of(id: str) -> list[str]:
        status = local.wait(id, 110)
        verdict = status.verdict or {}
        if verdict.get("cause") == "environment":
            registry(verdict["message"])
        assert status.state == "succeeded", verdict
        return [line.text for line in local.logs(id, False)]

    return of


def test_two_jobs_at_once_share_one_build(texts, local, jobs):
    before = environments(local)
    command = ["python", "-c", "import sys; print(sys.prefix)"]
    ids = [jobs.run(*command, environment={"python": HERE}) for _ in range(2)]
    (first,), (second,) = (texts(id) for id in ids)
    assert first == second
    assert {os.path.basename(first)} == environments(local) - before


def test_a_job_being_prepared_says_so(texts, local, jobs):
    id = jobs.run("true", environment={"python": HERE, "packages": ["six==1.16.0"]})
    waiting = local.why(id)
    assert waiting is None or waiting.reason in ("preparing", "resources", "about to start")
    texts(id)
    assert jobs.show(id)["timeline"][1]["event"] == "_environment"


def test_a_build_that_takes_long_does_not_keep_the_daemon_from_being_restarted(
    serve, on, tmp_path, monkeypatch
):
    with socket.create_server(("127.0.0.1", 0)) as mute:  # a registry that never answers
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{mute.getsockname()[1]}/simple")
        with serve() as engine:
            id = on(engine, tmp_path).run("true", environment={"packages": ["six"]})
            before = int(engine.client.ask("daemon_stop")["pid"])
            engine.client.wait_gone(before)
            assert int(engine.client.ask("daemon_status")["pid"]) != before
            assert engine.status(id).state == "preparing"
            engine.stop(id)
            assert engine.wait(id, 60).state == "stopped"


def test_a_package_that_is_not_there_is_the_jobs_verdict_in_uvs_words(local, jobs):
    id = jobs.run("true", environment={"packages": ["six==99.99"]})
    status = local.wait(id, 110)
    assert (status.state, status.verdict["cause"]) == ("failed", "environment")
    assert "six" in status.verdict["message"]
    assert "Traceback" not in status.verdict["message"]


def test_a_rerun_has_the_lock_of_the_first_run_whatever_became_of_the_requirements(
    texts, local, jobs
):
    wanted = jobs.cwd / "requirements.txt"
    wanted.write_text("six==1.16.0\n")
    id = jobs.run(*SAY, environment={"requirements": "requirements.txt"})
    assert texts(id) == ["1.16.0"]
    wanted.write_text("six==1.15.0\n")
    again = jobs.engine.client.ask(
        "rerun", ref=id, overrides=[], environ=dict(os.environ), token="bbbbbb"
    )["id"]
    assert texts(again) == ["1.16.0"]
    lock = jobs.show(again)["environment"]["lock"]
    assert lock == jobs.show(id)["environment"]["lock"]
    assert texts(jobs.run(*SAY, environment={"requirements": "requirements.txt"})) == ["1.15.0"]


def test_cleaning_takes_what_no_job_names_and_leaves_what_a_queued_job_needs(texts, local, jobs):
    every = {"cpus": float(len(os.sched_getaffinity(0)))}
    done = jobs.run("true", environment={"python": HERE, "packages": ["six==1.16.0"]})
    texts(done)
    digest = jobs.show(done)["environment"]["digest"]
    first = jobs.run("sleep 60", resources=every)
    jobs.until(first, "running")
    queued = jobs.run(*SAY, environment={"python": HERE, "packages": ["six==1.16.0"]})
    jobs.until(queued, "queued")
    local.client.ask("gc", older_than=0.0)  # the first of the two is forgotten
    assert digest in environments(local)
    local.stop(first, 0.0)
    assert texts(queued) == ["1.16.0"]
    local.client.ask("gc", older_than=0.0)
    assert environments(local) == set()
