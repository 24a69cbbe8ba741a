"""The log on disk: whatever is written comes back as lines, however it was cut or torn."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dromon.agent.logfile import (
    LINE_LIMIT,
    RECORD,
    LogFile,
    LogReader,
    OnDisk,
    index_of,
    last_lines,
)

relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
chunks = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.sampled_from([b"a", b"\n", b"\xff", b"bc", b"\r"]))
              .map(b"".join)), max_size=30,
)  # fmt: skip


def write(path: Path, segments: list[tuple[int, bytes]], start: float = 0.0) -> str:
    for name in (str(path), index_of(str(path))):
        if os.path.exists(name):
            os.unlink(name)
    log = LogFile(str(path))
    for number, (stream, data) in enumerate(segments):
        log.append([(start + number, stream, data)])
    log.close()
    return str(path)


def expected(segments: list[tuple[int, bytes]]) -> dict[int, list[bytes]]:
    joined: dict[int, bytes] = {}
    for stream, data in segments:
        joined[stream] = joined.get(stream, b"") + data
    lines = {}
    for stream, data in joined.items():
        pieces = data.split(b"\n")
        lines[stream] = pieces[:-1] + ([pieces[-1]] if pieces[-1] else [])
    return lines


def texts(lines: list[tuple[float, str, bytes]]) -> list[bytes]:
    return [text for _, _, text in lines]


@relaxed
@given(chunks)
def test_every_line_of_every_stream_comes_back_once(tmp_path, segments):
    segments = [(stream, data) for stream, data in segments if data]
    with LogReader(write(tmp_path / "log", segments)) as reader:
        lines = reader.read_new() + reader.finish()
    wanted = expected(segments)
    for parity, name in ((0, "out"), (1, "err")):
        got = [text for _, stream, text in lines if stream == name]
        assert sorted(got) == sorted(
            text for stream, theirs in wanted.items() if stream % 2 == parity for text in theirs
        )


@relaxed
@given(chunks)
def test_reading_while_it_grows_gives_what_reading_at_the_end_gives(tmp_path, segments):
    segments = [(stream, data) for stream, data in segments if data]
    whole = write(tmp_path / "whole", segments)
    with LogReader(whole) as reader:
        at_end = reader.read_new() + reader.finish()
    path = write(tmp_path / "log", [])
    follower = LogReader(path)
    log = LogFile(path)
    grown = []
    for number, (stream, data) in enumerate(segments):
        log.append([(float(number), stream, data)])
        grown += follower.read_new()
    grown += follower.finish()
    follower.close()
    log.close()
    assert grown == at_end


@relaxed
@given(chunks, st.integers(1, 20))
def test_joined_segments_are_the_same_lines_in_the_same_order(tmp_path, segments, limit):
    path = write(tmp_path / "log", [(stream, data) for stream, data in segments if data])
    with LogReader(path) as reader:
        one_by_one = b"".join(line + b"\n" for line in texts(reader.finish()))
    with LogReader(path) as reader:
        assert b"".join(d for b in reader.drain(limit, joined=True) for d in texts(b)) == one_by_one


def test_whole_lines_of_both_streams_are_joined_unless_one_was_begun_before(tmp_path):
    whole = [(n % 2, b"%d\n" % n) for n in range(100)]
    with LogReader(write(tmp_path / "log", whole)) as reader:
        ((text,),) = reader.drain(joined=True)
    assert text == (0.0, "out", b"".join(data for _, data in whole))
    begun = [(0, b"one "), (1, b"err\n"), (0, b"line\n")]
    with LogReader(write(tmp_path / "log", begun)) as reader:
        assert [t[1:] for batch in reader.drain(4, joined=True) for t in batch] == [
            ("err", b"err\n"), ("out", b"one line\n"),
        ]  # fmt: skip


def test_an_index_far_away_is_read_forwards_and_once(tmp_path):
    path = os.path.join(tmp_path, "log")
    log = LogFile(path)
    log.append([(float(n), n % 2, b"%d\n" % n * (1 + n // 50)) for n in range(3000)])
    log.close()

    class FarAway(OnDisk):
        asked = 0

        def index(self, offset: int, length: int) -> bytes:
            assert offset >= self.asked
            found = super().index(offset, length)
            self.asked = offset + len(found)
            return found

    source = FarAway(path)
    reader, data = LogReader(source), b""
    while (stretch := reader.stretch(4096)) is not None:
        data += stretch.data
    assert data == Path(path).read_bytes()
    assert source.asked == 3000 * RECORD.size


def test_bytes_that_trickle_in_one_by_one_give_the_same_lines(tmp_path):
    path = write(tmp_path / "log", [(0, b"one\ntwo\n"), (1, b"err\n"), (0, b"three")])
    log, index = Path(path).read_bytes(), Path(index_of(path)).read_bytes()
    slow = tmp_path / "slow"
    slow.write_bytes(b"")
    Path(index_of(str(slow))).write_bytes(b"")
    reader = LogReader(str(slow))
    lines = []
    # The index is ahead of the log here, which a killed machine may leave behind.
    for target, data in ((index_of(str(slow)), index), (str(slow), log)):
        for byte in data:
            with open(target, "ab") as file:
                file.write(bytes([byte]))
            lines += texts(reader.read_new())
    assert lines == [b"one", b"two", b"err"]
    assert texts(reader.finish()) == [b"three"]
    reader.close()


@pytest.mark.parametrize("cut", [1, RECORD.size - 1, RECORD.size + 5])
def test_torn_index_loses_no_byte(tmp_path, cut):
    path = write(tmp_path / "log", [(0, b"one\n"), (0, b"two\n"), (0, b"three\n")])
    with open(index_of(path), "r+b") as file:
        file.truncate(3 * RECORD.size - cut)
    with LogReader(path) as reader:
        assert texts(reader.finish()) == [b"one", b"two", b"three"]


def test_index_beyond_the_log_is_not_believed(tmp_path):
    path = write(tmp_path / "log", [(0, b"one\n"), (0, b"two\n")])
    with open(path, "r+b") as file:
        file.truncate(6)
    with LogReader(path) as reader:
        assert texts(reader.read_new()) == [b"one"]
        assert texts(reader.finish()) == [b"tw"]


def test_log_that_does_not_exist_yet_is_waited_for(tmp_path):
    reader = LogReader(str(tmp_path / "log"))
    assert reader.read_new() == []
    write(tmp_path / "log", [(0, b"here\n")])
    assert texts(reader.read_new()) == [b"here"]
    reader.close()


def test_tail_of_a_huge_log_reads_little(tmp_path):
    line = b"x" * 79 + b"\n"
    path = tmp_path / "log"
    log = LogFile(str(path))
    for number in range(40):
        log.append([(float(number), 0, line * 800)])
    log.append([(99.0, 0, b"".join(b"%d\n" % n for n in range(10)))])
    log.close()
    # A hole where the beginning was: whoever reads it gets zeros, and no line ends.
    with open(path, "r+b") as file:
        for offset in range(0, 64_000 * 30, 64_000):
            file.seek(offset)
            file.write(bytes(64_000))
    assert texts(last_lines(str(path), 10)) == [b"%d" % n for n in range(10)]
    assert len(last_lines(str(path), 12)) == 12


@relaxed
@given(chunks, st.integers(0, 12))
def test_tail_of_whole_lines_is_the_end_of_all_lines(tmp_path, segments, count):
    segments = [(stream % 2, data + b"\n") for stream, data in segments]
    path = write(tmp_path / "log", segments)
    with LogReader(path) as reader:
        everything = reader.read_new() + reader.finish()
    assert last_lines(path, count) == (everything[-count:] if count else [])


def test_following_goes_on_after_a_tail(tmp_path):
    path = write(tmp_path / "log", [(0, b"1\n2\n3\n")])
    with LogReader(path) as reader:
        reader.seek_tail(1)
        assert texts(reader.read_new()) == [b"3"]
        log = LogFile(path)
        log.append([(9.0, 0, b"4\n")])
        log.close()
        assert texts(reader.read_new()) == [b"4"]


def test_since_starts_at_the_first_segment_of_that_time(tmp_path):
    path = write(tmp_path / "log", [(0, b"%d\n" % n) for n in range(100)], start=1000.0)
    with LogReader(path) as reader:
        reader.seek_time(1090.0)
        assert texts(reader.read_new()) == [b"%d" % n for n in range(90, 100)]
        reader.seek_time(5000.0)
        assert reader.read_new() == []


def test_line_without_end_is_cut_into_pieces(tmp_path):
    path = write(tmp_path / "log", [(0, b"x" * 1_000_000)] * 3 + [(0, b"\nshort\n")])
    with LogReader(path) as reader:
        lines = texts(reader.read_new())
    assert b"".join(lines[:-1]) == b"x" * 3_000_000
    assert max(map(len, lines)) == LINE_LIMIT
    assert lines[-1] == b"short"


def test_refused_write_leaves_log_and_index_as_they_were(tmp_path):
    path = write(tmp_path / "log", [(0, b"kept\n")])
    log = LogFile(path)
    log.append([(1.0, 0, b"also\n")])
    os.close(log._index)
    log._index = os.open(index_of(path), os.O_RDONLY)  # an index that refuses
    with pytest.raises(OSError, match=r"Bad file descriptor|Invalid argument"):
        log.append([(2.0, 0, b"lost\n")])
    assert Path(path).read_bytes() == b"kept\nalso\n"
    log.close()
