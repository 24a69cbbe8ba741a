"""TFile, in which YARN keeps aggregated logs unless told otherwise: one file for each node.

    magic · data blocks · meta blocks · index of meta blocks · its offset · version · magic

A data block is a run of records, and a record belongs to one container: its key, then the log files
as one stream of {name, length in decimals, bytes}, cut into chunks of about a megabyte. The lengths
of chunks stand before them, so listing reads a few bytes of each and no body.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

from dromon.hadoop.extents import (
    Cursor,
    DamagedLog,
    Entry,
    Extent,
    Held,
    Part,
    Plain,
    ReadAt,
    UnknownLogFormat,
    extent,
)

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")
VERSION = 1
TAIL = 8 + 4 + len(MAGIC)  # offset of the meta index, version, magic
DATA_INDEX = "data:BCFile.index"
SMALL = 1 << 20  # the meta index has three names in it
LEAST = 16  # a header has up to nine bytes
LONGEST_KEY = 64 * 1024
NOT_CONTAINERS = frozenset({"VERSION", "APPLICATION_ACL", "APPLICATION_OWNER"})


def is_tfile(head: bytes) -> bool:
    return head.startswith(MAGIC)


def entries(read_at: ReadAt, size: int) -> Iterator[Entry]:
    """The log files of a TFile, in its order. Bodies are read when they are asked for."""
    for compression, start, packed, raw in _blocks(read_at, size):
        yield from _entries_of_block(extent(compression, read_at, start, packed, raw), raw)


def _blocks(read_at: ReadAt, size: int) -> Iterator[tuple[str, int, int, int]]:
    """Compression, offset, stored and unpacked size of each data block."""
    if size < len(MAGIC) + TAIL or not is_tfile(read_at(0, len(MAGIC))):
        raise DamagedLog("This is no TFile: it does not begin as one.")
    tail = Plain(read_at, size - TAIL, TAIL).read_at(0, TAIL)
    if not tail.endswith(MAGIC):
        raise DamagedLog("The TFile has no end: whoever wrote it did not finish.")
    major = int.from_bytes(tail[8:10], "big")
    if major != VERSION:
        raise UnknownLogFormat(f"The TFile is of version {major}, and {VERSION} can be read here.")
    begin, end = int.from_bytes(tail[:8], "big"), size - TAIL
    if not len(MAGIC) <= begin <= end or end - begin > SMALL:
        raise DamagedLog("The index of the TFile is not where it should be.")
    meta = Cursor(Plain(read_at, begin, end - begin))
    for _ in range(meta.number()):
        name, compression = meta.text(), meta.text()
        start, packed, raw = _region(meta, begin)
        if name == DATA_INDEX:
            break
    else:
        raise DamagedLog("The TFile has no index of its blocks.")
    index = Cursor(extent(compression, read_at, start, packed, raw))
    compression = index.text()
    after = len(MAGIC)
    for _ in range(index.number()):
        start, packed, raw = _region(index, end, after)
        after = start + packed
        yield compression, start, packed, raw


def _region(cursor: Cursor, limit: int, after: int = len(MAGIC)) -> tuple[int, int, int]:
    """No two blocks share a byte, so no file can claim more blocks than it has room for."""
    start, packed, raw = cursor.number(), cursor.number(), cursor.number()
    if start < after or packed <= 0 or raw < 0 or start + packed > limit:
        raise DamagedLog(f"A block of {packed:,} bytes at {start:,} is not in the file.")
    return start, packed, raw


def _entries_of_block(block: Extent, raw: int) -> Iterator[Entry]:
    if block.size != raw:
        raise DamagedLog(f"A block of {raw:,} bytes has {block.size:,}.")
    cursor = Cursor(block)
    while not cursor.at_end:
        length = cursor.number()
        if not 2 <= length <= LONGEST_KEY:
            raise DamagedLog(f"A key of {length:,} bytes makes no sense.")
        key = Cursor(Held(cursor.take(length))).java_text()
        value = Value(block, cursor.at)
        if key not in NOT_CONTAINERS:
            yield from _entries_of_value(key, value)
        cursor = Cursor(block, value.end())


def _entries_of_value(container: str, value: Value) -> Iterator[Entry]:
    at = 0
    while value.reaches(at + 1):
        cursor = Cursor(value, at, block=256)
        file, length = cursor.java_text(), cursor.java_text()
        if not file or "/" in file or not re.fullmatch("[0-9]{1,18}", length):
            raise DamagedLog(f"The logs of {container} are not told apart after byte {at:,}.")
        size = int(length)
        at = cursor.at + size
        if not value.reaches(at):
            raise DamagedLog(f"{file} of {container} has fewer than its {size:,} bytes.")
        yield Entry(container, file, Part(value, cursor.at, size))


class Run(NamedTuple):
    """Chunks of one size that follow each other."""

    begin: int  # in the stream
    start: int  # of the first one's bytes, in the block
    size: int
    step: int  # from one to the next in the block: its size, and that of a header
    times: int


class Value:
    """The value of a record: its chunks, as one stream. They are found as far as they are needed,
    and only so many places are kept that any number of chunks costs the same memory."""

    RUNS = 4096

    def __init__(self, block: Extent, start: int) -> None:
        self._block = block
        self._headers = Cursor(block, start)  # at that of the next chunk
        self._found = 0  # bytes of the stream in the chunks seen so far
        self._runs: list[Run] = []
        self._skipped = self._stride = 0  # of so many runs, one is kept
        self._recent = Run(0, 0, 0, 0, 0)
        self.size = 1 << 62  # until the last chunk is seen

    def twin(self) -> Value:
        other = copy(self)
        other._block = self._block.twin()
        other._headers = Cursor(other._block, self._headers.at)
        other._runs = list(self._runs)
        return other

    def reaches(self, offset: int) -> bool:
        while self._found < offset and not self._ended:
            self._find_chunk(offset)
        return self._found >= offset

    def end(self) -> int:
        """Where in the block it ends."""
        while not self._ended:
            self._find_chunk(0)
        return self._headers.at

    @property
    def _ended(self) -> bool:
        return self.size == self._found

    def _find_chunk(self, wanted: int) -> None:
        """The next one; and more at once if a byte of one file is `wanted` that is far ahead."""
        at = self._headers.at
        size, is_last = _chunk(self._headers)
        start = self._headers.at
        step = start - at + size
        if at + step > self._block.size:
            raise DamagedLog(f"A chunk of {size:,} bytes goes beyond its block.")
        last = self._runs[-1] if self._runs else Run(0, 0, -1, 0, 0)
        count = 1
        if size == last.size and start == last.start + last.times * step and not is_last:
            count += self._leap(at, start - at, step, (wanted - self._found) // size - 1)
            self._runs[-1] = last._replace(times=last.times + count)
        else:
            self._keep(Run(self._found, start, size, step, 1))
        self._headers.at = at + count * step
        self._found += count * size
        if is_last:
            self.size = self._found

    def _leap(self, at: int, header: int, step: int, most: int) -> int:
        """How many more chunks are like this one. Inside of one file YARN makes them all alike, so
        where the same header comes again after some, these have it too. It has four bytes: that is
        no accident."""
        if header < 4 or not isinstance(self._block, Plain):
            return 0
        same, known, stride = self._block.read_at(at, header), 0, 16
        while stride:
            ahead = at + (known + stride) * step
            inside = known + stride <= most and ahead + step <= self._block.size
            if inside and self._block.read_at(ahead, header) == same:
                known += stride
                stride *= 2
            else:
                stride //= 2
        return known

    def _keep(self, run: Run) -> None:
        if self._skipped < self._stride:
            self._skipped += 1
            return
        self._skipped = 0
        self._runs.append(run)
        if len(self._runs) > self.RUNS:
            del self._runs[1::2]
            self._stride = 2 * self._stride + 1

    def read_at(self, offset: int, length: int) -> bytes:
        if not self.reaches(offset + length):
            length = self._found - offset
        pieces: list[bytes | memoryview] = []
        while length > 0:
            taken = self._read_some(offset, length, pieces)
            offset += taken
            length -= taken
        return b"".join(pieces)

    def _read_some(self, offset: int, length: int, pieces: list[bytes | memoryview]) -> int:
        """Most often all of it: one read over several chunks, whose headers are left out."""
        begin, start, size = self._chunk_with(offset)
        start += offset - begin
        rest = begin + size - offset  # of this chunk
        if length <= rest:
            pieces.append(self._block.read_at(start, length))
            return length
        data = self._block.read_at(start, length + length // 4096 + LEAST)
        view, within = memoryview(data), Cursor(Held(data), rest, block=LEAST)
        pieces.append(view[:rest])
        taken = rest
        while taken < length and within.at < len(data) - LEAST:
            size, _ = _chunk(within)
            self._recent = Run(offset + taken, start + within.at, size, 0, 1)
            use = min(size, length - taken, len(data) - within.at)
            pieces.append(view[within.at : within.at + use])
            taken += use
            within.at += size
        return taken

    def _chunk_with(self, offset: int) -> tuple[int, int, int]:
        """Of the chunk with this byte in it: its place in the stream and in the block, its size."""
        run = self._recent
        if not run.begin <= offset < run.begin + run.size:
            run = self._runs[bisect_left(self._runs, Run(offset + 1, -1, 0, 0, 0)) - 1]
        passed = min((offset - run.begin) // run.size if run.size else 0, run.times - 1)
        begin, start, size = run.begin + passed * run.size, run.start + passed * run.step, run.size
        cursor = Cursor(self._block)
        while begin + size <= offset:
            cursor.at = start + size
            begin += size
            size, _ = _chunk(cursor)
            start = cursor.at
        self._recent = Run(begin, start, size, 0, 1)
        return begin, start, size


def _chunk(cursor: Cursor) -> tuple[int, bool]:
    """The length of the next chunk, and whether it is the last: the others' are negative."""
    length = cursor.number()
    return abs(length), length >= 0
