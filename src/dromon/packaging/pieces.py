"""What goes into an archive: names, and where their bytes come from. Deterministic .tar.gz of them.

The same pieces make the same bytes: sorted, nobody's, of one constant time. Compressed in blocks
that do not know of each other, so that every core helps and their number changes nothing.
"""

import hashlib
import os
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO

from dromon.errors import PackagingError

if TYPE_CHECKING:
    from concurrent.futures import Future

LONG_AGO = 315532800  # 1980: jobs that zip what they were given cannot say anything older
LEVEL = 1
BLOCK = 2 * 1024 * 1024
HEADER = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"  # gzip: no name, no time, no system

Bytes = Callable[[int, int], None]  # done, total


@dataclass(frozen=True, slots=True)
class Piece:
    """One file: its bytes at hand, or those of `source`."""

    name: str
    source: str = ""
    data: bytes | None = None
    size: int = 0
    executable: bool = False
    link: str = ""
    is_directory: bool = False


def of_data(name: str, data: bytes, *, executable: bool = False) -> Piece:
    return Piece(name, data=data, size=len(data), executable=executable)


def of_file(name: str, source: str, found: os.stat_result) -> Piece:
    return Piece(name, source, size=found.st_size, executable=bool(found.st_mode & 0o100))


@dataclass(frozen=True, slots=True)
class Written:
    digest: str
    size: int
    unpacked: int  # bytes of the files


def write(
    pieces: Iterable[Piece],
    out: BinaryIO,
    progress: Bytes = lambda done, total: None,
    level: int = LEVEL,
) -> Written:
    from concurrent.futures import ThreadPoolExecutor  # not for those who find it made

    ordered = sorted(pieces, key=lambda p: p.name)
    for one, other in pairwise(ordered):
        if one.name == other.name:
            raise PackagingError(f"Two files would be {one.name} in the archive.")
    total = sum(512 - -p.size // 512 * 512 for p in ordered)  # with what tar adds
    unpacked = sum(p.size for p in ordered)
    digest = hashlib.sha256()
    size = done = 0
    crc = length = 0

    def put(data: bytes) -> None:
        nonlocal size
        digest.update(data)
        out.write(data)
        size += len(data)

    put(HEADER)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        waiting: deque[tuple[Future[bytes], int]] = deque()

        def settle() -> None:
            nonlocal done
            block, plain = waiting.popleft()
            put(block.result())
            done += plain
            progress(min(done, total), total)

        for chunk in _blocks(_stream(ordered)):
            crc = zlib.crc32(chunk, crc)
            length += len(chunk)
            waiting.append((pool.submit(_compress, chunk, level), len(chunk)))
            if len(waiting) > 2 * (os.cpu_count() or 1):
                settle()
        while waiting:
            settle()
    put(zlib.compressobj(level, zlib.DEFLATED, -15).flush())  # the end of the stream
    put(struct.pack("<II", crc, length & 0xFFFFFFFF))
    progress(total, total)
    return Written(digest.hexdigest(), size, unpacked)


def _compress(chunk: bytes, level: int) -> bytes:
    squeeze = zlib.compressobj(level, zlib.DEFLATED, -15)
    return squeeze.compress(chunk) + squeeze.flush(zlib.Z_SYNC_FLUSH)


def _blocks(stream: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for data in stream:
        held.append(data)
        size += len(data)
        if size >= BLOCK:
            whole = b"".join(held)
            full = size - size % BLOCK
            for at in range(0, full, BLOCK):
                yield whole[at : at + BLOCK]
            held, size = [whole[full:]], size - full
    if size:
        yield b"".join(held)


def _stream(ordered: list[Piece]) -> Iterator[bytes]:
    for piece in ordered:
        yield _header(piece)
        if piece.data is not None:
            yield piece.data
        elif piece.source:
            yield from _content(piece)
        yield bytes(-piece.size % 512)
    yield bytes(1024)


def _content(piece: Piece) -> Iterator[bytes]:
    left = piece.size
    try:
        with open(piece.source, "rb", buffering=0) as file:
            while left and (data := file.read(min(left, BLOCK))):
                left -= len(data)
                yield data
            if left or file.read(1):
                raise PackagingError(
                    f"{piece.source} changed while it was read.", hint="Try it again."
                )
    except OSError as error:
        raise PackagingError(f"{piece.source} cannot be read: {error.strerror}.") from error


def _header(piece: Piece) -> bytes:
    import tarfile

    info = tarfile.TarInfo(piece.name)
    info.mtime = LONG_AGO
    info.size = piece.size
    info.mode = 0o755 if piece.executable or piece.is_directory else 0o644
    if piece.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, piece.link, 0o777
    elif piece.is_directory:
        info.type = tarfile.DIRTYPE
    # GNU's long names: tar of every age and Hadoop's own unpacker read them.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
