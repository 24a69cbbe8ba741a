import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop.credentials import PROTOBUF, WRITABLE, Credentials, dump, load, to_url
from dromon.hadoop.faults import CredentialsError, LocalProtocolError
from dromon.hadoop.token import AM_RM, HDFS_DELEGATION, Token

# Written by Hadoop 3.5.0's own Credentials class, in its two formats.
AMRM = Token(bytes.fromhex("0a0d0a0908071080d095ffbc3110011001"), bytes(range(20)), AM_RM)
HDFS = Token(
    bytes.fromhex("0005616c696365047961726e056f6f7a69658a018bcfe568008a018bf3f1ec008e1267fd"),
    b"\xff\0",
    HDFS_DELEGATION,
    "ha-hdfs:näme",
)
SAMPLE = Credentials({"": AMRM, "ha-hdfs:näme": HDFS}, {"dromon": bytes(300)})
BY_JAVA = {
    WRITABLE: bytes.fromhex(
        "48445453000200110a0d0a0908071080d095ffbc311001100114000102030405060708090a0b0c0d0e0f1011"
        "1213105941524e5f414d5f524d5f544f4b454e000d68612d686466733a6ec3a46d65240005616c6963650479"
        "61726e056f6f7a69658a018bcfe568008a018bf3f1ec008e1267fd02ff0015484446535f44454c4547415449"
        "4f4e5f544f4b454e0d68612d686466733a6ec3a46d65010664726f6d6f6e8e012c"
    )
    + bytes(300),
    PROTOBUF: bytes.fromhex(
        "4844545301e0030a410a00123d0a110a0d0a0908071080d095ffbc3110011001121400010203040506070809"
        "0a0b0c0d0e0f101112131a105941524e5f414d5f524d5f544f4b454e22000a610a0d68612d686466733a6ec3"
        "a46d6512500a240005616c696365047961726e056f6f7a69658a018bcfe568008a018bf3f1ec008e1267fd12"
        "02ff001a15484446535f44454c45474154494f4e5f544f4b454e220d68612d686466733a6ec3a46d6512b702"
        "0a0664726f6d6f6e1aac02"
    )
    + bytes(300),
}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
tokens = st.builds(Token, st.binary(max_size=300), st.binary(max_size=30), text, text)
stored = st.builds(
    Credentials,
    st.dictionaries(text, tokens, max_size=4),
    st.dictionaries(text, st.binary(max_size=300), max_size=4),
)


@pytest.mark.parametrize("version", [WRITABLE, PROTOBUF])
def test_a_file_of_hadoops_is_read_and_written_again_byte_by_byte(version):
    assert load(BY_JAVA[version]) == SAMPLE
    assert dump(SAMPLE, version) == BY_JAVA[version]


@given(stored, st.sampled_from([WRITABLE, PROTOBUF]))
def test_what_is_written_is_read_back(credentials, version):
    assert load(dump(credentials, version)) == credentials


@given(st.binary(max_size=100), st.sampled_from([b"", b"HDTS", b"HDTS\0", b"HDTS\1"]))
def test_noise_is_credentials_or_a_credentials_error(noise, start):
    try:
        load(start + noise)
    except CredentialsError:
        pass


@pytest.mark.parametrize("version", [WRITABLE, PROTOBUF])
def test_a_file_cut_anywhere_is_damaged(version):
    for end in range(len(BY_JAVA[version])):
        with pytest.raises(CredentialsError):
            load(BY_JAVA[version][:end])


def test_other_files_and_other_formats_are_named():
    with pytest.raises(CredentialsError, match="does not begin with HDTS"):
        load(b"<xml/>")
    with pytest.raises(CredentialsError, match="unknown format 7"):
        load(b"HDTS\x07")
    with pytest.raises(LocalProtocolError, match="format 7"):
        dump(SAMPLE, 7)


def test_a_token_in_a_url_is_what_hadoop_makes_of_it():
    url = (
        "JAAFYWxpY2UEeWFybgVvb3ppZYoBi8_laACKAYvz8ewAjhJn_QL_ABVIREZTX0RFTEVHQVRJT05fVE9LRU4N"
        "aGEtaGRmczpuw6RtZQ"
    )
    assert to_url(HDFS) == url


def test_members_get_everything_but_the_masters_own_token():
    assert SAMPLE.of_kind(AM_RM) == [AMRM]
    assert SAMPLE.without(AM_RM) == Credentials({"ha-hdfs:näme": HDFS}, {"dromon": bytes(300)})


def test_two_sets_join_and_the_later_wins():
    later = Credentials({"": HDFS}, {"more": b"x"})
    assert SAMPLE.plus(later) == Credentials(
        {"": HDFS, "ha-hdfs:näme": HDFS}, {"dromon": bytes(300), "more": b"x"}
    )


def test_credentials_show_no_secret():
    assert "secret" not in repr(Credentials({"a": Token(b"i", b"secret", "k")}, {"b": b"secret"}))
