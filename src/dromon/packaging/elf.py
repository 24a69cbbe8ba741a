"""Reading and rewriting 64-bit little-endian ELF files: what a program needs, and where it looks.

`relocatable` gives a program a search path relative to itself, so that no variable has to say where
its libraries are: variables are inherited by every program a job starts, and break some of them.
Nothing about Python here.
"""

import mmap
import os
import re
import struct
from dataclasses import dataclass
from typing import NamedTuple, cast

LOAD, DYNAMIC, INTERP = 1, 2, 3
NEEDED, STRTAB, STRSZ, RPATH, RUNPATH = 1, 5, 10, 15, 29
RELACOUNT, RELCOUNT = 0x6FFFFFF9, 0x6FFFFFFA  # only there to be quick; may be given up
ALLOCATED = 2
MACHINES = {62: "x86_64", 183: "aarch64"}
GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)")


class NotElf(Exception):
    """The bytes are not of an ELF file, or of one that is not handled here. Says why."""


class Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    in_file: int
    in_memory: int
    align: int


@dataclass(frozen=True, slots=True)
class Elf:
    machine: str
    interpreter: str  # the loader it is started by; empty in libraries
    needed: tuple[str, ...]
    search: str  # RPATH or RUNPATH
    glibc: tuple[int, int]  # the oldest that has every symbol it asks for; (0, 0): none asked
    is_static: bool


def is_elf(data: bytes | bytearray) -> bool:
    return data[:4] == b"\x7fELF"


def read(data: bytes) -> Elf:
    return _told(_Image(bytearray(data)))


