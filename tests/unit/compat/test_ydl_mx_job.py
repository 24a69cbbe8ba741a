"""The command line of `ydl-mx` as the job that Dromon gets."""

import tarfile

import pytest

from dromon import spec
from dromon.compat.ydl_mx import _parsed, job, main


@pytest.fixture
def made(tmp_path, monkeypatch):
    (tmp_path / "requirements.txt").write_text("mxnet==1.9.1\n")
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DROMON_ON", raising=False)

    def make(line: str):
        (tmp_path / "stage").mkdir(exist_ok=True)
        args = _parsed(["--requirements", "requirements.txt", *line.split()])
        asked = job(args, str(tmp_path / "stage"))
        spec.load_data(asked, "request", [])
        return asked, args

    return make


def replicas(asked) -> dict[str, int]:
    return {role: each.get("replicas", 1) for role, each in asked["roles"].items()}


def test_as_many_servers_as_workers_unless_said_otherwise(made):
    asked, args = made("--n 2 train.py --kv-store dist_sync")
    assert replicas(asked) == {"worker": 2, "server": 2, "scheduler": 1}
    assert args.on == "yarn"
    asked, _ = made("--n 2 --s 1 train.py")
    assert replicas(asked) == {"worker": 2, "server": 1, "scheduler": 1}


def test_task_is_the_script_with_its_own_arguments(made):
    asked, _ = made("--n 1 --jobname MNIST train.py --kv-store dist_sync --n 7 --help")
    assert asked["roles"]["worker"]["command"] == [
        "python", "train.py", "--kv-store", "dist_sync", "--n", "7", "--help",
    ]  # fmt: skip
    assert asked["name"] == "mnist"
    assert "command" not in asked["roles"]["server"]


def test_older_spellings(made):
    asked, args = made(
        "--cluster local --num-workers 2 --num-servers 1 --worker-cores 2 --worker-memory 4g "
        "--server-memory 512m --queue research --env A=1 python train.py"
    )
    assert args.on == "local"
    assert asked["roles"]["worker"]["resources"] == {"cpus": 2, "memory": "4096MiB"}
    assert asked["roles"]["server"]["resources"] == {"cpus": 1, "memory": "512MiB"}
    assert asked["roles"]["worker"]["command"] == ["python", "train.py"]
    assert (asked["queue"], asked["env"]) == ("research", {"A": "1"})


def test_everything_written_is_kept_unless_said_otherwise(made):
    assert made("--n 1 train.py")[0]["outputs"] == ["."]
    assert made("--n 1 --outputs model train.py")[0]["outputs"] == ["model"]


def test_further_files_and_unpacked_archives_go_along(made, tmp_path):
    (tmp_path / "x.rec").write_text("x")
    with tarfile.open(tmp_path / "lib.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "x.rec", "pkg/x.rec")
    asked, _ = made("--n 1 --files x.rec#data.rec --archives lib.tar.gz train.py")
    assert asked["files"]["data.rec"] == str(tmp_path / "x.rec")
    with open(asked["files"]["pkg"] + "/x.rec") as file:
        assert file.read() == "x"


def test_script_from_elsewhere_goes_along(made, tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    asked, _ = made("--n 1 train.py")
    monkeypatch.chdir(tmp_path / "inner")
    (tmp_path / "inner" / "requirements.txt").write_text("mxnet==1.9.1\n")
    asked, _ = made("--n 1 ../train.py")
    assert asked["files"] == {"train.py": str(tmp_path / "train.py")}
    assert asked["roles"]["worker"]["command"] == ["python", "train.py"]


def test_what_is_not_needed_is_said_to_be(made, capsys):
    made("--n 1 --jar ydl-mx.jar --host-ip 10.0.0.1 train.py")
    said = capsys.readouterr().err
    assert "--jar is not needed any more: no Java takes part" in said
    assert "--host-ip is not needed any more" in said


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("--n 2 --native scala train.py", 65, "--native cannot be honoured"),
        ("--n 2 --cluster sge train.py", 65, "only yarn and local"),
        ("--n 2", 64, "no script was given"),
        ("--n 2 nowhere.py", 64, "there is no script nowhere.py"),
        ("--n 0 train.py", 64, "at least one worker"),
        ("--n 1 --s 0 train.py", 64, "at least one server"),
        ("--n 1 --worker-memory lots train.py", 64, "--worker-memory lots: not a size"),
        ("--nodes 2 train.py", 64, "required: --n"),
    ],
)
def test_wrong_or_impossible_is_told_in_words(made, capsys, line, code, words):
    assert main(["--requirements", "requirements.txt", *line.split()]) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert "ydl-mx --n 2 --s 1" in said
    assert "without `python` in front" in said
