"""Where the arbiter is looked for, and what is not believed there."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.engines.local.shared import place
from dromon.errors import EngineError


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place where somebody listens."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DROMON_SHARED", str(tmp_path / "p"))
    made = place.make("p")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("p/arbiter.sock")  # a short name: a test's folder may be deep
        sock.listen()
        assert made.owner == os.getuid()
        yield tmp_path / "p"


def test_an_arbiter_is_found_where_its_socket_lies(at: Path):
    assert place.find() == place.Place(str(at), os.getuid())


def test_an_empty_variable_means_that_there_is_none(at: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DROMON_SHARED", "")
    assert place.find() is None


def test_without_the_variable_roots_place_comes_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DROMON_SHARED", raising=False)
    assert place.candidates() == ("/run/dromon", "/tmp/dromon-shared")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_believed(at: Path, mode: int):
    at.chmod(mode)
    assert place.find() is None


def test_neither_a_link_nor_another_thing_than_a_socket_is_believed(
    at: Path, monkeypatch: pytest.MonkeyPatch
):
    (at.parent / "link").symlink_to(at)
    monkeypatch.setenv("DROMON_SHARED", str(at.parent / "link"))
    assert place.find() is None
    monkeypatch.setenv("DROMON_SHARED", str(at))
    (at / "arbiter.sock").unlink()
    (at / "arbiter.sock").touch()
    assert place.find() is None


def test_who_serves_there_must_be_who_owns_it(at: Path):
    place.connect("p/arbiter.sock", os.getuid()).close()
    with pytest.raises(place.ArbiterAway, match="another user"):
        place.connect("p/arbiter.sock", os.getuid() + 1)


def test_a_folder_of_somebody_elses_is_not_taken_over(tmp_path: Path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(EngineError, match="others may write"):
        place.make(str(tmp_path / "open"))
