"""The daemon's clock: close to the wall's, the same over all lives of one boot."""

import time
from pathlib import Path

import pytest

from dromon.engines.local.clock import Clock, boot_id
from dromon.engines.local.journal import Journal


@pytest.fixture
def journal(tmp_path: Path):
    made = Journal(str(tmp_path / "journal.db"))
    yield made
    made.close()


def test_it_starts_close_to_wall_time_and_never_goes_back(journal):
    clock = Clock(journal)
    assert not clock.same_boot
    assert abs(clock.now() - time.time()) < 60
    first = clock.now()
    assert clock.now() >= first


def test_another_life_of_the_same_boot_goes_on_at_the_same_offset(journal):
    first = Clock(journal)
    journal.put("clock", f"{boot_id()} 12345.5")  # as if the wall clock had been set meanwhile
    journal.commit()
    again = Clock(journal)
    assert again.same_boot
    assert again.now() < first.now() - 1_000_000


def test_after_a_restart_of_the_machine_the_offset_is_made_anew(journal):
    journal.put("clock", "another-boot 12345.5")
    journal.commit()
    clock = Clock(journal)
    assert not clock.same_boot
    assert abs(clock.now() - time.time()) < 60
    assert Clock(journal).same_boot
