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
from collections import deque
from typing import Deque, Dict, List, Optional, Sequence, Set, Tuple

RECORD = struct.Struct("<QdIH2x")  # offset, time, length, stream
LINE_LIMIT = 64 * 1024
BLOCK = 4 * 1024 * 1024  # about as much is read at once, and never the whole log

Segment = Tuple[float, int, bytes]  # time, stream, bytes
Line = Tuple[float, str, bytes]  # time, "out" or "err", bytes without their newline


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


class LogReader:
    """Reads a log while it grows, or after. Made before the log exists, it waits for it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = self._index = -1
        self._next = 0  # the first index record not yet read
        self._held: Dict[int, bytes] = {}  # the unfinished line of each stream
        self._ready: Deque[Line] = deque()
        self._time = 0.0
        self._end = 0  # of what the index records read so far cover

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
        if self._log >= 0:
            torn = os.pread(self._log, BLOCK, self._end)
            if torn:
                self._end += len(torn)
                lines += self._lines([(self._time, 0, torn)])
        for stream in sorted(self._held):
            rest = self._held[stream]
            if rest:
                lines.append((self._time, _name(stream), rest))
        self._held.clear()
        return lines

    def seek_time(self, since: float) -> None:
        """Continue with the first segment written at `since` or later."""
        self._restart()
        low, high = 0, self._count()
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
        position, found = self._count(), 0
        streams: Set[int] = set()
        if count > 0:
            # A line begun before the place found comes out short; one to spare for each stream.
            while position > 0 and found < count + len(streams):
                first = max(0, position - 64)
                records = self._records(first, position - first)
                for record in reversed(records):
                    position -= 1
                    streams.add(record[3])
                    found += os.pread(self._log, record[2], record[0]).count(b"\n")
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
        for fd in (self._log, self._index):
            if fd >= 0:
                os.close(fd)
        self._log = self._index = -1

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- index ----------------------------------------------------------------------------------

    def _is_open(self) -> bool:
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

    def _count(self) -> int:
        return os.fstat(self._index).st_size // RECORD.size if self._is_open() else 0

    def _records(self, first: int, count: int) -> List[Tuple[int, float, int, int]]:
        data = os.pread(self._index, count * RECORD.size, first * RECORD.size)
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
        if not self._is_open():
            return []
        records = self._records(self._next, 4096)
        size = taken = 0
        for record in records:
            if size and size + record[2] > limit:
                break
            size += record[2]
            taken += 1
        if not taken:
            return []
        start = records[0][0]
        data = os.pread(self._log, size, start)
        segments: List[Segment] = []
        for offset, time, length, stream in records[:taken]:
            begin = offset - start
            if begin + length > len(data):  # the index is ahead of the log: wait for it
                break
            segments.append((time, stream, data[begin : begin + length]))
            self._end = offset + length
        self._next += len(segments)
        return segments

    def _lines(self, segments: List[Segment]) -> List[Line]:
        lines: List[Line] = []
        held = self._held
        for time, stream, data in segments:
            self._time = time
            rest = held.pop(stream, b"")
            if rest:
                data = rest + data
            pieces = data.split(b"\n")
            name = _name(stream)
            last = pieces.pop()
            if len(data) > LINE_LIMIT:
                pieces, last = _cut(pieces, last)
            lines += [(time, name, piece) for piece in pieces]
            if last:
                held[stream] = last
        return lines


def _name(stream: int) -> str:
    return "err" if stream & 1 else "out"


def _cut(pieces: List[bytes], last: bytes) -> Tuple[List[bytes], bytes]:
    """No line longer than LINE_LIMIT: neither the whole ones nor the one still to be continued."""
    cut: List[bytes] = []
    for piece in pieces:
        while len(piece) > LINE_LIMIT:
            cut.append(piece[:LINE_LIMIT])
            piece = piece[LINE_LIMIT:]
        cut.append(piece)
    while len(last) > LINE_LIMIT:
        cut.append(last[:LINE_LIMIT])
        last = last[LINE_LIMIT:]
    return cut, last


def last_lines(path: str, count: int) -> List[Line]:
    """The last lines of a log nobody writes to any more, the unterminated one too."""
    with LogReader(path) as reader:
        reader.seek_tail(count)
        lines: Optional[List[Line]] = reader.finish()
    return (lines or [])[-count:] if count > 0 else []
