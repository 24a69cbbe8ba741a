"""Aggregated log files to read: those that Hadoop's own classes wrote (vectors/aggregated.txt), and
a small writer of TFiles for shapes that these do not have."""

import base64
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from dromon.hadoop import tfile
from dromon.hadoop.extents import Entry

LINES = (Path(__file__).parent / "vectors" / "aggregated.txt").read_text().splitlines()
FILES = {
    tuple(line.split(" ")[:3]): base64.b64decode(line.split(" ")[3])
    for line in LINES
    if not line.startswith("#")
}
FIRST, SECOND = (f"container_1700000000000_0007_01_{n:06d}" for n in (1, 2))
LOGS = {
    (FIRST, "prelaunch.out"): b"Setting up env variables\n",
    (FIRST, "stderr"): b"",
    (FIRST, "stdout"): b"hello\n" * 50,
    (SECOND, "größe\U0001f600.log"): b"\xff\x00\xfe",
    (SECOND, "worker-0.1.log"): b"".join(b"line %d\n" % n for n in range(300)),
}


def at(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, length: data[offset : offset + length]


def contents(found: list[Entry], step: int = 1 << 20) -> dict[tuple[str, str], bytes]:
    return {(entry.container, entry.file): b"".join(_pieces(entry, step)) for entry in found}


def _pieces(entry: Entry, step: int) -> Iterator[bytes]:
    """To its end, wherever it is said to be: a damaged file may claim to be huge."""
    for offset in range(0, entry.size, step):
        piece = entry.body.read_at(offset, step)
        if not piece:
            return
        yield piece


def number(value: int) -> bytes:
    if -32 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    return bytes((-129 + 8 & 0xFF,)) + value.to_bytes(8, "big", signed=True)


def java(text: str) -> bytes:
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def record(key: str, value: bytes, chunk: int = 1 << 20) -> bytes:
    cut = [value[i : i + chunk] for i in range(0, len(value), chunk)] or [b""]
    chunks = [number(-len(piece)) + piece for piece in cut[:-1]]
    named = java(key)
    return number(len(named)) + named + b"".join(chunks) + number(len(cut[-1])) + cut[-1]


def build(blocks: list[bytes], compression: str = "none", magic: bytes = tfile.MAGIC) -> bytes:
    def pack(data: bytes) -> bytes:
        return zlib.compress(data) if compression == "gz" else data

    def region(data: bytes, raw: int) -> bytes:
        return number(len(whole)) + number(len(data)) + number(raw)

    def text(value: str) -> bytes:
        return number(len(value)) + value.encode()

    whole = bytearray(tfile.MAGIC)
    regions = b""
    for block in blocks:
        packed = pack(block)
        regions += region(packed, len(block))
        whole += packed
    index = text(compression) + number(len(blocks)) + regions
    meta = number(1) + text("data:BCFile.index") + text("none") + region(index, len(index))
    whole += index
    begin = len(whole)
    return bytes(whole + meta + begin.to_bytes(8, "big") + b"\0\1\0\0" + magic)


def value(files: dict[str, bytes]) -> bytes:
    return b"".join(java(name) + java(str(len(data))) + data for name, data in files.items())
