"""Jobs in several places: a second local engine plays the cluster, so everything here is real."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import dromon
from dromon import api, places
from dromon.cli.main import main
from dromon.contexts.file import Context
from dromon.engines.base import Filter, Queue
from dromon.engines.local.engine import LocalEngine
from dromon.errors import AmbiguousJob, EngineError, JobNotFound, UsageError


class Elsewhere(LocalEngine):
    """A cluster that is a state directory: the context's `where` names it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.where)
        self.name = context.name
        self.context = context

    def start(self, request, progress=None):
        if progress is not None:
            progress("uploading the code", 512, 1024)
            progress("submitting", 0, 0)
        found = super().start(request, progress)
        links = {"page": f"http://rm:8088/{found['id']}"}
        return {**found, "application": f"application_{found['number']}", "links": links}

    def queues(self):
        return [Queue("research", 1, 2, 0.5, 1.25), Queue("old", 0, 0, 0.1, 0.0, "stopped")]

    def plan(self, request):
        lacks = {"tensorboard": "not here"}
        return {**super().plan(request), "engine": "yarn", "lacks": lacks, "grace": 5.0}


class Silent(Elsewhere):
    """One that answers when it is too late, or never."""

    gate = threading.Event()

    def list(self, where: Filter):
        self.gate.wait(60)
        return []


class Broken(Elsewhere):
    def list(self, where: Filter):
        raise EngineError("the ResourceManager is gone")

    def why(self, ref: str):
        raise EngineError("the ResourceManager is gone")


