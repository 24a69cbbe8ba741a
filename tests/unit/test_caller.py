"""Which Python is the caller's own."""

import sys
from pathlib import Path

import pytest

from dromon import caller


def fake_environment(path: Path) -> Path:
    python = path / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return python


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_active_environment_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
):
    python = fake_environment(tmp_path / "env")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "env"))
    assert caller.python() == str(python)


def test_otherwise_it_is_the_one_that_runs_dromon(monkeypatch: pytest.MonkeyPatch):
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    assert caller.python() == sys.executable


def test_a_python_made_for_the_tool_alone_is_not_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "uv-receipt.toml").write_text("")
    found = tmp_path / "python3"
    found.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert caller.python() == str(found)
