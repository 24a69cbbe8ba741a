"""The journal keeps what was committed, whatever happens to its process."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dromon.engines.local.journal import Journal, Row, Spell
from dromon.errors import StateDirectoryUnusable


def row(number: int, name: str = "train", **changes: object) -> Row:
    base = Row(f"{name}-{number:06d}", number, name, "queued", 1.0, None, None, 0, "{}", None)
    return base._replace(**changes)  # type: ignore[arg-type]


@pytest.fixture
def journal(tmp_path: Path):
    made = Journal(str(tmp_path / "journal.db"))
    yield made
    made.close()


def test_a_job_and_its_events_come_back_in_order(journal: Journal):
    journal.add_job(row(1))
    journal.add_event("train-000001", 1, 5.0, {"kind": "Prepared"})
    journal.add_event("train-000001", 2, 6.0, {"kind": "Tick"})
    journal.commit()
    assert journal.active() == [row(1)]
    assert [e["kind"] for _, e in journal.events("train-000001")] == ["Prepared", "Tick"]


def test_jobs_are_found_by_number_name_prefix_and_age(journal: Journal):
    journal.add_job(row(1))
    journal.add_job(row(2, "eval"))
    journal.add_job(row(3))
    journal.commit()
    assert journal.by_number(2) == row(2, "eval")
    assert [r.number for r in journal.named("train")] == [3, 1]
    assert [r.number for r in journal.starting_with("train-0")] == [1, 3]
    assert journal.starting_with("tra_n") == []
    assert journal.back(0) == row(3)
    assert journal.back(2) == row(1)
    assert journal.back(3) is None


def test_numbers_of_removed_jobs_are_not_given_again(journal: Journal):
    journal.add_job(row(7))
    journal.put("last_number", "7")
    journal.remove(["train-000007"])
    journal.commit()
    assert journal.last_number() == 7


def test_only_its_owner_may_read_it(journal: Journal):
    assert os.stat(journal.path).st_mode & 0o077 == 0


def test_what_was_committed_survives_a_kill_and_what_was_not_does_not(tmp_path: Path):
    path = str(tmp_path / "journal.db")
    script = """
        import os, signal, sys
        from dromon.engines.local.journal import Journal, Row
        journal = Journal(sys.argv[1])
        one = Row("a-000001", 1, "a", "queued", 1.0, None, None, 0, "{}", None)
        journal.add_job(one)
        journal.commit()
        journal.add_job(one._replace(id="a-000002", number=2))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script), path])
    assert ended.returncode == -signal.SIGKILL
    again = Journal(path)
    assert [r.number for r in again.active()] == [1]
    again.close()


def test_a_journal_of_another_form_is_refused_in_words(tmp_path: Path):
    path = str(tmp_path / "journal.db")
    journal = Journal(path)
    journal.put("schema", "99")
    journal.commit()
    journal.close()
    with pytest.raises(StateDirectoryUnusable, match="form 99"):
        Journal(path)


def test_a_file_that_is_no_journal_is_refused_in_words(tmp_path: Path):
    path = tmp_path / "journal.db"
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 40)
    with pytest.raises(StateDirectoryUnusable, match="cannot open the journal"):
        Journal(str(path))


def test_what_the_disk_refused_is_committed_once_there_is_room(tmp_path: Path):
    script = """
        import resource, signal, sys
        from dromon.engines.local.journal import Journal, JournalFull, Row
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        journal = Journal(sys.argv[1])
        one = Row("a-000001", 1, "a", "queued", 1.0, None, None, 0, "x" * 2_000_000, None)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        journal.add_job(one)
        try:
            journal.commit()
        except JournalFull:
            print("refused")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        journal.commit()
        print(len(journal.active()))
        journal.add_job(one._replace(id="a-000002", number=2))
        journal.withdraw(1)
        journal.close()
    """
    path = str(tmp_path / "journal.db")
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), path], capture_output=True, text=True
    )
    assert ended.stdout.split() == ["refused", "1"], ended.stderr
    again = Journal(path)
    assert [r.number for r in again.active()] == [1]
    again.close()


def test_a_removed_job_is_named_until_its_record_is_gone_too(journal: Journal):
    journal.add_job(row(1))
    journal.add_event("train-000001", 1, 5.0, {"kind": "Tick"})
    journal.remove(["train-000001"])
    journal.commit()
    assert journal.job("train-000001") is None
    assert journal.events("train-000001") == []
    assert journal.removed() == ["train-000001"]
    journal.buried(["train-000001"])
    journal.commit()
    assert journal.removed() == []


def test_use_of_long_ago_is_forgotten_and_the_rest_stays(journal: Journal):
    for number, end in enumerate((10.0, 20.0, 30.0)):
        journal.add_spell(Spell(f"j-{number}", 1.0, end, 0.0, "ann", "default", 0, {"gpus": 1}))
    journal.forget_spells(20.0)
    journal.commit()
    assert [spell.end for spell in journal.spells(0.0)] == [20.0, 30.0]
