"""The public names, pinned: what is not here may change."""

import inspect
import subprocess
import sys

import pytest

import dromon


def test_these_are_the_public_names():
    assert dromon.__all__ == ["DromonError", "Run", "context", "load", "run", "submit"]
    for name in dromon.__all__:
        assert getattr(dromon, name).__doc__


def test_these_are_the_public_methods_of_a_run():
    public = {name for name in vars(dromon.Run) if not name.startswith("_")}
    assert public == {"logs", "result", "results", "status", "stop", "wait", "why"}


def test_run_takes_these_words_and_further_keys_of_the_job_file():
    names = list(inspect.signature(dromon.run).parameters)
    assert names == [
        "target", "args", "kwargs", "workers", "gpus", "cpus", "memory", "framework", "name",
        "on", "overrides", "keys",
    ]  # fmt: skip


def test_anything_else_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'jobs'"):
        dromon.jobs  # noqa: B018


def test_a_task_that_asks_for_its_context_loads_next_to_nothing():
    script = (
        "import sys, dromon; dromon.context().rank\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('pydantic', 'ruamel', 'rich',"
        " 'asyncio', 'sqlite3', 'subprocess')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
