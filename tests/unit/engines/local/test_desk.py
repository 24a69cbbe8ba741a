"""What commands ask, asked of a real daemon over its socket."""

import json
import os
import time
from pathlib import Path

import pytest

from dromon import __version__
from dromon.engines.base import Filter
from dromon.engines.local.client import Talk
from dromon.errors import (
    AmbiguousJob,
    DromonError,
    JobFileError,
    JobNotFound,
    Refused,
    UsageError,
    VersionMismatch,
)

ALL_CPUS = {"cpus": float(len(os.sched_getaffinity(0)))}


# ---- finding ------------------------------------------------------------------------------------


def test_a_job_is_found_by_number_id_name_prefix_and_age(local, jobs):
    older = jobs.run("true", name="find-me")
    newer = jobs.run("true", name="find-other")
    ask = local.client.ask
    number = ask("find", ref=older)["number"]
    assert ask("find", ref=str(number))["id"] == older
    assert ask("find", ref="find-me")["id"] == older
    assert ask("find", ref="find-o")["id"] == newer
    assert ask("find", ref="@last")["id"] == newer
    assert ask("find", ref="@last~1")["id"] == older
    for id in (older, newer):
        jobs.end(id)


def test_of_two_jobs_of_one_name_the_newer_is_meant(local, jobs):
    ids = [jobs.run("true", name="twin") for _ in range(2)]
    assert local.client.ask("find", ref="twin")["id"] == ids[1]
    for id in ids:
        jobs.end(id)


def test_what_is_not_there_or_not_clear_is_said(local, jobs):
    for name in ("amb-one", "amb-two"):
        jobs.end(jobs.run("true", name=name))
    with pytest.raises(AmbiguousJob, match=r"amb-one-\w+, amb-two-\w+"):
        local.client.ask("find", ref="amb")
    for ref in ("nothing", "99999", "9" * 40, "@last~99999", "@last~" + "9" * 40, "@lastly", ""):
        with pytest.raises(JobNotFound):
            local.client.ask("find", ref=ref)


# ---- asking -------------------------------------------------------------------------------------


def test_show_has_everything_about_a_job(jobs):
    Path(jobs.cwd, "train.py").write_text("print('hello')")
    found = jobs.end(jobs.run("python", "train.py", config={"lr": 0.1}, outputs=["model"]))
    assert found["status"]["state"] == "succeeded"
    assert found["status"]["members"][0]["exit"]["code"] == 0
    assert [e["event"] for e in found["timeline"]][:2] == ["Submitted", "_placement"]
    assert found["request"]["config"] == {"lr": 0.1}
    assert len(found["request"]["code"]["digest"]) == 64
    assert found["outputs"][0]["path"] == "model"
    assert Path(found["work"], "train.py").exists()
    kept = json.loads(Path(found["record"], "request.json").read_text())
    assert kept == found["request"]


def test_a_list_has_the_active_or_all_of_one_name_or_the_newest(local, jobs):
    done = jobs.run("true", name="listed")
    jobs.end(done)
    waiting = jobs.run("sleep 60", name="listed-too")
    assert [s.id for s in local.list(Filter())] == [waiting]
    assert [s.id for s in local.list(Filter(active_only=False, name="listed"))] == [done]
    newest = local.list(Filter(active_only=False, limit=2))
    assert [s.id for s in newest] == [done, waiting]
    local.stop(waiting, 0.0)
    jobs.end(waiting)


def test_why_tells_who_holds_what_a_job_waits_for(local, jobs):
    first = jobs.run("sleep 60", resources=ALL_CPUS)
    second = jobs.run("true")
    jobs.until(first, "running")
    waiting = local.why(second)
    assert waiting.reason == "resources"
    assert first in waiting.holders
    assert waiting.position == 1
    assert local.why(first) is None
    local.stop(first, 0.0)
    assert jobs.end(second)["status"]["state"] == "succeeded"
    assert local.why(second) is None


def test_why_tells_that_a_job_is_between_two_attempts(local, jobs):
    id = jobs.run("exit 1", retries={"max": 1, "backoff": "60s"})
    jobs.until(id, "restarting")
    waiting = local.why(id)
    while waiting is not None and "next attempt" not in waiting.sentence:
        time.sleep(0.02)
        waiting = local.why(id)
    assert waiting.reason == "backoff"
    local.stop(id)
    jobs.end(id)


def test_nodes_and_capabilities_say_what_there_is(local):
    (node,) = local.nodes()
    assert node.total["gpus"] == node.free["gpus"] == 2
    assert {gpu["uuid"] for gpu in node.gpus} == {"FAKE-0", "FAKE-1"}
    assert any(note.startswith("memory: ") for note in node.notes)
    found = local.probe()
    assert (found.gang, found.resources["gpus"]) == ("sched", 2)
    assert "environment.image" in found.lacks


def test_a_gpu_in_use_is_shown_with_its_job(local, jobs):
    id = jobs.run("sleep 60", resources={"gpus": 1})
    jobs.until(id, "running")
    (node,) = local.nodes()
    assert node.free["gpus"] == 1
    (held,) = [gpu for gpu in node.gpus if gpu["job"]]
    assert held["job"] == held["holder"] == id
    local.stop(id, 0.0)
    jobs.end(id)
    assert local.nodes()[0].free["gpus"] == 2


def test_queues_count_who_runs_and_who_waits(local, jobs):
    running = jobs.run("sleep 60", resources=ALL_CPUS)
    jobs.until(running, "running")
    queued = jobs.run("true")
    (queue,) = local.queues()
    assert (queue.running, queue.queued) == (1, 1)
    local.stop(queued)
    local.stop(running, 0.0)
    jobs.end(running)


