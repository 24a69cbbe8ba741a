import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop import token
from dromon.hadoop.identifiers import describe
from dromon.hadoop.token import Token

# Identifiers as Hadoop 3.5.0's own classes write them.
CASES = {
    token.AM_RM: (
        "0a0d0a0908071080d095ffbc3110011001",
        {"attempt": "appattempt_1700000000000_0007_000001", "key": 1},
    ),
    token.NODE_MANAGER: (
        "0a0d0a0908071080d095ffbc311001120b0a056e6f646531108ee3021a05616c6963652009",
        {
            "attempt": "appattempt_1700000000000_0007_000001",
            "node": "node1:45454",
            "user": "alice",
            "key": 9,
        },
    ),
    token.CONTAINER: (
        "0a16120d0a0908071080d095ffbc31100118918080808060120b6e6f6465313a34353435341a05616c696365"
        "222b08800810021a140a096d656d6f72792d6d621080081a024d6920001a0e0a0676636f72657310021a0020"
        "0028c09fbaffbc31300538ffcf95ffbc31420208014881d095ffbc315a0060026801700078ffffffffffffff"
        "ffff01",
        {
            "container": "container_e03_1700000000000_0007_01_000017",
            "node": "node1:45454",
            "user": "alice",
            "expires_ms": 1700000600000,
            "key": 5,
        },
    ),
    token.RM_DELEGATION: (
        "0a05616c69636512047961726e2080d095ffbc312880d8c79fbf31300c3802",
        {
            "owner": "alice",
            "renewer": "yarn",
            "real_user": "",
            "issued_ms": 1700000000000,
            "expires_ms": 1700604800000,
            "number": 12,
            "key": 2,
        },
    ),
    token.HDFS_DELEGATION: (
        "0005616c696365047961726e056f6f7a69658a018bcfe568008a018bf3f1ec008e1267fd",
        {
            "owner": "alice",
            "renewer": "yarn",
            "real_user": "oozie",
            "issued_ms": 1700000000000,
            "expires_ms": 1700604800000,
            "number": 4711,
            "key": -3,
        },
    ),
    "SOMETHING_ELSE": ("00ff", {"identifier": "2 bytes"}),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_token_tells_what_hadoop_wrote_into_it(kind):
    identifier, inside = CASES[kind]
    told = describe(Token(bytes.fromhex(identifier), b"p", kind, "host:1"))
    assert told == {"kind": kind, "service": "host:1", **inside}


@pytest.mark.parametrize("kind", CASES)
@given(noise=st.binary(max_size=40))
def test_a_damaged_token_is_described_and_never_an_error(kind, noise):
    assert describe(Token(noise, b"p", kind))["kind"] == kind


def test_a_token_that_makes_no_sense_says_so():
    told = describe(Token(b"\xff", b"p", token.AM_RM))
    assert told["identifier"] == "1 bytes that make no sense"
