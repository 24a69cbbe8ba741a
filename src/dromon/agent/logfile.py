"""The captured output of one run on disk: how it is written, how it is read again.

`log` holds the bytes as they were read, stdout and stderr in the order of reading. `log.index`
holds one fixed-size record for each segment of it: offset, time, length, stream. The log is
written before its index, and only what the index covers is read, so a reader never sees half a
segment, whenever the writer was killed.

A stream is a process of the member and one of its two outputs: 2 x process, plus 1 for stderr.
Lines longer than LINE_LIMIT are cut into pieces of that size: memory stays bounded whatever is
printed. Nothing here knows of pipes, masks or members.
"""

import os
import struct
import sys
from array import array
from bisect import bisect_left
from collections import deque
from itertools import accumulate
from operator import itemgetter
from typing import (
    Any,
    Deque,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
    Union,
)

RECORD = struct.Struct("<QdIH2x")  # offset, time, length, stream
LINE_LIMIT = 64 * 1024
BLOCK = 4 * 1024 * 1024  # about as much is read at once, and never the whole log
MANY = 32 * 1024  # records that are looked at together
NEWLINE = 10
SEGMENT_LIMIT = 64 * 1024 * 1024  # a longer one was never written: the index is damaged

Segment = Tuple[float, int, bytes]  # time, stream, bytes
Line = Tuple[float, str, bytes]  # time, "out" or "err", bytes without their newline
Text = Tuple[float, str, bytes]  # time, "out" or "err", whole lines with their newlines


class Stretch(NamedTuple):
    """Segments that follow each other in a log, not taken apart."""

    times: Sequence[float]
    streams: Sequence[int]
    bounds: Sequence[int]  # where each begins, and the end of the last
    data: bytes
    is_tidy: bool  # in every segment are whole lines, none too long: no need to look at them
    changes: Sequence[int]  # segments of another stream than the one before; of tidy ones not told

    def joined(self, first: int, last: int) -> List[Segment]:
        """Those from `first` to before `last`, as one under the first's time and stream: all of
        them where they are tidy, else those of one stream."""
        if not self.changes:
            return [(self.times[first], self.streams[first], self.text(first, last))]
        low, high = (bisect_left(self.changes, at) for at in (first + 1, last))
        starts = [first, *self.changes[low:high]]
        return [
            (self.times[at], self.streams[at], self.text(at, end))
            for at, end in zip(starts, [*starts[1:], last])
        ]

    def text(self, first: int, last: int) -> bytes:
        base = self.bounds[0]
        return self.data[self.bounds[first] - base : self.bounds[last] - base]


def index_of(path: str) -> str:
    return path + ".index"


