import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop.faults import LocalProtocolError, ProtocolError, RemoteProtocolError
from dromon.hadoop.protobuf import (
    BOOL,
    BYTES,
    ENUM,
    FLOAT,
    INT32,
    INT64,
    SINT32,
    STRING,
    UINT32,
    UINT64,
    Record,
    Table,
    decode,
    delimited,
    encode,
    many,
    need,
    one,
    read_delimited,
)  # fmt: skip

INNER = Table("Inner", one(1, "a", INT32), many(2, "b", STRING))
EVERY = Table(
    "Every",
    one(1, "int32", INT32),
    one(2, "int64", INT64),
    one(3, "uint32", UINT32),
    one(4, "uint64", UINT64),
    one(5, "sint32", SINT32),
    one(6, "enum", ENUM),
    one(7, "bool", BOOL),
    one(8, "float", FLOAT),
    one(9, "string", STRING),
    one(10, "bytes", BYTES),
    one(11, "inner", INNER),
    many(12, "numbers", INT32),
    many(13, "inners", INNER),
    many(14, "floats", FLOAT),
    one(300, "late", INT32, -1000),
)
EVERY.extend(one(15, "again", EVERY))
NEEDY = Table("Needy", need(1, "x", INT32), one(2, "y", INT32))


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


text = st.text(st.characters(exclude_categories=["Cs"]))
inner = st.fixed_dictionaries(
    {}, optional={"a": whole(32), "b": st.lists(text, min_size=1, max_size=3)}
)
flat = {
    "int32": whole(32),
    "int64": whole(64),
    "uint32": st.integers(0, (1 << 32) - 1),
    "uint64": st.integers(0, (1 << 64) - 1),
    "sint32": whole(32),
    "enum": st.integers(-5, 50),
    "bool": st.booleans(),
    "float": st.floats(width=32, allow_nan=False),
    "string": text,
    "bytes": st.binary(),
    "inner": inner,
    "numbers": st.lists(whole(32), min_size=1, max_size=4),
    "inners": st.lists(inner, min_size=1, max_size=3),
    "floats": st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=3),
    "late": whole(32),
}
messages = st.recursive(
    st.fixed_dictionaries({}, optional=flat),
    lambda below: st.fixed_dictionaries({"again": below}, optional=flat),
    max_leaves=3,
)


@given(messages)
def test_what_is_written_is_read_back(message):
    assert decode(EVERY, encode(EVERY, message)) == message


@given(messages, st.binary(max_size=5))
def test_a_delimited_message_ends_where_it_says(message, rest):
    wire = delimited(EVERY, message)
    assert read_delimited(EVERY, b"xx" + wire + rest, 2) == (message, 2 + len(wire))


@given(st.binary(max_size=200))
def test_random_bytes_are_a_message_or_a_protocol_error(data):
    try:
        decode(EVERY, data)
    except RemoteProtocolError:
        pass


