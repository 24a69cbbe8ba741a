"""Where delegation tokens are filed: as Hadoop's own clients look them up."""

import pytest

from dromon.hadoop import delegation
from dromon.hadoop.addresses import name_service
from dromon.hadoop.site import Site
from dromon.hadoop.token import Token
from dromon.hadoop.transport import Unreachable

PAIR = Site(
    {
        "fs.defaultFS": "hdfs://ns",
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a,b",
        "dfs.namenode.rpc-address.ns.a": "one:8020",
        "dfs.namenode.rpc-address.ns.b": "two:8020",
    }
)
ALONE = Site({"fs.defaultFS": "hdfs://LocalHost:9000"})


def test_a_pair_of_name_nodes_has_one_logical_service():
    assert delegation.filed_under(name_service(PAIR)) == "ha-hdfs:ns"


def test_a_single_one_is_filed_by_its_address_or_by_name_where_the_site_says_so():
    assert delegation.filed_under(name_service(ALONE)) == "127.0.0.1:9000"
    assert delegation.filed_under(name_service(ALONE), use_ip=False) == "localhost:9000"
    assert delegation.uses_ip(ALONE)
    assert not delegation.uses_ip(Site({"hadoop.security.token.service.use_ip": "false"}))


def test_a_host_that_nobody_knows_is_named():
    with pytest.raises(Unreachable, match=r"nowhere\.invalid"):
        delegation.filed_under(name_service(Site({"fs.defaultFS": "hdfs://nowhere.invalid"})))


def test_tokens_are_kept_by_their_service():
    token = Token(b"id", b"pw", "HDFS_DELEGATION_TOKEN", "ha-hdfs:ns")
    assert delegation.credentials([token]).tokens == {"ha-hdfs:ns": token}
