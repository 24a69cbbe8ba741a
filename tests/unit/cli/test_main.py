"""The entry: which command runs, what an error looks like, what is imported on the way."""

import os
import subprocess
import sys

import pytest
from fake_api import FakeApi, FakeJob, line, make_status

from dromon.cli.main import COMMANDS, main
from dromon.errors import DaemonUnreachable, JobFileError, Problem, Refused


class Failing:
    """An api of which every call fails the same way."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name):
        def call(*args, **kwargs):
            raise self.error

        return call


def test_help_names_every_command_and_teaches_by_example(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, text in COMMANDS.items():
        assert f"  {name:<12}{text}" in out
    assert "dromon run train.py" in out


def test_no_words_at_all_print_the_help(capsys):
    assert main([]) == 0
    assert "usage: dromon COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"version", "schema"}))
def test_every_command_explains_itself_with_examples(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: dromon {name}")
    assert "examples:" in out


def test_help_of_a_command_can_be_asked_in_front_of_it(capsys):
    with pytest.raises(SystemExit):
        main(["help", "stop"])
    assert capsys.readouterr().out.startswith("usage: dromon stop")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("rnu", "run"), ("lgos", "logs"), ("kill", "stop"), ("submit", "run"), ("a.py", "run a.py")],
)
def test_an_unknown_command_gets_the_nearest_one_as_a_hint(typed, meant, capsys):
    assert main([typed]) == 64
    assert f"hint: Did you mean `dromon {meant}`?" in capsys.readouterr().err


@pytest.fixture
def capsys(capfd):
    """Dromon's own words go to the file descriptor, so that is what is captured."""
    return capfd


def test_a_misspelt_option_gets_the_nearest_one_as_a_hint(capsys):
    assert main(["logs", "--tial", "3"], api=FakeApi()) == 64
    err = capsys.readouterr().err
    assert "dromon: logs: unrecognized arguments: --tial" in err
    assert "hint: Did you mean --tail?" in err


def test_an_error_is_a_message_a_hint_and_its_own_exit_code(capsys):
    assert main(["ps"], api=Failing(DaemonUnreachable("it is silent"))) == 69
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "dromon: it is silent"
    assert err[1].startswith("hint: ")
    assert len(err) == 2


def test_a_refusal_exits_with_65(capsys):
    assert main(["run", "--", "true"], api=Failing(Refused("needs 9 GPUs, has 2"))) == 65
    assert "needs 9 GPUs, has 2" in capsys.readouterr().err


def test_every_problem_of_a_job_file_stands_on_its_own_line(capsys):
    problems = [
        Problem("job.yaml", 7, 5, "roles.worker.resorces", "unknown key", "did you mean x?"),
        Problem("job.yaml", 9, 1, "nmae", "unknown key"),
    ]
    assert main(["run", "job.yaml"], api=Failing(JobFileError(problems))) == 64
    err = capsys.readouterr().err.splitlines()
    assert err[0] == ("job.yaml:7:5: roles.worker.resorces: unknown key; did you mean x?")
    assert err[1] == "job.yaml:9:1: nmae: unknown key"
    assert err[2] == "dromon: 2 problems in job.yaml"


def test_an_unexpected_error_is_one_line_and_called_a_bug(capsys):
    assert main(["ps"], api=Failing(ZeroDivisionError("a\nb"))) == 70
    err = capsys.readouterr().err
    assert err.splitlines()[0] == "dromon: ZeroDivisionError: a b"
    assert "this is a bug; run again with --debug" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [["--debug", "ps"], ["ps", "--debug"]])
def test_debug_gives_the_traceback(words):
    with pytest.raises(ZeroDivisionError):
        main(words, api=Failing(ZeroDivisionError()))


def test_debug_after_the_dashes_belongs_to_the_script():
    api = FakeApi(FakeJob(make_status()))
    assert main(["run", "-d", "--", "x", "--debug"], api=api) == 0
    assert api.calls[0][1]["command"] == ["x", "--debug"]


def test_an_interrupt_exits_with_130_and_no_word(capsys):
    assert main(["ps"], api=Failing(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == ""


def run_python(code: str, **options) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, **options
    )


def test_a_reader_that_goes_away_is_no_error():
    code = (
        "import sys; from fake_api import *; from dromon.cli.main import main\n"
        "api = FakeApi(FakeJob(make_status(), [line('x' * 99) for _ in range(20000)]))\n"
        "sys.exit(main(['logs'], api=api))"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


HEAVY = (
    "asyncio", "dataclasses", "inspect", "logging", "pathlib", "platformdirs", "pydantic", "rich",
    "ruamel", "shutil", "subprocess", "tempfile", "textwrap", "threading", "urllib", "uuid",
)  # fmt: skip


@pytest.mark.parametrize(
    "words", [["run", "--", "true"], ["ps"], ["logs", "1"], ["why", "1"], ["stop", "1"]]
)
def test_the_quick_commands_import_nothing_heavy(words):
    """With an api made of plain classes, so that only the command line's own imports count."""
    code = f"""
import sys
class Thing:
    id = name = "x"; number = 1; notes = members = (); created = True; state = "succeeded"
    is_terminal = True; verdict = None; started = 1.0; ended = 2.0; attempt = 1; submitted = 0.0
    resources = {{}}; queue = "default"; priority = 0; sentence = "no room"
    position = None; holders = missing = unblock = (); on = "local"; links = {{}}
    is_known = True; start = None
class Many(list):
    silent = {{}}
class Api:
    def __getattr__(self, name):
        many = name in ("jobs", "watch")
        none = name in ("logs", "stop")
        return lambda *a, **k: Many([Thing()]) if many else [] if none else Thing()
from dromon.cli.main import main
code = main({words!r}, Api())
print(sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)
sys.exit(code)
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_full_disk_is_said_and_is_no_bug():
    code = "import sys; from dromon.cli.main import main; sys.exit(main(['--help']))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert "dromon: the output cannot be written: the disk is full" in done.stderr
    assert "bug" not in done.stderr


def test_the_module_can_be_run():
    done = subprocess.run(
        [sys.executable, "-m", "dromon.cli", "version"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.startswith("dromon ")


def test_lines_of_a_fake_are_what_the_command_prints(capfd):
    api = FakeApi(FakeJob(make_status(), [line("hello")]))
    assert main(["logs"], api=api) == 0
    assert capfd.readouterr().out == "hello\n"
