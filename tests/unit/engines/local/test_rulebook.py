"""The rules in force: the file, live changes on top, versions that outlive the daemon."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.engines.local.journal import Journal
from dromon.engines.local.rulebook import Rulebook
from dromon.errors import EngineError, JobFileError
from dromon.site.change import with_queue


class Desk:
    """A site file, a journal, and one life of the rules after another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "site.yaml"
        self.clock = 0
        self.live()

    def live(self) -> Rulebook:
        self.journal = Journal(str(self.root / "journal.db"))
        self.book = Rulebook(self.journal, str(self.file))
        return self.book

    def write(self, text: str) -> None:
        self.file.write_text(text)
        self.clock += 1
        os.utime(self.file, (self.clock, self.clock))  # however fast this test is

    def set(self, *settings: str) -> int:
        return self.book.change(with_queue(self.book.data, "a", settings), "ann", "queue a", 7.0)

    def limit(self) -> object:
        found = self.book.site.queues["a"].limit
        return None if found is None else found.gpus


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "site.yaml").write_text("queues: {a: {limit: {gpus: 4}}}\n")
    made = Desk(tmp_path)
    made.book.read(1.0)
    yield made
    made.journal.close()


def test_the_file_is_the_first_version(desk):
    assert (desk.book.version, desk.limit()) == (1, 4)
    desk.book.read(2.0)
    assert desk.book.version == 1


def test_a_live_change_is_a_version_with_who_when_and_what(desk):
    heard = []
    desk.book.changed = heard.append
    assert desk.set("limit.gpus=2") == 2
    assert heard == [desk.book.rules]
    assert heard[0].queues[0].limit == {"gpus": 2}
    newest = desk.book.history(1)[0]
    assert newest[:4] == (2, 7.0, "ann", "queue a: queues.a.limit.gpus: 4 -> 2")
    assert desk.set("limit.gpus=2") == 2  # nothing new, no version


def test_a_wrong_change_changes_nothing(desk):
    with pytest.raises(JobFileError, match="expected at least 1"):
        desk.set("weight=0")
    assert (desk.book.version, desk.limit()) == (1, 4)


def test_a_restart_finds_the_rules_it_left(desk):
    desk.set("limit.gpus=2")
    desk.journal.close()
    book = desk.live()
    book.read(9.0)
    assert (book.version, desk.limit()) == (2, 2)
    assert [v.version for v in book.history(9)] == [2, 1]


def test_the_file_edited_later_counts_for_the_keys_it_changes(desk):
    desk.set("limit.gpus=2", "weight=3")
    desk.write("queues: {a: {limit: {gpus: 6}}, b: }\n")
    desk.book.read(8.0)
    assert (desk.limit(), desk.book.site.queues["a"].weight) == (6, 3)
    assert "b" in desk.book.site.queues


def test_a_file_that_becomes_wrong_changes_nothing_and_is_told(desk):
    desk.write("queues: {a: {limt: 3}}\n")
    desk.book.read(8.0)
    assert (desk.book.version, desk.limit()) == (1, 4)
    (note,) = desk.book.notes
    assert "queues.a.limt: unknown key" in note
    assert "version 1 stays in force" in note
    desk.write("queues: {a: {limit: {gpus: 3}}}\n")
    desk.book.read(9.0)
    assert (desk.limit(), desk.book.notes) == (3, [])


def test_two_changes_that_do_not_go_together_leave_things_as_they_are(desk):
    desk.set("deserved.gpus=3")
    desk.write("queues: {a: {limit: {gpus: 2}}}\n")
    desk.book.read(8.0)
    assert desk.limit() == 4
    assert "with what was changed live" in desk.book.problem


def test_nothing_starts_with_a_file_that_is_wrong_from_the_first(tmp_path):
    (tmp_path / "site.yaml").write_text("queus: {}\n")
    desk = Desk(tmp_path)
    with pytest.raises(JobFileError, match="did you mean queues"):
        desk.book.read(1.0)
    desk.file.unlink()
    with pytest.raises(EngineError, match="cannot read the site file"):
        Rulebook(desk.journal, str(desk.file)).read(1.0)
    desk.journal.close()
