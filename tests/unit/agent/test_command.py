import subprocess

import pytest

from dromon.agent import command
from dromon.agent.environment import merge

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("written", "argv"),
    [
        ("env python3 --lr=3 a/b.py", ["env", "python3", "--lr=3", "a/b.py"]),
        ("env  two  spaces", ["env", "two", "spaces"]),
        (["env", "$X y"], ["env", "$X y"]),
        ("env && env", ["bash", "-c", "env && env"]),
        ("cd /tmp", ["bash", "-c", "cd /tmp"]),
        ("A=1 env", ["bash", "-c", "A=1 env"]),
        ("env ~/x", ["bash", "-c", "env ~/x"]),
        ("env *.py", ["bash", "-c", "env *.py"]),
        ("env 'a b'", ["bash", "-c", "env 'a b'"]),
        ("env\nenv", ["bash", "-c", "env\nenv"]),
        ("env $HOME", ["bash", "-c", "env $HOME"]),
        ("env a#b", ["bash", "-c", "env a#b"]),
    ],
)
def test_only_what_means_nothing_to_a_shell_runs_without_one(written, argv):
    assert command.resolve(written, ENV, "/")[1] == argv


def test_what_changes_the_shell_keeps_the_shell():
    for extra in ({"BASH_ENV": "x"}, {"BASH_FUNC_env%%": "() { :; }"}):
        assert command.resolve("env a", {**ENV, **extra}, "/")[1][0] == "bash"


def test_every_builtin_of_bash_goes_to_bash():
    listed = subprocess.run(
        ["bash", "-c", "compgen -b; compgen -k"], capture_output=True, text=True, check=True
    ).stdout.split()
    for word in listed:
        if word not in ("true", "false"):  # the same as programs
            assert command._argv(word, ENV)[0] == "bash", word


def test_later_variables_win():
    assert merge({"A": "1", "B": "1"}, {"A": "2"}, {"C": "3"}, {"RANK": "4"}, {"C": "5"}) == {
        "A": "2", "B": "1", "RANK": "4", "C": "5",
    }  # fmt: skip


def test_a_frameworks_contract_beats_the_user_and_its_tuning_does_not():
    framework = {"RANK": "4", "OMPI_MCA_rmaps_base_mapping_policy": "core"}
    user = {"RANK": "0", "OMPI_MCA_rmaps_base_mapping_policy": "slot"}
    assert merge({}, user, {}, framework, {}) == {
        "RANK": "4", "OMPI_MCA_rmaps_base_mapping_policy": "slot",
    }  # fmt: skip