class LogFile:
    """The writer's side. Opened by the first append, since opening may stall as writing may."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = self._index = -1
        self._size = self._index_size = 0

    def append(self, segments: Sequence[Segment]) -> None:
        """All of them or, when the disk refuses, none: then an OSError."""
        if self._log < 0:
            self._open()
        offset = self._size
        records = bytearray()
        for time, stream, data in segments:
            records += RECORD.pack(offset, time, len(data), stream)
            offset += len(data)
        try:
            only = len(segments) == 1
            _write_all(self._log, segments[0][2] if only else b"".join([s[2] for s in segments]))
            _write_all(self._index, records)
        except OSError:
            os.ftruncate(self._log, self._size)
            os.ftruncate(self._index, self._index_size)
            raise
        self._size = offset
        self._index_size += len(records)

    def close(self) -> None:
        for fd in (self._log, self._index):
            if fd >= 0:
                os.close(fd)
        self._log = self._index = -1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(self._path, flags, 0o600)
        try:
            self._index = os.open(index_of(self._path), flags, 0o600)
        except OSError:
            os.close(log)
            raise
        self._log = log
        self._size = os.fstat(log).st_size
        self._index_size = os.fstat(self._index).st_size


def _write_all(fd: int, data: "bytes | bytearray") -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


class Stored(Protocol):
    """A log and its index, wherever they lie. Fewer bytes than asked for: there are no more."""

    def is_there(self) -> bool: ...
    def records(self) -> int: ...
    def log(self, offset: int, length: int) -> bytes: ...
    def index(self, offset: int, length: int) -> bytes: ...
    def close(self) -> None: ...


class OnDisk:
    """A log on this machine. Made before it exists, it waits for it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = self._index = -1

    def is_there(self) -> bool:
        if self._index >= 0:
            return True
        try:
            log = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            self._index = os.open(index_of(self._path), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            os.close(log)
            return False
        self._log = log
        return True

    def records(self) -> int:
        return os.fstat(self._index).st_size // RECORD.size if self.is_there() else 0

    def log(self, offset: int, length: int) -> bytes:
        return os.pread(self._log, length, offset)

    def index(self, offset: int, length: int) -> bytes:
        return os.pread(self._index, length, offset)

    def close(self) -> None:
        for fd in (self._log, self._index):
            if fd >= 0:
                os.close(fd)
        self._log = self._index = -1


class LogReader:
    """Reads a log while it grows, or after. Made before the log exists, it waits for it."""

    def __init__(self, source: Union[str, Stored]) -> None:
        self._source: Stored = OnDisk(source) if isinstance(source, str) else source
        self._next = 0  # the first index record not yet read
        self._held: Dict[int, bytes] = {}  # the unfinished line of each stream
        self._ready: Deque[Line] = deque()
        self._time = 0.0
        self._end = 0  # of what the index records read so far cover
        self._unused = (0, b"")  # index records that were read ahead, from which on

    def read_new(self, limit: int = BLOCK) -> List[Line]:
        """Whole lines that came since the last call, of about `limit` bytes; [] when none did."""
        if self._ready:
            lines = list(self._ready)
            self._ready.clear()
            return lines
        while True:
            segments = self._segments(limit)
            if not segments:
                return []
            lines = self._lines(segments)
            if lines:
                return lines

    def finish(self) -> List[Line]:
        """The rest, once nobody writes any more: new lines, unterminated ones, and bytes whose
        index record was never written."""
        lines: List[Line] = []
        while True:
            more = self.read_new()
            if not more:
                break
            lines += more
        for text in self.leftovers():
            lines += _split(*text)
        return lines

    def drain(self, limit: int = BLOCK, *, joined: bool = False) -> Iterator[List[Text]]:
        """All the rest of a log nobody writes to any more, as whole lines still joined: a fraction
        of the work that lines one by one are. `joined`: segments of one stream that follow each
        other come as one, under the time of the first; of both where nothing speaks against it."""
        if self._ready:
            yield [(time, name, line + b"\n") for time, name, line in self._ready]
            self._ready.clear()
        while joined:
            stretch = self.stretch(limit)
            if stretch is None:
                break
            yield self.joined(stretch, 0, len(stretch.times))
        while not joined:
            segments = self._segments(limit)
            if not segments:
                break
            yield self.texts(segments)
        for text in self.leftovers():
            yield [text]

    def leftovers(self) -> Iterator[Text]:
        """Bytes whose index record was never written, then lines that have no end."""
        while self._source.is_there():
            torn = self._source.log(self._end, BLOCK)
            if not torn:
                break
            self._end += len(torn)
            yield from self.texts([(self._time, 0, torn)])
        for stream in sorted(self._held):
            yield self._time, _name(stream), self._held[stream] + b"\n"
        self._held.clear()

    @property
    def left(self) -> int:
        """Segments that were not read yet."""
        return self._source.records() - self._next

    def seek_time(self, since: float) -> None:
        """Continue with the first segment written at `since` or later."""
        self._restart()
        low, high = 0, self._source.records()
        while low < high:
            middle = (low + high) // 2
            if self._record(middle)[1] < since:
                low = middle + 1
            else:
                high = middle
        self._go_to(low)

    def seek_tail(self, count: int) -> None:
        """Continue with the last `count` whole lines. Reads backwards, no more than is needed."""
        self._restart()
        position, found = self._source.records(), 0
        streams: Set[int] = set()
        if count > 0:
            # A line begun before the place found comes out short; one to spare for each stream.
            while position > 0 and found < count + len(streams):
                first = max(0, position - 64)
                records = self._records(first, position - first)
                for record in reversed(records):
                    position -= 1
                    streams.add(record[3])
                    length = min(record[2], SEGMENT_LIMIT)
                    found += self._source.log(record[0], length).count(b"\n")
                    if found >= count + len(streams):
                        break
        self._go_to(position)
        last: Deque[Line] = deque(maxlen=max(count, 0))
        while True:
            lines = self.read_new()
            if not lines:
                break
            last.extend(lines)
        self._ready = last

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- index ----------------------------------------------------------------------------------

    def _records(self, first: int, count: int) -> List[Tuple[int, float, int, int]]:
        data = self._source.index(first * RECORD.size, count * RECORD.size)
        return list(RECORD.iter_unpack(data[: len(data) - len(data) % RECORD.size]))

    def _record(self, number: int) -> Tuple[int, float, int, int]:
        return self._records(number, 1)[0]

    def _restart(self) -> None:
        self._held.clear()
        self._ready.clear()
        self._next = self._end = 0
        self._time = 0.0

    def _go_to(self, number: int) -> None:
        self._next = number
        if number:
            offset, self._time, length, _ = self._record(number - 1)
            self._end = offset + length

    # ---- segments and lines ---------------------------------------------------------------------

    def _segments(self, limit: int) -> List[Segment]:
        """The next segments that are wholly on disk."""
        if not self._source.is_there():
            return []
        records = self._records(self._next, 4096)
        size = taken = 0
        for record in records:
            if (size and size + record[2] > limit) or record[2] > SEGMENT_LIMIT:
                break
            size += record[2]
            taken += 1
        if not taken:
            return []
        start = records[0][0]
        data = self._source.log(start, size)
        segments: List[Segment] = []
        for offset, time, length, stream in records[:taken]:
            begin = offset - start
            if begin + length > len(data):  # the index is ahead of the log: wait for it
                break
            segments.append((time, stream, data[begin : begin + length]))
            self._end = offset + length
        self._next += len(segments)
        return segments

    def stretch(self, limit: int = BLOCK) -> Optional[Stretch]:
        """The next segments, of at most about `limit` bytes, together; None: there are no more."""
        if not self._source.is_there():
            return None
        index = self._index(min(MANY, max(64, limit // 64)))
        count = len(index) // RECORD.size
        start = size = 0
        while count:
            start = RECORD.unpack_from(index)[0]
            offset, time, length, _ = RECORD.unpack_from(index, (count - 1) * RECORD.size)
            size = offset + length - start
            if 0 <= size <= limit:
                break
            count //= 2
        data = self._source.log(start, size) if count else b""
        if not count or len(data) < size:  # a large segment, or one that is not there yet
            return _stretch_of(self._segments(limit), can_be_tidy=not self._held)
        self._next += count
        self._end = offset + length
        self._time = time
        self._unused = self._next, index[count * RECORD.size :]
        index = index[: count * RECORD.size]
        bounds = _column("Q", index, 0)
        bounds.append(start + size)
        times, streams = _column("d", index, 8), _column("H", index, 20)
        return _stretch(times, streams, bounds, data, can_be_tidy=not self._held)

    def _index(self, most: int) -> bytes:
        """The next records. None is asked for twice: a store far away is read forwards."""
        first, index = self._unused
        if first != self._next:
            index = b""
        at, missing = self._next * RECORD.size + len(index), most * RECORD.size - len(index)
        return index + self._source.index(at, missing) if missing > 0 else index

    def joined(self, stretch: Stretch, first: int, last: int) -> List[Text]:
        """The lines of some of its segments, as few texts as can be."""
        segments = stretch.joined(first, last)
        if not stretch.is_tidy:
            return self.texts(segments)
        ((time, stream, data),) = segments
        return [(time, _name(stream), data)] if data else []

    def _lines(self, segments: List[Segment]) -> List[Line]:
        lines: List[Line] = []
        for text in self.texts(segments):
            lines += _split(*text)
        return lines

    def texts(self, segments: List[Segment]) -> List[Text]:
        texts: List[Text] = []
        held = self._held
        for time, stream, data in segments:
            self._time = time
            rest = held.pop(stream, b"")
            if rest:
                data = rest + data
            if len(data) > LINE_LIMIT and _has_long_line(data):
                data = _cut(data)
            end = data.rfind(b"\n") + 1
            if end < len(data):
                held[stream] = data[end:]
                data = data[:end]
            if data:
                texts.append((time, _name(stream), data))
        return texts


def _name(stream: int) -> str:
    return "err" if stream & 1 else "out"


def _split(time: float, name: str, text: bytes) -> List[Line]:
    lines = text.split(b"\n")
    lines.pop()
    return [(time, name, line) for line in lines]


def _stretch_of(segments: List[Segment], can_be_tidy: bool) -> Optional[Stretch]:
    if not segments:
        return None
    times, streams, pieces = zip(*segments)
    bounds = list(accumulate([len(piece) for piece in pieces], initial=0))
    return _stretch(times, streams, bounds, b"".join(pieces), can_be_tidy)


def _stretch(
    times: Sequence[float],
    streams: Sequence[int],
    bounds: Sequence[int],
    data: bytes,
    can_be_tidy: bool,
) -> Stretch:
    changes: List[int] = []
    is_tidy = can_be_tidy and _is_tidy(bounds, data)
    if not is_tidy and streams.count(streams[0]) < len(streams):
        changes = [at for at in range(1, len(streams)) if streams[at] != streams[at - 1]]
    return Stretch(times, streams, bounds, data, is_tidy, changes)


def _is_tidy(bounds: Sequence[int], data: bytes) -> bool:
    """Does every segment end with a line, and is no line too long?"""
    before = bounds[0] + 1
    last_bytes = itemgetter(-1, *[end - before for end in bounds[1:]])(data)
    return set(last_bytes) == {NEWLINE} and not _has_long_line(data)


def _column(kind: str, index: bytes, at: int) -> "array[Any]":
    """One field of all records at once."""
    whole = array(kind, index)
    if sys.byteorder == "big":
        whole.byteswap()
    return whole[at // whole.itemsize :: RECORD.size // whole.itemsize]


def _has_long_line(data: bytes) -> bool:
    at = 0
    while len(data) - at > LINE_LIMIT:
        at = data.rfind(b"\n", at, at + LINE_LIMIT + 1) + 1
        if not at:
            return True
    return False


def _cut(data: bytes) -> bytes:
    """No line longer than LINE_LIMIT: neither the whole ones nor the one still to be continued."""
    cut: List[bytes] = []
    for piece in data.split(b"\n"):
        while len(piece) > LINE_LIMIT:
            cut.append(piece[:LINE_LIMIT])
            piece = piece[LINE_LIMIT:]
        cut.append(piece)
    return b"\n".join(cut)


def last_lines(path: str, count: int) -> List[Line]:
    """The last lines of a log nobody writes to any more, the unterminated one too."""
    with LogReader(path) as reader:
        reader.seek_tail(count)
        lines: Optional[List[Line]] = reader.finish()
    return (lines or [])[-count:] if count > 0 else []
