"""Records made ahead."""

import os
from collections.abc import Callable
from pathlib import Path

from dromon.agent.record import Record
from dromon.engines.local.spares import READY, Spares


def at_once(delay: float, work: Callable[[], None]) -> None:
    work()


def spares(
    tmp_path: Path, later: Callable[[float, Callable[[], None]], object] = at_once
) -> Spares:
    return Spares(str(tmp_path / "spares"), "unix:/x", later)


def is_record(root: Path) -> bool:
    record = Record(str(root))
    private = os.stat(record.key).st_mode & 0o077 == 0
    return private and os.path.isdir(record.checkpoints) and os.path.getsize(record.coordinator) > 0


def test_a_spare_becomes_the_record_and_another_takes_its_place(tmp_path: Path):
    made = spares(tmp_path)
    made.become(str(tmp_path / "job"))
    assert is_record(tmp_path / "job")
    assert len(os.listdir(tmp_path / "spares")) == READY


def test_no_two_records_have_the_same_key(tmp_path: Path):
    made = spares(tmp_path)
    for number in range(6):
        made.become(str(tmp_path / str(number)))
    keys = {(tmp_path / str(number) / "key").read_text() for number in range(6)}
    assert len(keys) == 6


def test_without_a_spare_the_record_is_made_on_the_spot(tmp_path: Path):
    made = spares(tmp_path, later=lambda delay, work: None)
    made.become(str(tmp_path / "job"))
    assert is_record(tmp_path / "job")


def test_a_record_left_half_made_is_completed(tmp_path: Path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "coordinator.json").touch()
    spares(tmp_path).become(str(tmp_path / "job"))
    assert is_record(tmp_path / "job")


def test_spares_of_an_earlier_daemon_are_thrown_away(tmp_path: Path):
    spares(tmp_path)
    (tmp_path / "spares" / "old").mkdir()
    spares(tmp_path)
    assert not (tmp_path / "spares" / "old").exists()


def test_a_disk_that_refuses_shows_when_a_record_is_needed_and_not_before(tmp_path: Path):
    (tmp_path / "spares").touch()  # no folder can be made here
    made = Spares(str(tmp_path / "spares" / "deep"), "unix:/x", at_once)
    made.become(str(tmp_path / "job"))
    assert is_record(tmp_path / "job")
