"""Outputs are kept by content, and what is not kept is said."""

import os
from pathlib import Path

import pytest

from dromon.agent.record import Record
from dromon.engines import outputs
from dromon.storage.blobs import BlobStore


@pytest.fixture
def record(tmp_path: Path) -> Record:
    made = Record(str(tmp_path / "record"))
    os.makedirs(made.work(1))
    return made


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "blobs"))


def write(record: Record, path: str, text: str) -> None:
    full = Path(record.work(1), path)
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_text(text)


def kept(record: Record) -> list[dict]:
    return outputs.read(record)["outputs"]


def test_files_and_whole_directories_are_kept_by_content(record, blobs):
    write(record, "model.bin", "weights")
    write(record, "checkpoints/1/a", "one")
    write(record, "checkpoints/2/a", "two")
    write(record, "scratch", "not asked for")
    outputs.keep(record, 1, ["checkpoints", "model.bin"], blobs)
    assert {o["path"]: blobs.read(o["digest"]) for o in kept(record)} == {
        "checkpoints/1/a": b"one",
        "checkpoints/2/a": b"two",
        "model.bin": b"weights",
    }
    assert [o["size"] for o in kept(record)] == [3, 3, 7]


def test_the_same_content_is_stored_once(record, blobs):
    write(record, "a", "same")
    write(record, "b", "same")
    outputs.keep(record, 1, ["a", "b"], blobs)
    assert len({o["digest"] for o in kept(record)}) == 1


def test_what_the_job_never_made_is_said(record, blobs):
    outputs.keep(record, 1, ["model"], blobs)
    (entry,) = kept(record)
    assert (entry["path"], entry["kept"], entry["missing"]) == ("model", False, True)
    assert "no such file" in entry["why"]


def test_one_that_cannot_be_kept_does_not_cost_the_others(record, blobs, full_disk, tmp_path):
    write(record, "big", "x" * 100_000)
    write(record, "small", "fine")
    limit = tmp_path / "limit"
    limit.write_text("x" * 8_000)
    with full_disk(str(limit)):
        outputs.keep(record, 1, ["big", "small"], blobs)
    big, small = kept(record)
    assert (big["kept"], bool(big["why"])) == (False, True)
    assert blobs.read(small["digest"]) == b"fine"


def test_a_link_to_a_directory_elsewhere_is_not_followed_inside_an_output(record, blobs, tmp_path):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    write(record, "model/weights", "w")
    os.symlink(tmp_path / "private", Path(record.work(1), "model", "link"))
    outputs.keep(record, 1, ["model"], blobs)
    assert [o["path"] for o in kept(record)] == ["model/weights"]


def test_a_job_without_any_has_none(record):
    assert kept(record) == []


def test_a_failure_is_told_for_every_path(record):
    outputs.note_failure(record, ["a", "b"], "the store is gone")
    assert [(o["path"], o["why"]) for o in kept(record)] == [
        ("a", "the store is gone"),
        ("b", "the store is gone"),
    ]
