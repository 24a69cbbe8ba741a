"""The journal on HDFS: nothing counts before it is written, and only one attempt writes."""

import threading

import pytest
from stage import until

from dromon.engines.yarn.am.journal import Journal, parse

RECORD = "/user/al/.dromon/jobs/train-aaaaaa"


class Heard:
    def __init__(self) -> None:
        self.durable: list[int] = []
        self.superseded = threading.Event()


@pytest.fixture
def open_journal(hdfs):
    made = []

    def start(attempt: int = 1):
        heard = Heard()
        journal = Journal(hdfs, RECORD, attempt, heard.durable.append, heard.superseded.set)
        made.append(journal)
        return journal, heard, journal.open()

    yield start
    for journal in made:
        journal.close(5)


def test_what_one_attempt_kept_the_next_one_reads_in_order(open_journal):
    first, _, found = open_journal(1)
    assert found == []
    for number in range(50):
        first.append({"n": number})
    assert first.close(10)
    _, _, found = open_journal(2)
    assert found == [{"n": number} for number in range(50)]


def test_an_entry_counts_only_once_it_is_on_hdfs(open_journal, name_node, hdfs):
    journal, heard, _ = open_journal()
    gate, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        gate.wait(20)

    name_node.meanwhile["CREATE"] = hold
    assert journal.append({"n": 1}) == 1
    assert reached.wait(20)
    assert journal.append({"n": 2}) == 2
    assert heard.durable == []
    gate.set()
    until(lambda: heard.durable and heard.durable[-1] == 2, "both to be safe")
    assert heard.durable == [1, 2]
    assert hdfs.read(f"{RECORD}/journal-1/000001") == b'{"n":1}\n'


def test_entries_that_wait_go_out_together(open_journal, name_node, hdfs):
    journal, heard, _ = open_journal()
    gate = threading.Event()
    name_node.meanwhile["CREATE"] = lambda: gate.wait(20)
    for number in range(100):
        journal.append({"n": number})
    gate.set()
    until(lambda: heard.durable and heard.durable[-1] == 100, "all to be safe")
    assert len(hdfs.list(f"{RECORD}/journal-1")) <= 3


def test_an_earlier_attempt_that_still_lives_cannot_write_any_more(open_journal):
    first, heard, _ = open_journal(1)
    first.append({"n": 1})
    until(lambda: heard.durable == [1], "the first entry")
    _, _, found = open_journal(2)
    assert found == [{"n": 1}]
    first.append({"n": 2})
    assert heard.superseded.wait(20)
    assert heard.durable == [1]
    _, _, found = open_journal(3)
    assert found == [{"n": 1}]


def test_attempts_are_read_in_their_order_though_one_kept_nothing(open_journal):
    for attempt in (1, 2, 3):
        journal, _, _ = open_journal(attempt)
        if attempt != 2:
            journal.append({"attempt": attempt})
        journal.close(10)
    _, _, found = open_journal(4)
    assert found == [{"attempt": 1}, {"attempt": 3}]


def test_an_attempt_that_never_opened_its_journal_is_passed_over(open_journal):
    _, _, found = open_journal(3)
    assert found == []


def test_while_hdfs_refuses_the_entry_is_kept_and_tried_again(open_journal, name_node):
    from fake_webhdfs import Fault

    journal, heard, _ = open_journal()
    full = ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "the quota is exceeded")
    name_node.faults.append(Fault("CREATE", refusal=full))
    gate, tried = threading.Event(), threading.Event()
    journal.append({"n": 1})
    until(lambda: journal.trouble or heard.durable, "the refusal")
    until(lambda: heard.durable == [1], "the entry to be written after all")
    assert journal.trouble == ""
    assert gate.is_set() is tried.is_set() is False


def test_a_line_that_was_cut_short_was_never_acted_upon():
    assert parse(b'{"n":1}\n{"n":2}\n{"n":3') == [{"n": 1}, {"n": 2}]
    assert parse(b"") == []


def test_a_journal_that_cannot_be_finished_says_so(open_journal, name_node):
    journal, _, _ = open_journal()
    gate = threading.Event()
    name_node.meanwhile["CREATE"] = lambda: gate.wait(20)
    journal.append({"n": 1})
    assert journal.close(0.05) is False
    gate.set()
    assert journal.close(10) is True
