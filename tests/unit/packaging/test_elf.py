import os
import struct
import subprocess
import sys

import pytest

from dromon.packaging import elf

PROGRAM = os.path.realpath(sys.executable)


@pytest.fixture(scope="module")
def program():
    with open(PROGRAM, "rb") as file:
        return file.read()


def test_a_program_tells_what_it_needs(program):
    found = elf.read(program)
    assert any(name.startswith("libc.so") for name in found.needed)
    assert "ld-linux" in found.interpreter
    assert found.glibc > (2, 0)
    assert not found.is_static


def test_a_relocated_program_runs_and_looks_where_it_is_told_first(program, tmp_path):
    library = tmp_path / "sp ace" / "lib"
    library.mkdir(parents=True)
    moved = elf.relocatable(program, "$ORIGIN/lib")
    assert elf.read(moved).search == "$ORIGIN/lib"
    assert elf.read(moved).needed == elf.read(program).needed
    place = tmp_path / "sp ace" / "program"
    place.write_bytes(moved)
    place.chmod(0o755)
    env = {"LD_DEBUG": "libs", "PYTHONHOME": sys.base_prefix, **_libraries()}
    done = subprocess.run([place, "-c", "print(6*7)"], env=env, capture_output=True, text=True)
    assert done.stdout == "42\n", done.stderr[-2000:]
    first = next(line for line in done.stderr.splitlines() if "search path=" in line)
    assert str(library) in first
    assert "RPATH" in first


def _libraries():
    """libpython, where this Python has one, is no longer where it looks."""
    lib = os.path.join(sys.base_prefix, "lib")
    return {"LD_LIBRARY_PATH": lib} if os.path.isdir(lib) else {}


def test_symbols_for_debuggers_go_and_sections_in_memory_stay(program):
    moved = elf.relocatable(program, "")
    assert len(moved) <= len(program)
    assert elf.read(moved) == elf.read(program)
    (table,) = struct.unpack_from("<Q", moved, 40)
    (count,) = struct.unpack_from("<H", moved, 60)
    kinds = [struct.unpack_from("<I", moved, table + 64 * i + 4)[0] for i in range(count)]
    assert 6 in kinds, "the dynamic section"
    assert 2 not in kinds, "the table of symbols"


def test_relocating_again_replaces_the_path(program):
    once = elf.relocatable(program, "$ORIGIN/a")
    twice = elf.relocatable(once, "$ORIGIN/b")
    assert elf.read(twice).search == "$ORIGIN/b"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: b"#!/bin/sh\n", "no ELF"),
        (lambda d: d[:4] + b"\x01" + d[5:], "64-bit"),
        (lambda d: d[:60], "cut short"),
        (lambda d: d[:200], "cut short"),
    ],
)
def test_what_is_no_such_file_is_said(program, change, why):
    with pytest.raises(elf.NotElf, match=why):
        elf.read(change(program))


def test_a_table_without_room_is_said(program):
    image = elf._Image(bytearray(program))
    crowded = bytearray(program)
    filler = struct.pack("<QQ", 0x6000000D, 0)  # a tag nobody reads
    for at in range(16 * len(image.entries), image.dynamic.in_file - 16, 16):
        crowded[image.dynamic.offset + at : image.dynamic.offset + at + 16] = filler
    # Neither a path to replace nor a count to give up.
    for i, (tag, _) in enumerate(image.entries):
        if tag in (elf.RPATH, elf.RUNPATH, elf.RELACOUNT, elf.RELCOUNT):
            at = image.dynamic.offset + 16 * i
            crowded[at : at + 16] = filler
    with pytest.raises(elf.NotElf, match="no room"):
        elf.relocatable(bytes(crowded), "$ORIGIN")