@given(messages, st.data())
def test_a_message_with_one_byte_changed_or_cut_is_read_or_a_protocol_error(message, draw):
    wire = bytearray(encode(EVERY, message))
    if wire:
        wire[draw.draw(st.integers(0, len(wire) - 1))] = draw.draw(st.integers(0, 255))
    for cut in (bytes(wire), bytes(wire[: len(wire) // 2])):
        try:
            decode(EVERY, cut)
        except ProtocolError:
            pass


@pytest.mark.parametrize(
    ("name", "value", "wire"),
    [
        ("int32", 150, "08 96 01"),
        ("int32", 0, "08 00"),
        ("int32", -1, "08 ff ff ff ff ff ff ff ff ff 01"),
        ("int32", -102, "08 9a ff ff ff ff ff ff ff ff 01"),
        ("int64", -(1 << 63), "10 80 80 80 80 80 80 80 80 80 01"),
        ("uint32", 4294967263, "18 df ff ff ff 0f"),
        ("uint64", (1 << 64) - 1, "20 ff ff ff ff ff ff ff ff ff 01"),
        ("sint32", -33, "28 41"),
        ("sint32", -(1 << 31), "28 ff ff ff ff 0f"),
        ("bool", True, "38 01"),
        ("float", 0.5, "45 00 00 00 3f"),
        ("string", "testing", "4a 07 74 65 73 74 69 6e 67"),
        ("string", "", "4a 00"),
        ("bytes", b"\xff", "52 01 ff"),
        ("inner", {"a": 150}, "5a 03 08 96 01"),
        ("inner", {}, "5a 00"),
        ("numbers", [1, 2], "60 01 60 02"),
        ("late", 1, "e0 12 01"),
    ],
)
def test_each_kind_has_its_bytes(name, value, wire):
    assert encode(EVERY, {name: value}) == bytes.fromhex(wire)
    assert decode(EVERY, bytes.fromhex(wire)) == {name: value}


def test_fields_go_out_in_the_order_of_their_numbers():
    assert encode(EVERY, {"late": 1, "int32": 1, "bool": None}) == bytes.fromhex("0801e01201")


def test_packed_lists_are_read_too_and_mixed_with_unpacked_ones():
    assert decode(EVERY, bytes.fromhex("620301027f6005")) == {"numbers": [1, 2, 127, 5]}
    assert decode(EVERY, bytes.fromhex("72080000003f0000803f")) == {"floats": [0.5, 1.0]}


@pytest.mark.parametrize(
    "unknown",
    [
        "a00601",
        "a1060102030405060708",
        "a2060161",
        "a50601020304",
        "a306 0801 ab06 0800 ac06 a406",  # a group that holds a number and a group
    ],
)
def test_unknown_fields_of_every_wire_type_are_skipped(unknown):
    assert decode(EVERY, bytes.fromhex(unknown + "0807")) == {"int32": 7}


def test_a_known_field_on_the_wrong_wire_type_is_skipped():
    assert decode(EVERY, bytes.fromhex("0a0161" + "4807" + "5801" + "1007")) == {"int64": 7}


def test_the_last_of_a_single_field_wins_and_messages_merge():
    wire = encode(EVERY, {"int32": 1, "inner": {"a": 1, "b": ["x"]}})
    wire += encode(EVERY, {"int32": 2, "inner": {"a": 2, "b": ["y"]}})
    assert decode(EVERY, wire) == {"int32": 2, "inner": {"a": 2, "b": ["x", "y"]}}


def test_numbers_wider_than_their_field_are_cut_as_java_cuts_them():
    assert decode(EVERY, bytes.fromhex("08ffffffff1f")) == {"int32": -1}
    assert decode(EVERY, bytes.fromhex("3802")) == {"bool": True}


def test_absent_fields_answer_their_default_but_are_not_there():
    record = decode(EVERY, b"")
    assert record == {}
    assert "late" not in record
    assert record.get("inner") is None
    assert (record["late"], record["int32"], record["string"], record["bool"]) == (-1000, 0, "", 0)
    assert record["numbers"] == []
    assert record["inner"]["b"] == []
    assert isinstance(record["again"]["again"], Record)
    with pytest.raises(KeyError):
        record["no such field"]


def test_text_that_is_not_utf8_does_not_lose_the_message():
    assert decode(EVERY, bytes.fromhex("4a0161" + "0801"))["string"] == "a"
    assert decode(EVERY, bytes.fromhex("4a02ff61" + "0801")) == {"string": "\ufffda", "int32": 1}


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        ("08", "middle of a number"),
        ("0880", "middle of a number"),
        ("08ffffffffffffffffffff01", "more than ten bytes"),
        ("4a05616263", "middle of a field"),
        ("4affffffffffffffff7f", "middle of a field"),
        ("45000000", "middle of a field"),
        ("0001", "a field numbered 0"),
        ("0c", "wire type 4"),
        ("0f", "wire type 7"),
        ("a3060801", "middle of a number"),
        ("a306ac06", "a group that ends as another one"),
    ],
)
def test_damage_is_named(wire, words):
    with pytest.raises(RemoteProtocolError, match=words):
        decode(EVERY, bytes.fromhex(wire))


def test_a_needed_field_that_is_missing_is_the_peers_fault_when_reading_and_ours_when_writing():
    with pytest.raises(RemoteProtocolError, match="Needy came without its 'x'"):
        decode(NEEDY, bytes.fromhex("1001"))
    with pytest.raises(LocalProtocolError, match="Needy needs 'x'"):
        encode(NEEDY, {"y": 1})


def test_messages_nest_a_hundred_deep_and_no_deeper():
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"again": deep}
    wire = encode(EVERY, deep)
    assert decode(EVERY, wire) == deep
    with pytest.raises(LocalProtocolError, match="more than 100 deep"):
        encode(EVERY, {"again": deep})
    size = len(wire)
    with pytest.raises(RemoteProtocolError, match="more than 100 deep"):
        decode(EVERY, b"\x7a" + bytes((size & 0x7F | 0x80, size >> 7)) + wire)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nope": 1}, "no field 'nope'"),
        ({"int32": 1 << 31}, "int32"),
        ({"uint32": -1}, "uint32"),
        ({"sint32": 1 << 31}, "sint32"),
        ({"int32": "1"}, "int32"),
        ({"string": b"x"}, "not text"),
        ({"string": "\ud800"}, "string"),
        ({"bytes": "x"}, "not bytes"),
        ({"float": 1e300}, "float"),
        ({"inner": 3}, "not a message"),
        ({"inners": {"a": 1}}, "takes a list"),
        ({"numbers": 3}, "takes a list"),
    ],
)
def test_values_that_do_not_fit_are_our_mistake_and_named(values, words):
    with pytest.raises(LocalProtocolError, match=words):
        encode(EVERY, values)
