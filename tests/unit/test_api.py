"""The Python API against a real daemon: one for all tests of this file."""

import importlib
import os
import shutil
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dromon
from dromon import api
from dromon.errors import (
    JobFailed,
    JobFileError,
    JobNotFound,
    PackagingError,
    Refused,
    UsageError,
)


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="dromon-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DROMON_HOME", str(path))
        patch.setenv("DROMON_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield path
        api.daemon("stop")
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of this test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def texts(run: dromon.Run) -> list[str]:
    return [line.text for line in run.logs()]


def module(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch):
    """A module of the user's, importable here."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


# ---- commands -----------------------------------------------------------------------------------


def test_a_command_runs_and_its_status_and_lines_are_told():
    run = dromon.run(["echo", "hello"], args=("world",))
    status = run.wait(60)
    assert (status.state, status.name, status.is_terminal) == ("succeeded", "echo", True)
    assert run.status == status
    assert texts(run) == ["hello world"]
    assert repr(run) == f"Run({run.id!r})"
    assert run.why() is None


def test_a_script_runs_with_its_arguments_in_the_callers_python(work):
    (work / "train.py").write_text("import sys; print(sys.argv[1:], sys.executable)")
    run = dromon.run("train.py", args=("--lr", 3))
    assert texts(run) == [f"['--lr', '3'] {sys.executable}"]
    assert run.status.name == "train"


def test_a_job_file_runs_with_keywords_and_overrides(work):
    (work / "job.yaml").write_text(
        "command: echo $DROMON_RANK ${config.lr} ${config.name}\nconfig: {lr: 1, name: a}\n"
        "resources: {cpus: 0}\n"
    )
    run = dromon.run(Path("job.yaml"), workers=2, name="filed", overrides=["config.lr=5"])
    assert sorted(texts(run)) == ["0 5 a", "1 5 a"]
    assert run.id.startswith("filed-")


def test_further_keywords_are_keys_of_the_job_file():
    run = dromon.run(["sh", "-c", "echo $A"], env={"A": "b"}, cpus=0.5, memory="64MiB")
    assert texts(run) == ["b"]
    shown = api.show(run.id)
    assert shown["job"]["roles"]["worker"]["resources"] == {"cpus": 0.5, "memory": 64 << 20}
    with pytest.raises(JobFileError, match="resorces"):
        dromon.run(["true"], resorces={"gpus": 1})


def test_a_command_has_no_result_and_a_failed_one_says_why():
    assert dromon.run(["true"]).result(60) is None
    with pytest.raises(JobFailed, match="exit code 3") as failed:
        dromon.run(["sh", "-c", "echo sorry; exit 3"]).result(60)
    assert failed.value.hint == "sorry"


# ---- functions ----------------------------------------------------------------------------------


def test_a_functions_value_comes_back():
    def add(a, b=0):
        return {"sum": a + b}

    assert dromon.run(add, args=(1,), kwargs={"b": 2}).result(60) == {"sum": 3}


def test_a_lambda_a_closure_and_a_builtin_are_functions_too():
    offset = 10

    def closure(x):
        return x + offset

    assert dromon.run(lambda x: x * 2, args=(4,)).result(60) == 8
    assert dromon.run(closure, args=(1,)).result(60) == 11
    assert dromon.run(len, args=("abc",)).result(60) == 3


def test_every_worker_has_a_result_in_rank_order():
    def rank():
        import dromon

        context = dromon.context()
        return context.rank, context.world

    run = dromon.run(rank, workers=2, cpus=0)
    assert run.results(60) == [(0, 2), (1, 2)]
    assert run.result(60) == (0, 2)


def test_an_exception_comes_back_as_itself_with_the_remote_traceback():
    def fail():
        raise KeyError("the missing one")

    run = dromon.run(fail)
    with pytest.raises(KeyError, match="the missing one") as raised:
        run.result(60)
    (note,) = raised.value.__notes__
    assert run.id in note
    assert "in fail" in note
    assert run.status.verdict["cause"] == "user_error"


def test_an_exception_of_a_class_of_its_own_comes_back():
    class Diverged(Exception):
        pass

    def fail():
        raise Diverged(3)

    with pytest.raises(Exception, match="3") as raised:
        dromon.run(fail).result(60)
    assert type(raised.value).__name__ == "Diverged"


def test_of_several_workers_the_first_failures_exception_comes_back():
    def fail():
        import dromon

        if dromon.context().rank == 1:
            raise ValueError("rank one")
        import time

        time.sleep(60)

    with pytest.raises(ValueError, match="rank one"):
        dromon.run(fail, workers=2, cpus=0, stop_grace="1s").result(60)


def test_a_function_that_leaves_by_itself_returns_nothing():
    def leave(code):
        import sys

        sys.exit(code)

    assert dromon.run(leave, args=(0,)).result(60) is None
    with pytest.raises(SystemExit) as left:
        dromon.run(leave, args=(4,)).result(60)
    assert left.value.code == 4


def test_a_function_of_a_module_in_the_working_directory_finds_its_neighbours(work, monkeypatch):
    (work / "neighbour.py").write_text("VALUE = 'next door'\n")
    mine = module(work, "mine_inside", "import neighbour\ndef f(): return neighbour.VALUE\n",
                  monkeypatch)  # fmt: skip
    assert dromon.run(mine.f).result(60) == "next door"


def test_a_function_of_a_module_elsewhere_is_brought_along(work, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("elsewhere")
    theirs = module(folder, "theirs_outside", "SCALE = 3\ndef f(x): return x * SCALE\n",
                    monkeypatch)  # fmt: skip
    assert dromon.run(theirs.f, args=(2,)).result(60) == 6


def test_what_cannot_be_shipped_is_said_before_anything_is_submitted():
    before = len(api.jobs(all=True))
    with pytest.raises(PackagingError, match="cannot be shipped"):
        dromon.run(print, args=(threading.Lock(),))
    assert len(api.jobs(all=True)) == before


def test_a_value_that_cannot_be_sent_back_is_the_jobs_failure():
    def lock():
        import threading

        return threading.Lock()

    with pytest.raises(JobFailed, match="cannot be sent back"):
        dromon.run(lock).result(60)


# ---- a run's life -------------------------------------------------------------------------------


def test_waiting_gives_up_when_told_and_stopping_ends_it():
    run = dromon.run(["sleep", "60"])
    with pytest.raises(TimeoutError, match=run.id):
        run.wait(0.05)
    run.stop()
    assert run.wait(60).state == "stopped"
    run.stop()  # once more does no harm
    with pytest.raises(JobFailed, match="stopped"):
        run.result(60)


def test_lines_are_told_while_it_runs():
    run = dromon.run(["sh", "-c", "echo first; sleep 60"])
    lines = run.logs()
    assert next(lines).text == "first"
    assert [line.text for line in run.logs(follow=False)] == ["first"]
    run.stop(grace=0)
    assert list(lines) == []


def test_a_job_that_waits_says_for_what():
    cpus = len(os.sched_getaffinity(0))
    first = dromon.run(["sleep", "60"], cpus=cpus)
    second = dromon.run(["true"])
    while first.status.state != "running":
        time.sleep(0.01)
    assert first.id in second.why().holders
    first.stop(grace=0)
    assert second.wait(60).state == "succeeded"


def test_what_asks_for_more_than_there_is_is_refused():
    with pytest.raises(Refused, match="never run here"):
        dromon.run(["true"], cpus=10_000)


def test_there_is_no_such_engine():
    calls = ((dromon.run, ["true"]), (dromon.submit, [{"command": "true"}]), (dromon.load, "1"))
    for call, argument in calls:
        with pytest.raises(UsageError, match="no context 'nowhere'"):
            call(argument, on="nowhere")


# ---- many, and again ----------------------------------------------------------------------------


def test_many_are_submitted_at_once_and_each_is_its_own_job(work):
    (work / "who.py").write_text("import sys; print(sys.argv[1])")
    runs = dromon.submit({"command": ["python", "who.py", str(n)], "name": f"n{n}"}
                         for n in range(5))  # fmt: skip
    assert [texts(run) for run in runs] == [[str(n)] for n in range(5)]
    numbers = [run.status.number for run in runs]
    assert numbers == sorted(set(numbers))


def test_when_one_of_many_is_wrong_none_of_its_batch_is_accepted():
    before = len(api.jobs(all=True))
    with pytest.raises(JobFileError, match="comand"):
        dromon.submit([{"command": "true"}, {"comand": "true"}])
    with pytest.raises(Refused, match="never run here"):
        dromon.submit([{"command": "true"}, {"command": "true", "resources": {"gpus": 99}}])
    assert len(api.jobs(all=True)) == before
    assert dromon.submit([]) == []


def test_a_job_is_loaded_by_number_id_name_prefix_or_as_the_last():
    run = dromon.run(["echo", "again"], name="loadable")
    number = run.status.number
    for ref in (number, str(number), run.id, "loadable", "loadab", "@last"):
        assert dromon.load(ref).id == run.id
    assert texts(dromon.load("@last")) == ["again"]
    with pytest.raises(JobNotFound):
        dromon.load("never-was")


# ---- inside a task ------------------------------------------------------------------------------


def test_a_task_sees_its_config_and_its_place():
    def look():
        import dromon

        context = dromon.context()
        return context.config, context.job, context.role, context.attempt

    run = dromon.run(look, config={"lr": 0.1, "layers": [1, 2]})
    assert run.result(60) == ({"lr": 0.1, "layers": [1, 2]}, run.id, "worker", 1)


def test_the_checkpoint_directory_survives_a_retry():
    def train():
        import dromon

        kept = dromon.context().checkpoint_dir / "step"
        if not kept.exists():
            kept.write_text("41")
            raise RuntimeError("first attempt")
        return int(kept.read_text()) + dromon.context().attempt

    run = dromon.run(train, retries={"max": 1, "backoff": 0})
    assert run.result(60) == 43


def test_a_task_asked_to_stop_ends_by_itself_and_what_it_saved_is_there():
    def train():
        import time

        import dromon

        context = dromon.context()
        context.stopping()
        print("training", flush=True)
        while not context.stopping():
            time.sleep(0.01)
        (context.checkpoint_dir / "saved").write_text("yes")

    run = dromon.run(train)
    next(run.logs())
    run.stop(grace=30)
    assert run.wait(60).state == "stopped"
    saved = Path(api.show(run.id)["record"], "checkpoints", "saved")
    assert saved.read_text() == "yes"


def test_what_a_task_reports_is_shown_with_the_job():
    def train():
        import dromon

        for step in range(3):
            dromon.context().report(step=step, loss=1 / (step + 1))

    run = dromon.run(train)
    run.result(60)
    metrics = api.show(run.id)["metrics"]
    assert (metrics["step"]["last"], metrics["step"]["count"]) == (2, 3)
    assert metrics["loss"]["min"] == pytest.approx(1 / 3)


def test_figures_printed_as_json_lines_are_shown_too(work):
    run = dromon.run(["echo", '{"loss": 0.5}'])
    run.wait(60)
    assert api.show(run.id)["metrics"]["loss"]["last"] == 0.5


# ---- outputs and differences --------------------------------------------------------------------

MAKE = "echo weights > model; echo ready; "


@pytest.mark.parametrize(
    ("script", "keys", "state", "cause"),
    [
        (MAKE, {}, "succeeded", None),
        (MAKE + "exit 5", {}, "failed", "user_error"),
        (MAKE + "sleep 60", {"stop": True}, "stopped", None),
        (MAKE + "sleep 60", {"max_duration": 0.5}, "failed", "timeout"),
    ],
)
def test_outputs_are_kept_however_the_job_ends(script, keys, state, cause):
    stop = keys.pop("stop", False)
    keys = {"outputs": ["model", "log"], "stop_grace": 1, **keys}
    run = dromon.run(["bash", "-c", script], **keys)
    if stop:
        next(run.logs())
        run.stop()
    status = run.wait(60)
    assert status.state == state
    if cause:
        assert status.verdict["cause"] == cause
    kept, missing = api.show(run.id)["outputs"]
    blobs = run.engine.home.blobs
    assert Path(blobs, kept["digest"][:2], kept["digest"][2:]).read_text() == "weights\n"
    assert (missing["path"], missing["kept"]) == ("log", False)


def test_two_jobs_are_compared_by_file_code_and_end(work):
    (work / "train.py").write_text("print('{\"loss\": 2}')")
    first = dromon.run("train.py", config={"lr": 1})
    (work / "train.py").write_text("print('{\"loss\": 1}')")
    second = dromon.run("train.py", config={"lr": 2})
    for run in (first, second):
        run.wait(60)
    found = {each["path"]: (each["a"], each["b"]) for each in api.diff(first.id, second.id)}
    assert found["config.lr"] == (1, 2)
    assert found["code: train.py"] == (None, "changed")
    assert found["metrics.loss"] == (2, 1)
    assert api.diff(first.id, first.id) == []


def test_a_rerun_has_the_same_code_and_differs_in_what_was_changed(work):
    (work / "train.py").write_text("import dromon; print(dromon.context().config['lr'])")
    first = dromon.run("train.py", config={"lr": 1})
    (work / "train.py").write_text("raise SystemExit('edited')")
    again = dromon.load(api.rerun(first.id, overrides=["config.lr=2"]).id)
    assert (texts(first), texts(again)) == (["1"], ["2"])
    assert [each["path"] for each in api.diff(first.id, again.id)] == ["config.lr"]


# ---- the daemon ---------------------------------------------------------------------------------


def test_the_daemon_can_be_told_to_stay_and_be_restarted_under_a_running_job():
    run = dromon.run(["sh", "-c", "echo here; sleep 1; echo still"])
    lines = run.logs()
    assert next(lines).text == "here"
    before = api.daemon("status")["pid"]
    after = api.daemon("restart")
    assert after["pid"] != before
    assert [line.text for line in lines] == ["still"]
    assert api.daemon("start", stay=True)["stay"]
    assert Path(api.daemon_log()).read_text()
    with pytest.raises(UsageError, match="cannot dance"):
        api.daemon("dance")
