"""Who is on a GPU without having asked is noticed and named."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.agent.devices import Locks, discover
from dromon.engines.local.shared.outside import Outside, of_machine
from dromon.engines.local.shared.people import People, person

ME = os.getuid()
SOMEBODY = ME + 1


@pytest.fixture
def process() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        while Path(f"/proc/{sleeper.pid}/comm").read_text() != "sleep\n":
            time.sleep(0.001)  # it is called so a moment after it was started
        yield sleeper.pid
        sleeper.kill()


def outside(tmp_path: Path, processes: dict[str, list[object]]) -> Outside:
    locks = Locks(str(tmp_path / "locks"))
    return Outside(discover(2), locks, People(), lambda: processes)  # type: ignore[arg-type, return-value]


def test_a_process_on_a_gpu_nobody_was_given_is_named_with_its_owner(tmp_path: Path, process: int):
    found = outside(tmp_path, {"FAKE-1": [process]}).look({})
    assert found == {"FAKE-1": f"process {process} (sleep) of {person(ME).name}, outside Dromon"}


def test_processes_of_the_user_who_has_the_gpu_are_no_strangers(tmp_path: Path, process: int):
    watch = outside(tmp_path, {"FAKE-0": [process]})
    assert watch.look({"FAKE-0": ME}) == {}
    assert "FAKE-0" in watch.look({"FAKE-0": SOMEBODY}), "on another's they are"


def test_what_has_ended_or_is_no_process_disturbs_nobody(tmp_path: Path):
    assert outside(tmp_path, {"FAKE-0": [2**22 + 5, "x", None]}).look({}) == {}


def test_a_lock_of_a_daemon_that_asks_nobody_counts_unless_it_was_given(tmp_path: Path):
    locks = Locks(str(tmp_path / "locks"))
    fd = locks.take("FAKE-0", {"user": "eve", "job": "x-1"})
    assert fd is not None
    try:
        watch = outside(tmp_path, {})
        assert watch.look({}) == {"FAKE-0": "x-1 of eve, not through the arbiter"}
        assert watch.look({"FAKE-0": ME}) == {}
    finally:
        os.close(fd)
    assert watch.look({}) == {}


def test_of_pretended_gpus_a_file_says_who_is_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "processes.json"
    monkeypatch.setenv("DROMON_FAKE_PROCESSES", str(path))
    look = of_machine(discover(1))
    assert look() == {}
    path.write_text(json.dumps({"FAKE-0": [1]}))
    assert look() == {"FAKE-0": [1]}
    path.write_text("[")
    assert look() == {}
