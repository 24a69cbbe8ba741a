"""What travels in credentials, and what of it members get."""

import pytest

from dromon.engines.yarn.am import secrets
from dromon.hadoop import credentials as hadoop_credentials
from dromon.hadoop import token
from dromon.hadoop.credentials import Credentials
from dromon.hadoop.token import Token

HDFS = Token(b"hdfs", b"password", token.HDFS_DELEGATION, "ha-hdfs:ns")
OTHER = Token(b"other", b"password", token.HDFS_DELEGATION, "10.0.0.9:8020")
MASTERS = Token(b"am", b"own", token.AM_RM)


@pytest.fixture
def container(tmp_path, monkeypatch):
    """The container whose credentials these are."""

    def become(data: bytes) -> secrets.Secrets:
        path = tmp_path / "container_tokens"
        path.write_bytes(data)
        monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(path))
        return secrets.load_secrets()

    return become


def test_key_and_values_arrive_as_they_were_sent(container):
    values = {"TOKEN": "canary", "EMPTY": "", "UNI": "schlüssel\n"}
    found = container(secrets.pack(b"the key", values, Credentials()))
    assert found.key == b"the key"
    assert found.supplied == values


def test_webhdfs_gets_the_default_name_nodes_token_whatever_order_yarn_gives_them(container):
    tokens = Credentials({OTHER.service: OTHER, HDFS.service: HDFS})
    marked = tokens.plus(secrets.default_token([HDFS, OTHER]))
    found = container(secrets.pack(b"k", {}, marked))
    assert found.hdfs_token == hadoop_credentials.to_url(HDFS)
    assert container(found.for_members()).hdfs_token == found.hdfs_token


def test_a_cluster_without_tokens_gives_none(container):
    assert container(secrets.pack(b"k", {}, Credentials())).hdfs_token == ""


def test_members_do_not_get_what_is_the_masters_alone(container):
    sent = hadoop_credentials.load(secrets.pack(b"k", {"A": "1"}, Credentials({"ns": HDFS})))
    master = container(hadoop_credentials.dump(sent.plus(Credentials({"": MASTERS}))))
    member = container(master.for_members())
    assert (member.key, member.supplied) == (b"k", {"A": "1"})
    assert member.credentials.of_kind(token.AM_RM) == []
    assert member.credentials.of_kind(token.HDFS_DELEGATION) == [HDFS]


def test_no_secret_shows_when_it_is_printed(container):
    found = container(secrets.pack(b"key-canary", {"A": "value-canary"}, Credentials()))
    assert "canary" not in repr(found)
