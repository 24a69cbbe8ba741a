"""From what a user typed to a launch."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dromon.engines.intake import INHERITED, Intake, Request, Seen, label, token
from dromon.errors import JobFileError, PackagingError, Refused, UsageError
from dromon.packaging import snapshot
from dromon.storage.blobs import BlobStore

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/home/ann", "SECRET_TOKEN": "canary"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "my project"
    made.mkdir()
    (made / "train.py").write_text("print(1)")
    return made


@pytest.fixture
def intake(tmp_path: Path) -> Intake:
    return Intake(BlobStore(str(tmp_path / "blobs")), str(tmp_path / "index"))


def request(work: Path, **keys: Any) -> Request:
    return Request(**{"cwd": str(work), "environ": ENVIRON, "token": "aaaaaa", **keys})


def file(work: Path, text: str, name: str = "job.yaml", **keys: Any) -> Request:
    return request(work, file=name, text=text, **keys)


# ---- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("train", "train"),
        ("My Training_Run", "my-training-run"),
        ("3d-unet", "job-3d-unet"),
        ("ünïcode", "n-code"),
        ("---", "job"),
        ("", "job"),
        ("x" * 80, "x" * 33),
        ("a" * 32 + "-b", "a" * 32),
    ],
)
def test_any_text_makes_the_first_part_of_a_label(text, name):
    assert label(text) == name
    assert len(f"{label(text)}-{token()}") <= 40


def test_a_token_is_six_letters_of_base32_and_never_the_same():
    made = {token() for _ in range(100)}
    assert len(made) == 100
    assert all(len(t) == 6 and set(t) <= set("abcdefghijklmnopqrstuvwxyz234567") for t in made)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"command": ["train.py"]}, "train"),
        ({"command": ["nvidia-smi", "-L"]}, "nvidia-smi"),
        ({"command": ["/usr/bin/env", "python", "train.py"]}, "train"),
        ({"command": "python train.py --lr 3"}, "train"),
        ({"data": {"command": "echo hi"}}, "echo"),
        ({"data": {"command": "echo hi", "name": "given"}}, "given"),
        ({"file": "unet.yaml", "text": "command: x"}, "unet"),
        ({"file": "job.yaml", "text": "command: x"}, "my-project"),
        ({"file": "job.yaml", "text": "command: x\nname: named"}, "named"),
    ],
)
def test_a_job_is_named_after_what_it_runs(intake, work, given, name):
    assert intake.take(request(work, **given)).launch.id == f"{name}-aaaaaa"


def test_the_same_token_is_the_same_id_and_none_is_a_new_one(intake, work):
    assert intake.take(request(work, command=["ls"])).launch.id == "ls-aaaaaa"
    fresh = {intake.take(request(work, command=["ls"], token="")).launch.id for _ in range(2)}
    assert len(fresh) == 2


# ---- commands -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        (["train.py", "--lr", "3"], ["python", "train.py", "--lr", "3"]),
        (["go.sh"], ["bash", "go.sh"]),
        (["ls", "-l"], ["ls", "-l"]),
        ("ls | wc", "ls | wc"),
    ],
)
def test_a_script_alone_is_run_by_what_runs_such_scripts(intake, work, typed, command):
    (work / "go.sh").write_text("true")
    made = intake.take(request(work, command=typed))
    assert made.job.roles["worker"].command == command


def test_no_command_at_all_is_a_mistake(intake, work):
    with pytest.raises(UsageError, match="no command"):
        intake.take(request(work, command=[]))


def test_a_script_that_is_not_there_is_told_with_the_nearest_one(intake, work):
    with pytest.raises(PackagingError, match=r"there is no trian\.py") as missing:
        intake.take(request(work, command=["trian.py"]))
    assert missing.value.hint == "Did you mean train.py?"


def test_a_script_that_files_bring_along_is_there(intake, work, tmp_path):
    (tmp_path / "shared.py").write_text("print(2)")
    made = intake.take(
        file(work, "command: python lib/run.py\nfiles: {lib/run.py: ../shared.py}\n")
    )
    entries = {e.path for e in snapshot.manifest(made.launch.code.digest, intake.blobs)}
    assert {"lib/run.py", "train.py"} <= entries


# ---- overrides, flags, placeholders -------------------------------------------------------------


def test_flags_come_first_and_overrides_have_the_last_word(intake, work):
    made = intake.take(
        file(
            work,
            "command: x\nreplicas: 1\n",
            options={"replicas": 2, "resources": {"gpus": 1}},
            overrides=["replicas=3"],
        )
    )
    assert made.job.roles["worker"].replicas == 3
    assert made.job.roles["worker"].resources.gpu_count == 1


def test_errors_name_the_file_as_the_user_typed_it(intake, work):
    (work / "sub").mkdir()
    with pytest.raises(JobFileError, match=r"^sub/job.yaml:1:1: comand: unknown key"):
        intake.take(file(work, "comand: x\n", "sub/job.yaml"))


def test_paths_are_relative_to_the_file_not_to_where_one_stands(intake, work):
    (work / "sub").mkdir()
    (work / "sub" / "inner.py").write_text("")
    made = intake.take(
        file(work, "command: python inner.py\nvolumes: {d: {source: data}}\n", "sub/job.yaml")
    )
    assert made.launch.job["volumes"]["d"]["source"] == str(work / "sub" / "data")
    assert made.launch.facts["cwd"] == str(work)


def test_volumes_that_are_addresses_or_of_the_node_stay_as_they_are(intake, work):
    text = "command: x\nvolumes:\n  a: {source: node}\n  b: {source: 'hdfs:///x', access: url}\n"
    volumes = intake.take(file(work, text)).launch.job["volumes"]
    assert [volumes[k]["source"] for k in "ab"] == ["node", "hdfs:///x"]


def test_what_was_filled_in_is_also_kept_unfilled(intake, work):
    text = "command: echo ${config.lr}\nconfig: {lr: 1}\n"
    made = intake.take(file(work, text)).launch
    assert made.job["roles"]["worker"]["command"] == "echo 1"
    assert "${config.lr}" in str(made.facts["unresolved"])
    assert "unresolved" not in intake.take(file(work, "command: echo 1\n")).launch.facts


def test_a_rerun_fills_in_anew_and_keeps_code_and_environment(intake, work):
    text = "command: echo ${config.lr} ${job.id}\nconfig: {lr: 1}\nvolumes: {d: {source: data}}\n"
    first = intake.take(file(work, text)).launch
    old = {
        "name": "my-project", "job": first.job, "facts": first.facts, "payload": None,
        "code": {"digest": first.code.digest, "size": first.code.size},
    }  # fmt: skip
    built = {"kind": "uv", "lock": {"digest": "x"}}
    (work / "train.py").write_text("changed")
    again = intake.take_again(old, built, ["config.lr=2"], ENVIRON, "bbbbbb", {}).launch
    assert again.job["roles"]["worker"]["command"] == "echo 2 my-project-bbbbbb"
    assert again.code == first.code
    assert again.environment == built
    assert again.job["volumes"]["d"]["source"] == str(work / "data")


# ---- variables ----------------------------------------------------------------------------------


def test_what_the_job_must_be_given_comes_from_the_callers_environment(intake, work):
    text = "command: x\nenv: {A: '1', SECRET_TOKEN: null}\n"
    assert intake.take(file(work, text)).launch.supplied == {"SECRET_TOKEN": "canary"}
    text = "command: x\nsecrets: [SECRET_TOKEN]\n"
    assert intake.take(file(work, text)).launch.supplied == {"SECRET_TOKEN": "canary"}


def test_what_is_missing_is_told_all_at_once(intake, work):
    with pytest.raises(Refused, match="HF_TOKEN, WANDB_API_KEY") as missing:
        intake.take(file(work, "command: x\nenv: {HF_TOKEN: null}\nsecrets: [WANDB_API_KEY]\n"))
    assert "export HF_TOKEN" in missing.value.hint


def test_only_what_programs_need_is_inherited(intake, work):
    environ = {**ENVIRON, "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "canary", "LANG": "C"}
    made = intake.take(request(work, command=["ls"], environ=environ))
    assert set(made.launch.facts["inherited"]) == {"PATH", "HOME", "LC_ALL", "LANG"}
    assert "canary" not in repr(made.launch) + str(made.launch.facts) + repr(request(work))
    assert not any("KEY" in name or "TOKEN" in name for name in INHERITED)


# ---- code ---------------------------------------------------------------------------------------


def test_what_is_taken_along_and_what_is_left_out_is_told(intake, work):
    (work / ".dromonignore").write_text("*.bin\n")
    (work / "data.bin").write_bytes(b"x" * 2048)
    made = intake.take(request(work, command=["train.py"]))
    assert any("files" in note for note in made.notes)
    assert any(note.startswith("left out: 1 ") for note in made.notes)


def test_the_commit_and_whether_there_were_changes_are_on_record(intake, work):
    git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    clean = intake.take(request(work, command=["train.py"])).launch.facts["git"]
    (work / "train.py").write_text("print(2)")
    dirty = intake.take(request(work, command=["train.py"])).launch.facts["git"]
    assert (len(clean["commit"]), clean["dirty"], dirty["dirty"]) == (40, False, True)


def test_a_workdir_that_is_not_there_is_refused(intake, work):
    with pytest.raises(Refused, match="does not exist"):
        intake.take(file(work, "command: x\nworkdir: nowhere\n"))


def test_many_requests_of_one_call_look_at_a_directory_once(intake, work):
    seen = Seen()
    first = intake.take(request(work, data={"command": "a"}), seen)
    (work / "new.txt").write_text("later")
    second = intake.take(request(work, data={"command": "b"}), seen)
    assert second.launch.code == first.launch.code
    assert intake.take(request(work, data={"command": "c"})).launch.code != first.launch.code


# ---- environments -------------------------------------------------------------------------------


def test_without_any_the_callers_own_interpreter_is_recorded(intake, work):
    made = intake.take(request(work, command=["train.py"], python=sys.executable))
    assert made.launch.environment["kind"] == "host"
    assert made.launch.environment["python"] == sys.executable


def test_packages_are_for_uv_and_an_image_is_for_others(intake, work):
    text = "command: x\nenvironment: {packages: [six]}\n"
    found = intake.take(file(work, text)).launch.environment
    assert (found["kind"], found["request"]["packages"]) == ("uv", ["six"])
    text = f"command: x\nenvironment: {{image: 'r/i@sha256:{'0' * 64}'}}\n"
    assert intake.take(file(work, text)).launch.environment["kind"] == "image"


def test_unknown_words_of_a_newer_client_are_ignored():
    made = Request.from_json({"cwd": "/", "environ": {}, "colour": "blue"})
    assert made.cwd == "/"
