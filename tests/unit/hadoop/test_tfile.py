"""TFiles against what Hadoop's own classes wrote: what is left of them when they
are damaged."""

import random
import zlib
from contextlib import suppress

import pytest
from aggregated import FILES, LOGS, at, build, contents, java, number, record, value
from hypothesis import given, settings
from hypothesis import strategies as st

from dromon.errors import EngineError
from dromon.hadoop import extents, tfile
from dromon.hadoop.extents import Cursor, DamagedLog, Entry, Held, Inflated, UnknownLogFormat

TFILES = [key for key in FILES if key[1] == "tfile"]
relaxed = settings(max_examples=200, deadline=None)


def listed(data: bytes) -> list[Entry]:
    return list(tfile.entries(at(data), len(data)))


@pytest.mark.parametrize("key", TFILES)
@pytest.mark.parametrize("step", [1, 7, 1000, 1 << 20])
def test_logs_of_every_release_come_back_in_pieces_of_any_size(key, step):
    assert contents(listed(FILES[key]), step) == LOGS


@pytest.mark.parametrize("key", TFILES)
def test_bodies_may_be_read_in_any_order(key):
    found = {(entry.container, entry.file): entry.body for entry in listed(FILES[key])}
    chance = random.Random(1)
    for _ in range(200):
        name = chance.choice(list(found))
        start, size = chance.randrange(3000), chance.randrange(3000)
        assert found[name].read_at(start, size) == LOGS[name][start : start + size]


def like_yarn(files: dict[str, bytes]) -> bytes:
    """Chunks as YARN makes them: all alike inside of a file, and another where one ends."""
    alike, chunks, held = 100_003, [], b""
    for name, data in files.items():
        held += java(name) + java(str(len(data)))
        at, room = 0, alike - len(held) % 77 if len(held) < alike - 77 else len(held) + 5
        while len(held) + len(data) - at > room:
            piece = held + data[at : at + room - len(held)]
            at += room - len(held)
            chunks.append(number(-len(piece)) + piece)
            room, held = alike, b""
        held += data[at:]
    key = java("container_1")
    return number(len(key)) + key + b"".join(chunks) + number(len(held)) + held


def test_listing_reads_no_body_and_not_the_header_of_every_chunk():
    chance = random.Random(4)
    files = {name: chance.randbytes(size) for name, size in
             (("a", 4_000_000), ("b", 300_000), ("c", 6_000_000), ("d", 5))}  # fmt: skip
    data = build([like_yarn(files)])
    read = []

    def counting(offset: int, length: int) -> bytes:
        read.append(length)
        return data[offset : offset + length]

    found = list(tfile.entries(counting, len(data)))
    assert sum(read) < 200_000
    assert len(read) < 60  # of more than 100 chunks
    assert contents(found, 400_000) == {("container_1", name): d for name, d in files.items()}
    (third,) = (entry.body for entry in found if entry.file == "c")
    for start in (5_999_000, 7, 3_000_000):
        assert third.read_at(start, 300_000) == files["c"][start : start + 300_000]


@relaxed
@given(
    st.lists(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="/\0"),
                                     min_size=1, max_size=9), st.binary(max_size=300),
                             max_size=3), max_size=4),
    st.integers(1, 64), st.integers(1, 500), st.sampled_from(["none", "gz"]),
)  # fmt: skip
def test_whatever_is_written_comes_back(containers, chunk, step, compression):
    records = [record(f"container_{n}", value(files), chunk) for n, files in enumerate(containers)]
    half = len(records) // 2
    blocks = [b"".join(part) for part in (records[:half], records[half:]) if part]
    wanted = {
        (f"container_{n}", name): data
        for n, files in enumerate(containers)
        for name, data in files.items()
    }
    assert contents(listed(build(blocks, compression)), step) == wanted


def test_any_number_of_tiny_chunks_costs_the_same_memory():
    body = random.Random(2).randbytes(100_000)
    (entry,) = listed(build([record("container_1", value({"log": body}), chunk=3)]))
    assert len(entry.body._whole._runs) <= tfile.Value.RUNS  # type: ignore[attr-defined]
    assert entry.body.read_at(0, len(body)) == body
    for start in (99_000, 5, 60_001):
        assert entry.body.read_at(start, 50) == body[start : start + 50]


