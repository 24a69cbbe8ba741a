"""Log lines from a record: all members merged by time, as they come."""

import os
from pathlib import Path

import pytest

from dromon.agent.logfile import LogFile
from dromon.agent.record import Record
from dromon.observe.logs import RecordLogs, Source


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(str(tmp_path / "record"))


def write(record: Record, member: str, *lines: tuple[float, str], run: int = 1) -> None:
    os.makedirs(record.run(member, run), exist_ok=True)
    log = LogFile(record.log(member, run))
    log.append([(time, 0, text.encode()) for time, text in lines])
    log.close()


def sources(*members: str, run: int = 1) -> list[Source]:
    return [Source(member, run, rank) for rank, member in enumerate(members)]


def texts(lines: list) -> list[str]:
    return [line[4] for line in lines]


def test_lines_of_all_members_are_merged_by_time(record):
    write(record, "worker-0", (1.0, "a\n"), (3.0, "c\n"))
    write(record, "worker-1", (2.0, "b\n"))
    with RecordLogs(record.root) as logs:
        logs.add(sources("worker-0", "worker-1"))
        found = logs.read()
    assert [(line[1], line[2], line[4]) for line in found] == [
        ("worker-0", 0, "a"),
        ("worker-1", 1, "b"),
        ("worker-0", 0, "c"),
    ]


def test_of_one_moment_a_members_own_order_stays(record):
    write(record, "worker-0", (1.0, "1\n2\n3\n"))
    write(record, "worker-1", (1.0, "x\n"))
    with RecordLogs(record.root) as logs:
        logs.add(sources("worker-0", "worker-1"))
        assert [t for t in texts(logs.read()) if t != "x"] == ["1", "2", "3"]


def test_what_is_read_once_is_not_read_again_and_what_is_new_is(record):
    write(record, "worker-0", (1.0, "a\n"))
    with RecordLogs(record.root) as logs:
        logs.add(sources("worker-0"))
        assert texts(logs.read()) == ["a"]
        assert logs.read() == []
        write(record, "worker-0", (2.0, "b\n"))
        assert texts(logs.read()) == ["b"]


def test_a_source_may_be_there_before_its_log_and_a_rank_may_come_later(record):
    with RecordLogs(record.root) as logs:
        logs.add([Source("worker-0", 1, None)])
        assert logs.read() == []
        write(record, "worker-0", (1.0, "a\n"))
        logs.add([Source("worker-0", 1, 3)])
        assert [(line[2], line[4]) for line in logs.read()] == [(3, "a")]


def test_a_line_without_an_end_is_told_when_the_job_is_over(record):
    write(record, "worker-0", (1.0, "whole\nhalf"))
    with RecordLogs(record.root) as logs:
        logs.add(sources("worker-0"))
        assert texts(logs.read()) == ["whole"]
        assert texts(logs.finish()) == ["half"]


def test_tail_and_since_together_give_what_both_allow(record):
    write(record, "worker-0", *[(float(n), f"{n}\n") for n in range(10)])

    def read(**options: float) -> list[str]:
        with RecordLogs(record.root, **options) as logs:  # type: ignore[arg-type]
            logs.add(sources("worker-0"))
            return texts(logs.read() + logs.finish())

    assert read(tail=3) == ["7", "8", "9"]
    assert read(since=8.0) == ["8", "9"]
    assert read(since=8.0, tail=5) == ["8", "9"]
    assert read(since=2.0, tail=2) == ["8", "9"]
