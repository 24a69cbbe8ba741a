"""IFile, YARN's other format of aggregated logs: bodies first, then an index of all of them.

    SHA-256 of the application's id · bodies · index · its length (int32) · the same SHA-256

With rolling aggregation a file is appended to: further bodies, and a new index that holds the old
one too, so only the last counts. While that goes on, a file `…-checksum` says how long the file was
before; if it is still there afterwards, the file is good up to that length only.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from dromon.hadoop import javaserial
from dromon.hadoop.extents import DamagedLog, Entry, Plain, ReadAt, extent
from dromon.hadoop.javaserial import Instance

MARK = 32
TAIL = 4 + MARK
SMALLEST_ENTRY = 48  # its class, four longs, two strings that were told before
LARGEST_INDEX = 64 * 1024 * 1024  # where Hadoop itself begins to doubt


def mark(application_id: str) -> bytes:
    return sha256(application_id.encode()).digest()


def checksum(data: bytes) -> tuple[str, int]:
    """Of a `-checksum` file: which file it belongs to, and how much of that is good."""
    length = int.from_bytes(data[:4], "big")
    name, end = data[4 : 4 + length], data[4 + length : 12 + length]
    if len(end) < 8:
        raise DamagedLog("The file that says how much of a log is good breaks off.")
    return name.decode("utf-8", "replace"), int.from_bytes(end, "big")


def entries(read_at: ReadAt, size: int, application_id: str) -> Iterator[Entry]:
    """The log files of an IFile, oldest upload first; `size` is how much of it is good."""
    if size == 0:
        return
    own = mark(application_id)
    if size < MARK + TAIL or read_at(0, MARK) != own:
        raise DamagedLog(f"This is no IFile of {application_id}: it does not begin as one.")
    tail = Plain(read_at, size - TAIL, TAIL).read_at(0, TAIL)
    length = int.from_bytes(tail[:4], "big", signed=True)
    if tail[4:] != own:
        raise DamagedLog("The IFile has no end: whoever wrote it did not finish.")
    start = size - TAIL - length
    if not 0 < length <= LARGEST_INDEX or start < MARK:
        raise DamagedLog(f"An index of {length:,} bytes makes no sense.")
    index = javaserial.loads(Plain(read_at, start, length).read_at(0, length))
    # Objects may be shared inside the index, so a small one could stand for endless entries.
    left = length // SMALLEST_ENTRY
    compression = _field(index, "compressName", str)
    for upload in _list(_field(index, "logMetas", Instance)):
        for files in _values(_field(upload, "logMetas", Instance)):
            for file in _list(files):
                left -= 1
                if left < 0:
                    raise DamagedLog("The index names more logs than there is place for.")
                yield _entry(file, compression, read_at, start)


def _entry(file: Any, compression: str, read_at: ReadAt, limit: int) -> Entry:
    start, packed = _field(file, "startIndex", int), _field(file, "fileCompressedSize", int)
    raw = _field(file, "fileSize", int)
    if start < MARK or packed < 0 or raw < 0 or start + packed > limit:
        raise DamagedLog(f"A log of {packed:,} bytes at {start:,} is not in the file.")
    body = extent(compression, read_at, start, packed, raw)
    return Entry(_field(file, "containerId", str), _field(file, "fileName", str), body)


def _field(found: Any, name: str, kind: type) -> Any:
    value = found.fields.get(name) if isinstance(found, Instance) else None
    if not isinstance(value, kind):
        raise DamagedLog(f"The index has no {name} where one belongs.")
    return value


def _list(found: Any) -> list[Any]:
    """The elements of an ArrayList: after their count in bytes."""
    return _elements(found, "java.util.ArrayList")


def _values(found: Any) -> list[Any]:
    """The values of a HashMap: after its size in bytes come keys and values in turn."""
    return _elements(found, "java.util.HashMap")[1::2]


def _elements(found: Any, kind: str) -> list[Any]:
    if not isinstance(found, Instance) or found.kind != kind:
        raise DamagedLog(f"The index has something else where a {kind} belongs.")
    return [each for each in found.written if not isinstance(each, bytes)]