def test_inflated_bytes_are_entered_at_a_mark_and_marks_stay_few(monkeypatch):
    monkeypatch.setattr(extents, "MARK_STRIDE", 1000)
    data = random.Random(3).randbytes(50_000) * 4
    packed = zlib.compress(data[:70_000]) + zlib.compress(data[70_000:])
    inflated = Inflated(Held(packed), len(data))
    assert b"".join(inflated.read_at(at, 500) for at in range(0, len(data), 500)) == data
    assert 3 < len(inflated._marks) <= extents.MARKS
    for start in (190_000, 100, 69_990, 120_000):
        for reader in (inflated, inflated.twin()):
            assert reader.read_at(start, 3000) == data[start : start + 3000]


def test_a_little_that_inflates_to_a_lot_is_inflated_as_far_as_it_is_asked_for():
    packed = zlib.compress(bytes(50_000_000))
    assert Inflated(Held(packed), 1 << 40).read_at(10, 20) == bytes(20)


NUMBERS = {
    0: "00", 1: "01", 127: "7f", 128: "cc80", -1: "ff", -32: "e0", -33: "cbdf", -1000: "c818",
    2047: "d3ff", 5119: "dfff", 5120: "a81400", -5120: "b800", -5121: "a7ebff", 100000: "a986a0",
    1048575: "b7ffff", 1048576: "90100000", -1048577: "8fefffff", 134217727: "97ffffff",
    134217728: "8308000000", -134217729: "83f7ffffff", -(1 << 31): "8380000000",
    1 << 31: "840080000000", -(1 << 40): "85ff0000000000", (1 << 48) + 5: "8601000000000005",
    (1 << 63) - 1: "877fffffffffffffff", -(1 << 63): "878000000000000000",
}  # fmt: skip


@pytest.mark.parametrize(("value", "written"), NUMBERS.items())
def test_numbers_are_read_as_hadoops_own_class_writes_them(value, written):
    assert Cursor(Held(bytes.fromhex(written))).number() == value


@pytest.mark.parametrize("key", TFILES)
def test_a_file_cut_anywhere_is_one_clear_error(key):
    data = FILES[key]
    for length in range(0, len(data), 3):
        with pytest.raises(DamagedLog):
            listed(data[:length])


@relaxed
@given(st.sampled_from(TFILES), st.integers(0, 1 << 20), st.integers(0, 7), st.integers(1, 900))
def test_flipped_bits_never_end_in_anything_but_logs_or_one_error(key, place, bit, step):
    data = bytearray(FILES[key])
    data[place % len(data)] ^= 1 << bit
    with suppress(EngineError):
        found = contents(listed(bytes(data)), step)
        assert sum(map(len, found.values())) <= 100 * len(data)


@relaxed
@given(st.binary(max_size=400))
def test_noise_inside_a_block_never_ends_in_anything_but_logs_or_one_error(noise):
    for block in (noise, record("container_1", noise)):
        with suppress(EngineError):
            contents(listed(build([block])))


def test_an_unfinished_file_another_version_and_lzo_are_told_apart():
    good = build([record("container_1", value({"log": b"text"}))])
    with pytest.raises(DamagedLog, match="did not finish"):
        listed(good[:-16] + bytes(16))
    with pytest.raises(UnknownLogFormat, match="version 2"):
        listed(good[:-20] + b"\0\2\0\0" + tfile.MAGIC)
    with pytest.raises(UnknownLogFormat, match="LZO"):
        listed(build([record("container_1", b"")], "lzo"))
    with pytest.raises(DamagedLog, match="no TFile"):
        listed(b"plain text, and enough of it to be anything at all")


def test_blocks_that_overlap_are_not_believed():
    block = record("container_1", value({"log": b"text"}))
    one = build([block])
    index = b"\x04none\x02" + (number(16) + number(len(block)) * 2) * 2
    meta = b"\x01\x11data:BCFile.index\x04none" + number(len(one)) + number(len(index)) * 2
    tail = (len(one) + len(index)).to_bytes(8, "big") + b"\0\1\0\0" + tfile.MAGIC
    with pytest.raises(DamagedLog, match="not in the file"):
        listed(one + index + meta + tail)