def read_file(path: str) -> Elf:
    """Of a file that may be gigabytes: only the pages that tell are read."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise NotElf("it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return _told(_Image(cast("bytearray", mapped)))  # which is only read from


def _told(image: "_Image") -> Elf:
    strings = image.strings()
    versions = [(int(a), int(b)) for a, b in GLIBC.findall(strings)]
    interpreter = ""
    for segment in image.segments:
        if segment.kind == INTERP:
            raw = image.data[segment.offset : segment.offset + segment.in_file]
            interpreter = bytes(raw).rstrip(b"\0").decode()
    return Elf(
        image.machine, interpreter,
        tuple(_text(strings, v) for t, v in image.entries if t == NEEDED),
        next((_text(strings, v) for t, v in image.entries if t in (RPATH, RUNPATH)), ""),
        max(versions, default=(0, 0)), not image.entries,
    )  # fmt: skip


def relocatable(data: bytes, search: str) -> bytes:
    """The same program, looking for libraries in `search` first; without symbols for debuggers.

    RPATH rather than RUNPATH: it also serves the libraries that this one loads, and no variable
    of a node comes before it. An empty `search` only takes the symbols away.
    """
    image = _Image(bytearray(data))
    if search and image.entries:
        image.add_search(search)
    return image.without_symbols()


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode(errors="replace")


class _Image:
    def __init__(self, data: bytearray) -> None:
        if not is_elf(data[:4]):
            raise NotElf("it is no ELF file")
        if len(data) < 6 or data[4] != 2 or data[5] != 1:
            raise NotElf("it is not of a 64-bit little-endian machine")
        self.data = data
        try:
            (machine,) = struct.unpack_from("<H", data, 18)
            self.headers, self.sections = struct.unpack_from("<QQ", data, 32)
            _, size, count, _, self.section_count, self.names = struct.unpack_from("<6H", data, 52)
            if size != 56:
                raise NotElf("its headers are of an unknown size")
            self.segments = [self._segment(self.headers + 56 * i) for i in range(count)]
            self.machine = MACHINES.get(machine, f"machine {machine}")
            self.dynamic = next((s for s in self.segments if s.kind == DYNAMIC), None)
            self.entries: list[tuple[int, int]] = []  # up to the first end mark
            if self.dynamic:
                for at in range(0, self.dynamic.in_file, 16):
                    tag, value = struct.unpack_from("<QQ", data, self.dynamic.offset + at)
                    if tag == 0:
                        break
                    self.entries.append((tag, value))
        except struct.error:
            raise NotElf("it is cut short") from None

    def _segment(self, at: int) -> Segment:
        return Segment(*struct.unpack_from("<IIQQQQQQ", self.data, at))

    def strings(self) -> bytes:
        found = dict(self.entries)
        if STRTAB not in found:
            return b""
        at = self._offset(found[STRTAB])
        return bytes(self.data[at : at + found[STRSZ]])

    def _offset(self, address: int) -> int:
        for s in self.segments:
            if s.kind == LOAD and s.address <= address < s.address + s.in_file:
                return s.offset + address - s.address
        raise NotElf("it names an address it does not have")

    def add_search(self, search: str) -> None:
        """The strings move to the end of the last segment, where there is room for one more.

        That segment's zeroed memory lies in between, and so becomes part of the file.
        """
        assert self.dynamic is not None
        strings = self.strings()
        longer = strings + search.encode() + b"\0"
        index = max(
            (i for i, s in enumerate(self.segments) if s.kind == LOAD),
            key=lambda i: self.segments[i].address,
        )
        last = self.segments[index]
        if any(
            s.kind == LOAD and s.offset + s.in_file > last.offset + last.in_file
            for s in self.segments
        ):
            raise NotElf("its last segment in memory is not the last in the file")
        start = -(-last.in_memory // 16) * 16
        end = last.offset + last.in_file
        gap = start - last.in_file + len(longer)
        gap += -gap % 16
        tail = self.data[end:]
        grown = bytes(start - last.in_file) + longer
        self.data[end:] = grown + bytes(gap - len(grown)) + tail
        self._move_sections(end, gap)
        total = start + len(longer)
        last = last._replace(
            in_file=total, in_memory=max(total, last.in_memory), flags=last.flags | 4
        )
        struct.pack_into("<IIQQQQQQ", self.data, self.headers + 56 * index, *last)
        self.segments[index] = last
        self._set_entries(last.address + start, len(longer), len(strings))

    def _set_entries(self, strtab: int, size: int, search_at: int) -> None:
        assert self.dynamic is not None
        changed = {STRTAB: strtab, STRSZ: size}
        entries = [
            (tag, changed.get(tag, value))
            for tag, value in self.entries
            if tag not in (RPATH, RUNPATH)
        ] + [(RPATH, search_at)]
        room = self.dynamic.in_file // 16 - 1  # the end mark
        if len(entries) > room:
            entries = [e for e in entries if e[0] not in (RELACOUNT, RELCOUNT)]
        if len(entries) > room:
            raise NotElf("its table of libraries has no room for one more entry")
        self.entries = entries
        packed = b"".join(struct.pack("<QQ", *e) for e in entries)
        packed += bytes(self.dynamic.in_file - len(packed))
        self.data[self.dynamic.offset : self.dynamic.offset + len(packed)] = packed

    def _move_sections(self, end: int, gap: int) -> None:
        if self.sections >= end:
            self.sections += gap
            struct.pack_into("<Q", self.data, 40, self.sections)
        for at in self._section_headers():
            (offset,) = struct.unpack_from("<Q", self.data, at + 24)
            (kind,) = struct.unpack_from("<I", self.data, at + 4)
            if offset >= end and kind != 8:  # 8: takes no room in the file
                struct.pack_into("<Q", self.data, at + 24, offset + gap)

    def _section_headers(self) -> list[int]:
        if not self.sections or self.sections + 64 * self.section_count > len(self.data):
            return []
        return [self.sections + 64 * i for i in range(self.section_count)]

    def without_symbols(self) -> bytes:
        """What is loaded, and the headers of that: profilers find their way by them."""
        headers = self._section_headers()
        end = max(s.offset + s.in_file for s in self.segments if s.kind == LOAD)
        if not headers or self.names >= len(headers) or self.sections < end:
            return bytes(self.data)
        at, size = struct.unpack_from("<QQ", self.data, headers[self.names] + 24)
        if at < end:
            return bytes(self.data)
        out = self.data[:end]
        names_at = len(out)
        out += self.data[at : at + size]
        out += bytes(-len(out) % 8)
        table = len(out)
        for i, header in enumerate(headers):
            raw = self.data[header : header + 64]
            (flags,) = struct.unpack_from("<Q", raw, 8)
            if i == self.names:
                struct.pack_into("<Q", raw, 24, names_at)
            elif not flags & ALLOCATED:
                raw = bytearray(64)
            out += raw
        struct.pack_into("<Q", out, 40, table)
        return bytes(out)
