import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop.faults import CredentialsError, LocalProtocolError
from dromon.hadoop.writable import Reader, sized, text, vint

# As Hadoop's WritableUtils writes them.
NUMBERS = {
    0: "00", 1: "01", 127: "7f", 128: "8f80", -1: "ff", -112: "90", -113: "8770", -114: "8771",
    255: "8fff", 256: "8e0100", 65535: "8effff", 2147483648: "8c80000000",
    (1 << 63) - 1: "887fffffffffffffff", -(1 << 63): "807fffffffffffffff",
}  # fmt: skip


@pytest.mark.parametrize(("value", "wire"), NUMBERS.items())
def test_numbers_have_hadoops_bytes(value, wire):
    assert vint(value) == bytes.fromhex(wire)
    assert Reader(bytes.fromhex(wire)).vint() == value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_number_comes_back(value):
    assert Reader(vint(value)).vint() == value


@given(st.binary(), st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_and_text_stand_one_after_the_other(data, words):
    reader = Reader(sized(data) + text(words) + b"rest")
    assert (reader.sized(), reader.text(), reader.take(4)) == (data, words, b"rest")


@pytest.mark.parametrize("wire", ["", "8f", "05616263", "ff", "8c80000000"])
def test_a_thing_that_is_not_all_there_is_damaged(wire):
    with pytest.raises(CredentialsError):
        Reader(bytes.fromhex(wire)).sized()


def test_what_does_not_fit_is_our_mistake():
    with pytest.raises(LocalProtocolError):
        vint(1 << 63)
    with pytest.raises(LocalProtocolError):
        text("\ud800")