def test_a_plan_is_the_request_and_nothing_is_submitted(local, jobs):
    before = [s.id for s in local.list(Filter(active_only=False))]
    request = {"cwd": str(jobs.cwd), "environ": {}, "data": {"command": "x", "tensorboard": "r"}}
    plan = local.client.ask("plan", request=request)["plan"]
    assert plan["request"]["roles"]["worker"]["command"] == "x"
    assert "tensorboard" in plan["lacks"]
    assert [s.id for s in local.list(Filter(active_only=False))] == before


# ---- members ------------------------------------------------------------------------------------


def test_each_member_sees_its_own_gpus_and_who_asks_for_none_sees_none(jobs, local):
    show = "echo [$CUDA_VISIBLE_DEVICES]"
    two = jobs.run(show, replicas=2, resources={"gpus": 1, "cpus": 0})
    jobs.end(two)
    assert sorted(line.text for line in local.logs(two, False)) == ["[0]", "[1]"]
    none = jobs.run(show)
    jobs.end(none)
    assert [line.text for line in local.logs(none, False)] == ["[]"]


# ---- refusing -----------------------------------------------------------------------------------


def test_errors_come_back_as_what_they_are(local, jobs):
    with pytest.raises(JobFileError, match="resorces") as bad:
        jobs.ask(text="command: x\nresorces: {}\n", file="job.yaml")
    assert bad.value.problems[0].line == 2
    with pytest.raises(Refused, match="can never run here"):
        jobs.run("true", resources={"gpus": 3})
    with pytest.raises(UsageError, match="does not know 'dance'"):
        local.client.ask("dance")


def test_a_job_that_is_not_over_is_not_removed(local, jobs):
    id = jobs.run("sleep 60")
    with pytest.raises(UsageError, match="is still"):
        local.client.ask("remove", refs=[id])
    local.stop(id, 0.0)
    jobs.end(id)


def test_another_version_is_told_so_and_may_still_stop_the_daemon(local):
    with Talk(local.client.connect()) as talk:
        talk.send({"op": "list", "version": "0.0.1"})
        with pytest.raises(VersionMismatch, match=f"{__version__}.*0.0.1"):
            talk.answer()
        talk.send({"op": "daemon_status", "version": "0.0.1"})
        assert talk.answer()["version"] == __version__


@pytest.mark.parametrize(
    "message",
    [
        {"op": "status"},
        {"op": "run", "request": {}},
        {"op": "run", "request": {"cwd": "/", "environ": {}, "data": {"command": 7}}},
        {"op": "submit", "id": "x-aaaaaa", "request": {}},
        {"op": "rerun", "ref": "@last"},
        {"op": "gc", "older_than": "soon"},
        {"op": "submit_many", "common": {}, "requests": [{"data": {"command": "x"}}]},
    ],
)
def test_a_malformed_question_is_answered_and_the_daemon_lives_on(local, jobs, message):
    jobs.end(jobs.run("true"))
    with Talk(local.client.connect()) as talk:
        talk.send({"version": __version__, **message})
        with pytest.raises(DromonError):
            talk.answer()
        talk.send({"op": "daemon_status", "version": __version__})
        assert talk.answer()["pid"] > 0


# ---- rerun --------------------------------------------------------------------------------------


def rerun(local, ref: str, *overrides: str, **environ: str) -> str:
    environ = {**os.environ, **environ}
    token = os.urandom(3).hex()
    asked = {"ref": ref, "overrides": list(overrides), "environ": environ, "token": token}
    return str(local.client.ask("rerun", **asked)["id"])


def texts(local, id: str) -> list[str]:
    local.wait(id, 60)
    return [line.text for line in local.logs(id, False)]


def test_a_rerun_has_the_code_of_the_first_run_whatever_became_of_the_directory(local, jobs):
    script = Path(jobs.cwd, "train.py")
    script.write_text("print('first')")
    id = jobs.run("python", "train.py")
    script.write_text("print('second')")
    assert texts(local, id) == ["first"]
    script.unlink()
    assert texts(local, rerun(local, id)) == ["first"]


def test_a_rerun_fills_placeholders_in_anew(local, jobs):
    id = jobs.run("echo ${config.lr} ${job.id}", config={"lr": 0.1})
    assert texts(local, id) == [f"0.1 {id}"]
    again = rerun(local, id, "config.lr=0.5")
    assert texts(local, again) == [f"0.5 {again}"]
    third = rerun(local, again)
    assert texts(local, third) == [f"0.5 {third}"]


def test_relative_volumes_of_a_rerun_are_where_they_were(local, jobs):
    data = jobs.cwd / "data"
    data.mkdir()
    id = jobs.run("echo ${volumes.d} ${config.x}", volumes={"d": {"source": "data"}},
                  config={"x": 1})  # fmt: skip
    assert texts(local, id) == [f"{data} 1"]
    assert texts(local, rerun(local, id, "config.x=2")) == [f"{data} 2"]


@pytest.mark.parametrize("override", ["workdir=..", "environment.packages=[six]"])
def test_a_rerun_cannot_be_asked_for_other_code(local, jobs, override):
    id = jobs.run("true")
    with pytest.raises(Refused, match="cannot change"):
        rerun(local, id, override)
    jobs.end(id)


def test_a_rerun_needs_the_secrets_again(local, jobs):
    environ = {**os.environ, "CANARY": "first"}
    id = jobs.ask(data={"command": "echo $CANARY", "secrets": ["CANARY"]}, environ=environ)
    jobs.end(id)
    with pytest.raises(Refused, match="CANARY"):
        rerun(local, id)
    jobs.end(rerun(local, id, CANARY="second"))
