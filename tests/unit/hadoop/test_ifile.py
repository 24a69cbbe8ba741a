"""IFiles against what Hadoop's own classes wrote: vectors/aggregated.txt; and what is left of them
when they are damaged."""

import struct
from contextlib import suppress

import pytest
from aggregated import FILES, LOGS, SECOND, at, contents
from hypothesis import given, settings
from hypothesis import strategies as st

from dromon.errors import EngineError
from dromon.hadoop import ifile, javaserial
from dromon.hadoop.extents import DamagedLog, Entry

IFILES = [key for key in FILES if key[1] == "ifile"]
APPENDED = ("3.4.3", "appended", "gz")
ID = "application_1700000000000_0007"
relaxed = settings(max_examples=200, deadline=None)


def listed(data: bytes, size: int | None = None) -> list[Entry]:
    return list(ifile.entries(at(data), len(data) if size is None else size, ID))


def index_of(data: bytes) -> bytes:
    length = int.from_bytes(data[-36:-32], "big")
    return data[-36 - length : -36]


def with_index(data: bytes, index: bytes) -> bytes:
    body = data[: -36 - len(index_of(data))]
    return body + index + len(index).to_bytes(4, "big") + data[-32:]


@pytest.mark.parametrize("key", IFILES)
@pytest.mark.parametrize("step", [1, 7, 1000, 1 << 20])
def test_logs_of_every_release_come_back_in_pieces_of_any_size(key, step):
    assert contents(listed(FILES[key]), step) == LOGS


def test_the_last_index_of_an_appended_file_has_the_older_uploads_too():
    found = listed(FILES[APPENDED])
    assert contents(found) == {**LOGS, (SECOND, "later"): b"second upload\n"}
    assert found[-1].file == "later"


def test_an_upload_that_broke_off_leaves_what_was_there_before():
    data = FILES[APPENDED]
    first = data.index(ifile.mark(ID), 32) + 32
    broken = data[: first + 100]
    with pytest.raises(DamagedLog, match="did not finish"):
        listed(broken)
    name, good = ifile.checksum(struct.pack(">i3sq", 3, b"n_1", first))
    assert (name, good) == ("n_1", first)
    assert contents(listed(broken, good)) == LOGS
    assert listed(broken, 0) == []


def test_a_torn_checksum_file_is_an_error():
    with pytest.raises(DamagedLog):
        ifile.checksum(b"\0\0\0\x05nod")


def test_a_file_of_another_application_is_refused():
    data = FILES[IFILES[0]]
    with pytest.raises(DamagedLog, match="no IFile of application_1_0001"):
        list(ifile.entries(at(data), len(data), "application_1_0001"))


def test_listing_reads_no_body():
    data = FILES["3.4.3", "ifile", "none"]
    read = []

    def counting(offset: int, length: int) -> bytes:
        read.append((offset, length))
        return data[offset : offset + length]

    list(ifile.entries(counting, len(data), ID))
    start = len(data) - 36 - len(index_of(data))
    assert all(offset == 0 or offset >= start for offset, _ in read)


@pytest.mark.parametrize("key", [*IFILES, APPENDED])
def test_a_file_cut_anywhere_is_one_clear_error(key):
    data = FILES[key]
    second = data.find(ifile.mark(ID), 32) + 32
    for length in range(1, len(data), 3):
        if length != second:
            with pytest.raises(DamagedLog):
                listed(data[:length])


@relaxed
@given(st.sampled_from(IFILES), st.integers(0, 1 << 20), st.integers(0, 7), st.integers(1, 900))
def test_flipped_bits_never_end_in_anything_but_logs_or_one_error(key, place, bit, step):
    data = bytearray(FILES[key])
    data[place % len(data)] ^= 1 << bit
    with suppress(EngineError):
        found = contents(listed(bytes(data)), step)
        assert sum(map(len, found.values())) <= 100 * len(data)


@relaxed
@given(st.lists(st.tuples(st.integers(0, 1 << 12), st.binary(min_size=1, max_size=4)), max_size=6))
def test_an_index_written_over_never_ends_in_anything_but_logs_or_one_error(changes):
    data = FILES["3.4.3", "ifile", "gz"]
    index = bytearray(index_of(data))
    for place, new in changes:
        place %= len(index)
        index[place : place + len(new)] = new
    with suppress(EngineError):
        contents(listed(with_index(data, bytes(index))))


@relaxed
@given(st.binary(max_size=200))
def test_noise_is_no_java_object(noise):
    for data in (noise, javaserial.HEADER + noise, javaserial.HEADER + b"sr" + noise):
        with suppress(DamagedLog):
            javaserial.loads(data)


LIST = (  # the class of an ArrayList, as Java describes it
    b"sr\x00\x13java.util.ArrayListx\x81\xd2\x1d\x99\xc7a\x9d\x03\x00\x01I\x00\x04sizexp"
)


def test_objects_nested_without_end_are_refused():
    with pytest.raises(DamagedLog, match="too deep"):
        javaserial.loads(javaserial.HEADER + (LIST + b"\0\0\0\1") * 5000)
    with pytest.raises(DamagedLog, match="too deep"):
        javaserial.loads(javaserial.HEADER + b"s" + b"r\x00\x01A\0\0\0\0\0\0\0\0\x02\0\0x" * 5000)


def test_a_class_that_is_its_own_parent_is_refused():
    own = b"sr\x00\x01A\0\0\0\0\0\0\0\0\x02\0\0xq\x00\x7e\x00\x00"
    with pytest.raises(DamagedLog, match="its own parent"):
        javaserial.loads(javaserial.HEADER + own)


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_an_array_is_not_longer_than_its_bytes(size):
    array = b"ur\x00\x02[J\0\0\0\0\0\0\0\0\x02\0\0xp" + struct.pack(">i", size)
    with pytest.raises(DamagedLog, match="does not fit"):
        javaserial.loads(javaserial.HEADER + array)


def test_numbers_strings_enums_and_shared_objects_of_java():
    """Two entries of the appended file share the strings that Java shared."""
    index = javaserial.loads(index_of(FILES[APPENDED]))
    assert index.fields["version"] == 1
    assert index.fields["nodeId"] == "node1.example:45454"
    assert index.fields["compressName"] == "gz"
    acls = [each for each in index.fields["acls"].written if not isinstance(each, bytes)]
    assert acls == ["VIEW_APP", "alice bob"]


def test_an_index_that_names_the_same_logs_over_and_over_is_refused():
    index = index_of(FILES["3.4.3", "ifile", "gz"])
    # The list of uploads ends where the next field, the node, begins: name the same upload again.
    end = index.rindex(b"xt\x00\x13node1.example")
    handle = next(number for number in range(500) if _refers_to_upload(index, end, number))
    again = b"q" + struct.pack(">i", javaserial.FIRST_HANDLE + handle)
    endless = index[:end] + again * 3000 + index[end:]
    with pytest.raises(DamagedLog, match="more logs than there is place for"):
        listed(with_index(FILES["3.4.3", "ifile", "gz"], endless))


def _refers_to_upload(index: bytes, end: int, number: int) -> bool:
    again = b"q" + struct.pack(">i", javaserial.FIRST_HANDLE + number)
    try:
        found = javaserial.loads(index[:end] + again + index[end:])
    except DamagedLog:
        return False
    last = found.fields["logMetas"].written[-1]
    return isinstance(last, javaserial.Instance) and last.kind.endswith("PerAggregationLogMeta")
