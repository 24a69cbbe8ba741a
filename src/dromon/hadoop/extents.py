"""Stretches of a stored file as bytes of their own: as they lie there, or inflated.

Everything is read through a `ReadAt`, a piece at a time, so that memory stays the same however
large the file is. What the bytes mean is not known here: see `tfile` and `ifile`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from dromon.errors import EngineError

# (offset, length) -> bytes; fewer than asked for only at the end of the file.
ReadAt = Callable[[int, int], bytes]

PIECE = 256 * 1024  # so much is given to zlib at once, or asked of it
MARKS = 32  # places an inflated stretch can be entered at; each costs about 50 KB
MARK_STRIDE = 8 * 1024 * 1024


class DamagedLog(EngineError):
    """An aggregated log file is damaged."""

    hint = (
        "The NodeManager that wrote it may have died meanwhile; "
        "its local log directory may still hold the logs."
    )


class UnknownLogFormat(EngineError):
    """An aggregated log file is written in a way that cannot be read here."""

    hint = "`yarn logs -applicationId …` on a node of the cluster reads what it wrote itself."


class Extent(Protocol):
    """Bytes from 0 to `size`. Reading gives as many as asked for, but at the end."""

    size: int

    def read_at(self, offset: int, length: int) -> bytes: ...

    def twin(self) -> Extent:
        """The same bytes for a second reader, who is somewhere else in them."""
        ...


class Entry(NamedTuple):
    """One log file of one container, inside an aggregated file."""

    container: str
    file: str
    body: Extent

    @property
    def size(self) -> int:
        return self.body.size


class Plain:
    """A stretch of a file, as it lies there."""

    def __init__(self, read_at: ReadAt, start: int, size: int) -> None:
        self._read_at = read_at
        self._start = start
        self.size = size

    def read_at(self, offset: int, length: int) -> bytes:
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        data = self._read_at(self._start + offset, length)
        if len(data) < length:
            where = self._start + offset + len(data)
            raise DamagedLog(f"The file ends at byte {where:,}, in the middle of a log.")
        return data

    def twin(self) -> Plain:
        return self


class Held:
    """Bytes that are in memory already."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read_at(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def twin(self) -> Held:
        return self


class Part:
    """A stretch of another extent. It is read by a twin, since others read other parts of it."""

    def __init__(self, whole: Extent, start: int, size: int) -> None:
        self._whole = whole
        self._own: Extent | None = None
        self._start = start
        self.size = size

    def read_at(self, offset: int, length: int) -> bytes:
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        if self._own is None:
            self._own = self._whole.twin()
        return self._own.read_at(self._start + offset, length)

    def twin(self) -> Part:
        return Part(self._whole, self._start, self.size)


