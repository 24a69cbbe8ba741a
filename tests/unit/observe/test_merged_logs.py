"""Logs nobody writes to any more, merged by time, without looking at the time of each line."""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from dromon.agent.logfile import LogFile, LogReader
from dromon.observe.logs import FEW, MOMENT, Source, Text, texts

BEGIN = 1.7e9
OUT, ERR = 0, 1
Segments = list[tuple[float, int, bytes]]


def merged(place: Path, logs: dict[str, Segments]) -> list[Text]:
    readers = []
    for rank, (member, segments) in enumerate(logs.items()):
        path = os.path.join(place, member)
        log = LogFile(path)
        log.append(segments)
        log.close()
        readers.append((Source(member, 1, rank), LogReader(path)))
    return list(texts(readers, plain=True))


def of(found: list[Text], member: str) -> bytes:
    return b"".join(text.data for text in found if text.member == member)


def lines(count: int, pace: float, late: float = 0.0) -> Segments:
    return [(BEGIN + late + n * pace, OUT, b"%d\n" % n) for n in range(count)]


def test_few_lines_are_merged_one_by_one(tmp_path):
    found = merged(tmp_path, {"a": lines(50, 1.0), "b": lines(50, 1.0, late=0.5)})
    assert [text.member for text in found] == ["a", "b"] * 50


@pytest.mark.parametrize("pace", [0.0001, 0.01, 3.0])
def test_of_many_lines_none_is_lost_and_none_comes_long_before_an_older_one(tmp_path, pace):
    logs = {
        "a": lines(FEW // 2, pace),
        "b": lines(FEW // 2, pace, late=pace / 3),
        "late": lines(1000, pace, late=FEW // 4 * pace),
    }
    found = merged(tmp_path, logs)
    for member, written in logs.items():
        assert of(found, member) == b"".join(data for _, _, data in written)
    for earlier, later in pairwise(found):
        began = logs[earlier.member][0][0]
        last = began + int(earlier.data.split()[-1]) * pace
        assert later.time > last - MOMENT
    if pace > MOMENT:
        assert all(text.data.count(b"\n") == 1 for text in found)
    else:
        assert len(found) < FEW / 4


def test_streams_half_lines_and_a_clock_that_is_set_back_keep_a_members_order(tmp_path):
    mixed: Segments = []
    for n in range(FEW // 4):
        moment = BEGIN + n * 0.001 - (30 if n > 1000 else 0)
        mixed += [
            (moment, OUT, b"out %d " % n),
            (moment, ERR, b"err %d\n" % n),
            (moment, OUT, b"\n"),
        ]
    found = merged(tmp_path, {"mixed": [*mixed, (BEGIN, OUT, b"no end")], "b": lines(FEW, 0.001)})
    out = b"".join(b"out %d \n" % n for n in range(FEW // 4)) + b"no end\n"
    err = b"".join(b"err %d\n" % n for n in range(FEW // 4))
    mine = [text for text in found if text.member == "mixed"]
    assert b"".join(text.data for text in mine if text.stream == "out") == out
    assert b"".join(text.data for text in mine if text.stream == "err") == err
    assert [text.stream for text in mine[:4]] == ["err", "out", "err", "out"]
    assert of(found, "b") == b"".join(b"%d\n" % n for n in range(FEW))


def test_whole_lines_of_both_streams_come_together_in_their_order(tmp_path):
    both = [(moment, n % 2, data) for n, (moment, _, data) in enumerate(lines(FEW, 0.001))]
    found = merged(tmp_path, {"both": both, "other": lines(FEW, 0.001)})
    assert of(found, "both") == b"".join(data for _, _, data in both)
    assert len(found) < FEW / 4


def test_segments_too_large_to_be_held_together_come_all_the_same(tmp_path):
    large = [(BEGIN + n, OUT, b"x" * 40_000 + b"\n") for n in range(500)]
    found = merged(tmp_path, {"large": large, "small": lines(FEW, 0.001)})
    assert of(found, "large") == b"".join(data for _, _, data in large)
