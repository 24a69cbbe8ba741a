"""From pipes to a log: whole lines, masked secrets, and never a wait for the disk."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dromon.agent.capture import QUIET, Capture, masks_of
from dromon.agent.logfile import LogFile, Segment, last_lines

LIMIT = 64 * 1024 * 1024


class Sink:
    """A disk that keeps what it is given; it can be made to stall or to refuse."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.go = threading.Event()
        self.go.set()
        self.refuses = False

    def append(self, segments: list[Segment]) -> None:
        self.go.wait()
        if self.refuses:
            raise OSError(28, "No space left on device")
        self.segments += segments

    @property
    def data(self) -> bytes:
        return b"".join(data for _, _, data in self.segments)


class Tube:
    """A capture with one pipe into it."""

    def __init__(self, sink: Sink, limit: int = LIMIT, secrets: tuple[str, ...] = ()) -> None:
        self.capture = Capture(sink.append, limit, secrets)
        self.source, self.pipe = os.pipe()
        self.capture.add(self.source, 0)

    def say(self, data: bytes) -> None:
        os.write(self.pipe, data)
        self.capture.read(self.source)

    def end(self) -> None:
        os.close(self.pipe)
        while self.capture.read(self.source) > 0:
            pass
        self.capture.finish()
        while not self.capture.done:
            time.sleep(0.002)


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.go.set()


def test_unfinished_line_waits_for_its_end(sink):
    tube = Tube(sink)
    tube.say(b"one\ntw")
    tube.say(b"o\n")
    tube.end()
    assert [data for _, _, data in sink.segments] == [b"one\n", b"two\n"]


def test_unfinished_line_is_written_after_a_silence(sink):
    tube = Tube(sink)
    tube.say(b" 10%\r")
    assert tube.capture.flush_quiet() is not None
    assert tube.capture.backlog == 0
    time.sleep(QUIET * 1.5)
    assert tube.capture.flush_quiet() is None
    tube.say(b" 20%\r")
    tube.end()
    assert [data for _, _, data in sink.segments] == [b" 10%\r", b" 20%\r"]


def test_times_never_run_backwards(sink):
    tube = Tube(sink)
    tube.capture._time = time.time() + 3600  # as after the clock was set back by an hour
    tube.say(b"one\n")
    tube.say(b"two\n")
    tube.end()
    times = [moment for moment, _, _ in sink.segments]
    assert times == sorted(times)
    assert times[0] > time.time() + 3000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), max_size=12), st.booleans())
def test_secret_is_masked_however_it_is_cut(sizes, silent):
    sink = Sink()
    tube = Tube(sink, secrets=("s3cr3t-token",))
    text = b"token=s3cr3t-token s3cr3t-toke s3cr3t-tokens3cr3t-token end s3cr3t-"
    rest = text
    for size in sizes:
        if not rest:
            break
        tube.say(rest[:size])
        rest = rest[size:]
        if silent:
            for stream in tube.capture._streams.values():
                stream.due = 0.0
            tube.capture.flush_quiet()
    if rest:
        tube.say(rest)
    tube.end()
    assert sink.data == text.replace(b"s3cr3t-token", b"***")
    assert "s3cr3t-token" not in "\n".join(tube.capture.last_lines(5))


def test_secret_of_several_lines_is_masked_line_by_line():
    masks = masks_of(["-----BEGIN KEY-----\nMIIEvQIBADANBg\n}\n-----END KEY-----\n", "abc"])
    assert set(masks) == {b"-----BEGIN KEY-----", b"MIIEvQIBADANBg", b"-----END KEY-----"}


def test_stalled_disk_never_makes_the_member_wait(sink):
    sink.go.clear()
    tube = Tube(sink, limit=100_000)
    for _ in range(100):
        tube.say(b"x" * 999 + b"\n" + b"y" * 999 + b"\n")
    assert tube.capture.backlog <= 100_000
    dropped = tube.capture.dropped
    assert dropped == 100
    sink.go.set()
    while tube.capture.backlog:
        time.sleep(0.002)
    tube.say(b"after\n")
    tube.end()
    note = f"[dromon] dropped {dropped} lines: the disk was too slow\n".encode()
    assert sink.data.endswith(note + b"after\n")
    assert sink.segments[-2][1] == 1  # on stderr
    assert sink.data.count(b"\n") - 2 + dropped == 200


def test_full_disk_drops_and_says_how_many(sink):
    sink.refuses = True
    tube = Tube(sink)
    tube.say(b"1\n2\n3\n")
    while tube.capture.backlog:
        time.sleep(0.002)
    sink.refuses = False
    tube.say(b"4\n")
    tube.end()
    assert sink.data == b"[dromon] dropped 3 lines: No space left on device\n4\n"
    assert tube.capture.dropped == 3
    assert tube.capture.trouble == "No space left on device"


def test_line_of_a_hundred_megabytes_needs_little_memory(sink, tmp_path):
    log = LogFile(str(tmp_path / "log"))
    held: list[int] = []

    def append(segments: list[Segment]) -> None:
        held.append(max(len(data) for _, _, data in segments))
        log.append(segments)

    sink.append = append  # type: ignore[method-assign]
    tube = Tube(sink)
    writer = subprocess.Popen(
        [sys.executable, "-c", "import os\nfor _ in range(100): os.write(1, b'x' * 1_000_000)"],
        stdout=tube.pipe,
    )
    os.close(tube.pipe)
    os.set_blocking(tube.source, True)
    while tube.capture.read(tube.source):
        while tube.capture.must_wait:
            time.sleep(0.002)
    tube.capture.finish()
    assert writer.wait() == 0
    while not tube.capture.done:
        time.sleep(0.002)
    assert os.path.getsize(tmp_path / "log") == 100_000_000
    assert max(held) < 2_000_000
    assert len(last_lines(str(tmp_path / "log"), 3)) == 3


def test_last_lines_are_kept_and_short(sink):
    tube = Tube(sink)
    for number in range(2000):
        tube.say(b"line %d\n" % number)
    tube.say(b"z" * 60_000 + b"\nlast")
    tube.end()
    lines = tube.capture.last_lines(20)
    assert lines[-1] == "last"
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 2000