@pytest.fixture(scope="module")
def homes() -> Iterator[tuple[Path, Path]]:
    """This machine's state, and the cluster's."""
    made = tuple(Path(tempfile.mkdtemp(prefix="dromon-", dir="/tmp")) for _ in range(2))
    (made[1] / "yarn-site.xml").write_text("<configuration/>")
    yield made
    for path in made:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DROMON_HOME", str(path))
            api.daemon("stop")
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def here(homes, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("DROMON_HOME", str(homes[0]))
    monkeypatch.setenv("DROMON_CACHE", str(homes[0] / "cache"))
    monkeypatch.setenv("DROMON_CONFIG", str(tmp_path / "config"))
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "DROMON_ON"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setitem(places.ENGINES, "yarn", Elsewhere)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (homes[0] / "recent.jsonl").unlink(missing_ok=True)
    return tmp_path


@pytest.fixture
def prod(homes) -> str:
    api.add_context("prod", "yarn", str(homes[1]))
    return "prod"


@pytest.fixture
def dromon_command(capfd):
    def call(*words: str, code: int = 0):
        capfd.readouterr()
        assert main(list(words)) == code, capfd.readouterr()
        return capfd.readouterr()

    return call


def ended(name: str, on: str | None = None) -> dromon.Run:
    run = dromon.run(["echo", name], name=name, on=on)
    run.wait(60)
    return run


# ---- finding ------------------------------------------------------------------------------------


def test_a_job_sent_away_is_found_by_its_name_without_saying_where(prod):
    run = ended("away", prod)
    assert run.status.on == "prod"
    assert api.status("away").id == run.id
    assert [line.text for line in api.logs("away")] == ["away"]
    assert [line.text for line in api.logs(run.id[:-2])] == ["away"]
    assert api.show("away")["status"]["on"] == "prod"
    with pytest.raises(JobNotFound):
        api.status(run.id, on="local")


def test_a_job_of_this_machine_comes_first(prod):
    there, here = ended("same", prod), ended("same")
    assert api.status("same").id == here.id
    assert api.status("same", on=prod).id == there.id
    assert api.status(there.id).on == "prod"


def test_a_whole_name_elsewhere_beats_first_letters_here(prod):
    there, here = ended("whole", prod), ended("wholesale")
    assert api.status("whole").id == there.id
    assert api.status("wholes").id == here.id
    with pytest.raises(AmbiguousJob, match=f"{here.id}, {there.id}"):
        api.status("whol")
    ended("wholemeal")
    assert api.status("whole").id == there.id
    with pytest.raises(AmbiguousJob):
        api.status("whol")


def test_last_is_the_last_wherever_it_went(prod):
    first, second, third = ended("one"), ended("two", prod), ended("three")
    assert api.status("@last").id == third.id
    assert api.status("@last~1").id == second.id
    assert api.status("@last~2").id == first.id
    fourth = ended("four", prod)
    assert dromon.load("@last").id == fourth.id


def test_a_job_nobody_knows_is_not_found_and_the_hint_names_on(prod):
    ended("away", prod)
    with pytest.raises(JobNotFound, match="there is no job 'nobody'") as caught:
        api.status("nobody")
    assert "--on" in caught.value.hint


def test_without_a_note_the_place_has_to_be_named_and_attach_makes_a_note(prod, homes):
    run = ended("noteless", prod)
    (homes[0] / "recent.jsonl").unlink()
    with pytest.raises(JobNotFound):
        api.status("noteless")
    assert api.attach("noteless", on=prod).id == run.id
    assert api.status("noteless").on == "prod"


def test_the_context_in_use_is_asked_last_and_gets_new_jobs(prod, homes):
    run = ended("other", prod)
    (homes[0] / "recent.jsonl").unlink()
    api.use_context(prod)
    assert api.status("other").id == run.id
    assert ended("default").status.on == "prod"
    assert ended("stays", "local").status.on == "local"
    api.use_context("local")
    assert ended("home").status.on == "local"


def test_the_variable_names_the_place_for_everything(prod, monkeypatch):
    here = ended("mine")
    monkeypatch.setenv("DROMON_ON", "prod")
    assert ended("theirs").status.on == "prod"
    assert {job.on for job in api.jobs(all=True)} == {"prod"}
    with pytest.raises(JobNotFound):
        api.status(here.id)
    assert api.status(here.id, on="local").id == here.id


def test_a_cluster_of_the_environment_is_found_again_when_the_variable_is_gone(homes, monkeypatch):
    monkeypatch.setenv("HADOOP_CONF_DIR", str(homes[1]))
    run = ended("adhoc", "yarn")
    monkeypatch.delenv("HADOOP_CONF_DIR")
    assert api.status("adhoc").id == run.id
    assert api.status("adhoc").on == "yarn"


def test_a_context_that_was_removed_is_named_with_its_job(prod):
    ended("orphan", prod)
    api.remove_context(prod)
    with pytest.raises(JobNotFound, match="in the context 'prod', which is gone"):
        api.status("orphan")


def test_nothing_is_written_for_jobs_of_this_machine(homes):
    ended("plain")
    api.attach("plain")
    assert not (homes[0] / "recent.jsonl").exists()


def test_a_state_directory_that_is_no_use_does_not_keep_a_cluster_away(prod, homes, monkeypatch):
    run = ended("reached", prod)
    bad = homes[0] / "bad"
    bad.mkdir(exist_ok=True)
    shutil.copy(homes[0] / "recent.jsonl", bad / "recent.jsonl")
    (bad / "jobs").write_text("in the way")
    monkeypatch.setenv("DROMON_HOME", str(bad))
    assert api.status("reached").id == run.id
    assert [job.id for job in api.jobs(all=True) if job.id == run.id]
    with pytest.raises(EngineError, match="state directory"):
        api.status("nobody")


# ---- all of them --------------------------------------------------------------------------------


def test_the_list_is_of_all_places_used_from_here_oldest_first(prod):
    ids = [ended("l1").id, ended("l2", prod).id, ended("l3").id]
    listed = api.jobs(all=True)
    assert [job.id for job in listed if job.id in ids] == ids
    assert [job.id for job in api.jobs(all=True, limit=2)] == ids[1:]
    assert {job.on for job in api.jobs(all=True, on="prod")} == {"prod"}
    assert {job.on for job in api.jobs(all=True, on="local")} == {"local"}
    assert listed.silent == {}


def test_ps_shows_where_only_when_there_is_more_than_here(prod, dromon_command):
    ended("here")
    assert " ON " not in dromon_command("ps", "-a").out
    away = ended("away", prod)
    lines = dromon_command("ps", "-a").out.splitlines()
    assert lines[0].split()[:4] == ["#", "JOB", "ON", "STATE"]
    row = next(line for line in lines if away.id in line)
    assert row.split()[:3] == ["-", away.id, "prod"]
    assert " ON " not in dromon_command("ps", "-a", "--on", "prod").out
    names = dromon_command("ps", "-a", "--names").out.split()
    assert away.id in names


def test_one_that_does_not_answer_is_named_and_the_others_are_shown(
    prod, dromon_command, monkeypatch
):
    here = ended("shown")
    ended("away", prod)
    monkeypatch.setitem(places.ENGINES, "yarn", Broken)
    out, err = dromon_command("ps", "-a")
    assert here.id in out
    assert err == "dromon: did not answer: prod (the ResourceManager is gone)\n"
    monkeypatch.setitem(places.ENGINES, "yarn", Silent)
    monkeypatch.setattr(places, "PATIENCE", 0.3)
    out, err = dromon_command("ps", "-a")
    Silent.gate.set()
    assert here.id in out
    assert err == "dromon: did not answer: prod (no answer within 0 s)\n"


def test_a_place_that_is_named_and_does_not_answer_is_an_error(prod, dromon_command, monkeypatch):
    monkeypatch.setitem(places.ENGINES, "yarn", Broken)
    assert "the ResourceManager is gone" in dromon_command("ps", "--on", "prod", code=69).err


# ---- commands -----------------------------------------------------------------------------------


def test_run_elsewhere_names_the_place_its_pages_and_what_to_do_next(prod, dromon_command):
    out, err = dromon_command("run", "-d", "--on", "prod", "--name", "far", "--", "echo", "hi")
    id = out.strip()
    lines = err.splitlines()
    assert lines[0].startswith(f"dromon: job {id} on prod ")
    assert lines[1] == f"page: http://rm:8088/{id}"
    assert lines[2] == f"next: dromon attach {id} · dromon why {id} · dromon stop {id}"
    out, err = dromon_command("attach", id)
    assert out == "hi\n"
    assert f"job {id} on prod succeeded" in err
    out, err = dromon_command("logs", "far", "-f")
    assert out == "hi\n"
    assert (
        "does not wait" in dromon_command("why", id).out
        or "succeeded" in dromon_command("why", id).out
    )
    shown = dromon_command("show", "far").out
    assert shown.startswith(f"job {id} on prod  succeeded\n")
    assert dromon_command("stop", "far").err == "dromon: nothing to stop: it has ended already\n"


def test_a_job_that_could_not_be_noted_is_named_with_its_place(prod, homes, dromon_command):
    (homes[0] / "recent.jsonl").mkdir()
    try:
        out, err = dromon_command("run", "-d", "--on", "prod", "--", "true")
        id = out.strip()
        assert f"next: dromon attach {id} --on prod · " in err
    finally:
        (homes[0] / "recent.jsonl").rmdir()


def test_rerun_diff_rm_and_gc_go_where_the_job_is(prod, dromon_command, homes):
    ended("again", prod)
    id = dromon_command("rerun", "-d", "again").out.strip()
    dromon.load(id).wait(60)
    assert api.status(id).on == "prod"
    here = ended("again2")
    lines = dromon_command("diff", "again", here.id).out.splitlines()
    assert ["on", "prod", "local"] in [line.split() for line in lines]
    assert dromon_command("rm", id, here.id).err == (
        f"dromon: removed {id}\ndromon: removed {here.id}\n"
    )
    with pytest.raises(JobNotFound):
        api.status(id)
    left = ended("collected", prod)
    assert left.id in dromon_command("gc", "--on", "prod", "--older-than", "0s").out
    assert left.id not in (homes[0] / "recent.jsonl").read_text()


def test_nodes_and_queues_of_another_place(prod, dromon_command):
    assert "CPUS FREE" in dromon_command("nodes", "--on", "prod").out
    assert dromon_command("queues", "--on", "prod").out.splitlines() == [
        "QUEUE     CAPACITY  USED  RUNNING  QUEUED  STATE",
        "research       50%  125%        1       2  running",
        "old            10%    0%        0       0  stopped",
    ]
    assert dromon_command("queues").out.splitlines()[2].split()[0] == "default"


def test_plan_puts_the_requests_of_several_places_side_by_side(prod, dromon_command):
    Path("job.yaml").write_text("command: echo\nstop_grace: 30s\n")
    out = dromon_command("plan", "job.yaml", "--on", "local,yarn").out
    lines = out.splitlines()
    assert lines[0] == "# local  grace 30s; gives all that is asked"
    at = next(n for n, line in enumerate(lines) if line.startswith("# prod"))
    assert lines[at] == "# prod   grace 5.0s; cannot give tensorboard (not here)"
    assert any("Kerberos is not proven" in line for line in lines)
    assert out.count("---\n") == 2
    assert "Kerberos" not in dromon_command("plan", "job.yaml").out


def test_the_whole_python_api_works_elsewhere(prod):
    run = dromon.run(lambda: 6 * 7, on="prod", name="fn")
    assert run.result(60) == 42
    runs = dromon.submit([{"command": ["true"], "name": "m"}] * 2, on="prod")
    assert {each.wait(60).state for each in runs} == {"succeeded"}
    assert api.status(runs[0].id).on == "prod"
    failing = dromon.run(lambda: 1 / 0, on="prod", name="bad")
    with pytest.raises(ZeroDivisionError):
        failing.result(60)


# ---- the command `context` ----------------------------------------------------------------------


def test_a_context_is_added_after_it_has_answered(homes, dromon_command):
    out, err = dromon_command("context", "add", "prod", "--yarn", str(homes[1]), "--default")
    assert out == ""
    assert f"added the context prod: yarn at {homes[1]}" in err
    assert "nodes      1" in err
    assert "queues     research, old" in err
    assert dromon_command("context", "list").out.splitlines()[1].split()[:3] == [
        "*", "prod", "yarn",
    ]  # fmt: skip


def test_a_context_that_does_not_answer_is_not_added(homes, dromon_command, monkeypatch):
    class Gone(Elsewhere):
        def about(self):
            raise EngineError("nobody answers at rm:8032")

    monkeypatch.setitem(places.ENGINES, "yarn", Gone)
    words = ("context", "add", "prod", "--yarn", "rm:8032")
    assert "nobody answers" in dromon_command(*words, code=69).err
    assert api.contexts().by_name == {}
    dromon_command(*words, "--no-check")
    assert list(api.contexts().by_name) == ["prod"]


def test_there_is_no_such_place(dromon_command):
    err = dromon_command("run", "--on", "yarn", "--", "true", code=64).err
    assert "dromon: no YARN cluster is known here" in err
    assert "hint: `dromon context add" in err
    with pytest.raises(UsageError, match="no context 'nowhere'"):
        api.nodes("nowhere")


def test_without_clusters_nothing_of_them_is_looked_at(homes):
    """The cheap way: no contexts file, no notes, no module of either."""
    import subprocess
    import sys

    code = (
        "import sys; from dromon.cli.main import main; main(['ps']); main(['logs', 'x']);"
        "print([m for m in sys.modules if m.startswith('dromon.contexts.')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ}, capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


def test_whoever_lists_again_asks_the_engine_that_answered_before(homes, monkeypatch):
    monkeypatch.setitem(places.ENGINES, "kubernetes", Elsewhere)
    context = Context("k8s", "kubernetes", str(homes[1]))
    kept = places.engine_of(context, keep=True)
    assert places.engine_of(context, keep=True) is kept
    assert places.engine_of(context) is not kept
    assert places.engine_of(context._replace(namespace="other"), keep=True) is not kept
    monkeypatch.setenv("DROMON_AS", "carl")
    assert places.engine_of(context, keep=True) is not kept
