"""What the words of `run` mean: a job file, a script, a command, and the flags over them."""

import os

import pytest

from dromon.cli.parser import Parser
from dromon.cli.target import add_target, call_arguments, name_of
from dromon.errors import UsageError


def call(*words):
    parser = Parser(prog="dromon run")
    add_target(parser)
    parser.add_argument("--on", default="local")
    return call_arguments(parser.parse(words))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "go.sh").write_text("echo 1")
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "notes").write_text("text")
    return tmp_path


def test_a_yaml_file_is_a_job_file_and_the_rest_are_overrides():
    assert call("job.yaml", "a.b=c", "config.lr=1e-4") == {
        "file": "job.yaml", "overrides": ["a.b=c", "config.lr=1e-4"], "options": {},
    }  # fmt: skip


def test_options_may_stand_between_the_file_and_its_overrides():
    found = call("job.yml", "--queue", "q", "a=1", "-n", "2", "b=2")
    assert found["overrides"] == ["a=1", "b=2"]
    assert found["options"] == {"queue": "q", "replicas": 2}


def test_a_python_script_runs_with_python_whichever_the_job_gets(folder):
    found = call("train.py", "--", "--lr", "3", "--", "x")
    assert found["command"] == ["python", "train.py", "--lr", "3", "--", "x"]
    assert found["options"]["name"] == "train"
    assert "workdir" not in found["options"]


def test_shell_scripts_and_executables_run_as_they_are(folder):
    assert call("go.sh")["command"] == ["bash", "go.sh"]
    assert call("tool", "--", "x")["command"] == ["./tool", "x"]


def test_a_script_elsewhere_brings_its_own_folder(folder, monkeypatch):
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    found = call("../train.py")
    assert found["command"][1:] == ["train.py"]
    assert found["options"]["workdir"] == str(folder)


def test_a_bare_command_needs_no_file():
    found = call("--gpus", "2", "--", "python", "-m", "pkg.fit", "--x=1")
    assert found["command"] == ["python", "-m", "pkg.fit", "--x=1"]
    assert found["options"] == {"name": "fit", "resources": {"gpus": 2}}


def test_flags_take_the_job_files_shape(monkeypatch):
    monkeypatch.setenv("HERE", "yes")
    flags = (
        "--name n --framework torch --replicas 4 --gpus a100:2 --cpus 1.5 --memory 16GiB "
        "--queue q --priority 7 --env A=b=c --env HERE --secret TOKEN --max-duration 8h"
    )
    assert call("job.yaml", *flags.split())["options"] == {
        "name": "n", "framework": "torch", "replicas": 4, "queue": "q", "priority": 7,
        "resources": {"gpus": {"a100": 2}, "cpus": 1.5, "memory": "16GiB"},
        "env": {"A": "b=c", "HERE": "yes"}, "secrets": ["TOKEN"], "max_duration": "8h",
    }  # fmt: skip


def test_a_priority_may_be_a_class():
    assert call("job.yaml", "--priority", "high")["options"] == {"priority": "high"}


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ([], "nothing to run", "dromon run train.py"),
        (["--"], "nothing to run", "dromon run train.py"),
        (["trian.py"], "there is no file trian.py", "Did you mean train.py?"),
        (["python", "train.py"], "there is no file python", "dromon run -- python"),
        (["train.py", "3"], "'3' is not KEY=VALUE", "dromon run train.py -- 3"),
        (["job.yaml", "3"], "'3' is not KEY=VALUE", ""),
        (["job.yaml", "--", "3"], "belong to a script", "a.b.c=value"),
        (["notes"], "neither a job file", "chmod +x notes"),
        (["."], ". is a folder", "script in it"),
        (["job.yaml", "--gpus", "many"], "--gpus: 'many' is not a number", ""),
        (["job.yaml", "--gpus", "-1"], "", ""),
        (["job.yaml", "--gpus", "nan"], "is not a number", ""),
        (["job.yaml", "--env", "NOT_SET_ANYWHERE"], "is not set here", "NOT_SET_ANYWHERE=VALUE"),
        (["job.yaml", "-n", "two"], "'two' is not a whole number", ""),
        (["job.yaml", "--framework", "caffe"], "invalid choice: 'caffe'", ""),
    ],
)
def test_what_makes_no_sense_is_said_with_a_way_out(folder, words, message, hint):
    with pytest.raises(UsageError) as raised:
        call(*words)
    assert message in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.exit_code == 64


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python3", "-u", "my_train.py"], "my-train"),
        (["torchrun", "--nproc", "2", "a/Fit.py"], "fit"),
        (["/usr/bin/env", "x"], "env"),
        (["./2nd.run"], "job-2nd-run"),
        (["…"], "job"),
        (["x" * 80], "x" * 30),
    ],
)
def test_a_name_is_found_for_any_command(argv, name):
    assert name_of(argv) == name


def test_a_missing_folder_is_said(folder):
    with pytest.raises(UsageError) as raised:
        call(os.path.join("nowhere", "train.py"))
    assert "no folder nowhere" in raised.value.hint