class Inflated:
    """A stretch that holds zlib streams, one after the other. Whoever reads somewhere else begins
    at the nearest of a few marked places before it."""

    def __init__(self, packed: Extent, size: int, marks: Marks | None = None) -> None:
        self._packed = packed
        self.size = size
        self._marks = marks or Marks()
        self._enter(0, 0, zlib.decompressobj())

    def twin(self) -> Inflated:
        return Inflated(self._packed, self.size, self._marks)

    def read_at(self, offset: int, length: int) -> bytes:
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        if offset != self._at:
            self._jump(offset)
        while self._at < offset:
            if not self._inflate(min(PIECE, offset - self._at)):
                return b""
        pieces = []
        while length:
            piece = self._inflate(min(4 * PIECE, length))
            if not piece:
                break
            pieces.append(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _enter(self, at: int, taken: int, engine: Any) -> None:
        self._at = at
        self._taken = taken  # packed bytes that were read
        self._rest = b""  # of these, the ones the engine has not used yet
        self._engine = engine

    def _jump(self, offset: int) -> None:
        """To the last mark before it, unless it is ahead, and nearer."""
        at, taken, engine = self._marks.before(offset)
        if offset < self._at or at > self._at:
            self._enter(at, taken, engine.copy())

    def _inflate(self, most: int) -> bytes:
        """Up to `most` further bytes; none at the end."""
        while True:
            if not self._rest:
                self._rest = self._packed.read_at(self._taken, PIECE)
                self._taken += len(self._rest)
            if self._engine.eof:
                if not self._rest:
                    return b""
                self._engine = zlib.decompressobj()
            ended = not self._rest
            try:
                data: bytes = self._engine.decompress(self._rest, most)
            except zlib.error as error:
                raise DamagedLog(f"A compressed log cannot be inflated: {error}.") from None
            engine = self._engine
            self._rest = engine.unused_data if engine.eof else engine.unconsumed_tail
            if data:
                self._at += len(data)
                if not engine.eof:
                    self._marks.add(self._at, self._taken - len(self._rest), engine)
                return data
            if ended and not self._engine.eof:
                raise DamagedLog("A compressed log breaks off before its end.")


class Marks:
    """Places an inflated stretch can be entered at. When they get too many, every other goes."""

    def __init__(self) -> None:
        self._stride = MARK_STRIDE
        # Inflated offset, packed offset, and zlib's state there.
        self._places: list[tuple[int, int, Any]] = [(0, 0, zlib.decompressobj())]

    def __len__(self) -> int:
        return len(self._places)

    def before(self, offset: int) -> tuple[int, int, Any]:
        return max((each for each in self._places if each[0] <= offset), key=itemgetter(0))

    def add(self, at: int, taken: int, engine: Any) -> None:
        if at < self._places[-1][0] + self._stride:
            return
        self._places.append((at, taken, engine.copy()))
        if len(self._places) > MARKS:
            del self._places[1::2]
            self._stride *= 2


def extent(compression: str, read_at: ReadAt, start: int, packed: int, size: int) -> Extent:
    """The stretch of `packed` bytes from `start` on, which holds `size` bytes when unpacked."""
    if compression == "none":
        return Plain(read_at, start, packed)
    if compression == "gz":
        return Inflated(Plain(read_at, start, packed), size)
    if compression == "lzo":
        raise UnknownLogFormat(
            "The logs are compressed with LZO, which cannot be read here.",
            hint="`yarn logs -applicationId …` on a node of the cluster can. For later jobs: "
            "yarn.nodemanager.log-aggregation.compression-type none or gz.",
        )
    raise DamagedLog(f"{compression[:40]!r} is no compression that Hadoop writes logs with.")


class Cursor:
    """Takes one thing after the other off an extent, and skips what is not asked for."""

    def __init__(self, source: Extent, at: int = 0, block: int = 4096) -> None:
        self._source = source
        self._block = block
        self._data = b""
        self._start = at  # of `_data`
        self.at = at

    @property
    def at_end(self) -> bool:
        return self.at >= self._source.size

    def take(self, size: int) -> bytes:
        begin = self.at - self._start
        if not 0 <= begin <= begin + size <= len(self._data):
            self._start, begin = self.at, 0
            self._data = self._source.read_at(self.at, max(size, self._block))
            if len(self._data) < size:
                raise DamagedLog(f"{size:,} bytes expected, and {len(self._data):,} are left.")
        self.at += size
        return self._data[begin : begin + size]

    def number(self) -> int:
        """An integer in the variable form of TFile, which is not that of Writables."""
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -32:
            return first
        form = (first + 128) // 8
        if form >= 7:
            return (first + 52 << 8) | self.take(1)[0]
        if form >= 3:
            return (first + 88 << 16) | int.from_bytes(self.take(2), "big")
        if form >= 1:
            return (first + 112 << 24) | int.from_bytes(self.take(3), "big")
        return int.from_bytes(self.take(first + 129), "big", signed=True)

    def text(self) -> str:
        """Hadoop's own strings: their length, then UTF-8."""
        size = self.number()
        if not 0 <= size <= 4096:
            raise DamagedLog(f"A name of {size:,} bytes makes no sense.")
        return self.take(size).decode("utf-8", "replace")

    def java_text(self) -> str:
        """Java's strings: two bytes of length, then its own kind of UTF-8."""
        return java_text(self.take(int.from_bytes(self.take(2), "big")))


def java_text(data: bytes) -> str:
    """Java writes NUL as two bytes, and a character beyond 16 bits as its two surrogates."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    try:
        units = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise DamagedLog(f"{data[:40]!r} is not a name.") from None
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
