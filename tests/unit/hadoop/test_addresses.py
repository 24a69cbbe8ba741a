import pytest

from dromon.hadoop.addresses import Address, NameNode, name_service, parse, resource_managers
from dromon.hadoop.site import Site, SiteFileError

RM = "yarn.resourcemanager"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("rm", Address("rm", 8032)),
        ("rm:9", Address("rm", 9)),
        (" rm.example.org:8032 ", Address("rm.example.org", 8032)),
        ("0.0.0.0:8032", Address("127.0.0.1", 8032)),
        ("[::1]:8032", Address("::1", 8032)),
    ],
)
def test_addresses_are_read(text, address):
    assert parse(text, 8032) == address


@pytest.mark.parametrize(
    "text", ["", ":8032", "rm:x", "rm:99999999", "http://rm:8088", "[::1", "a/b"]
)
def test_what_is_no_address_is_named(text):
    with pytest.raises(SiteFileError, match="is no address"):
        parse(text, 8032)


def test_an_address_of_ipv6_is_written_with_brackets():
    assert str(Address("::1", 8032)) == "[::1]:8032"
    assert str(Address("rm", 8032)) == "rm:8032"


def test_one_resource_manager_by_its_host_name():
    (found,) = resource_managers(Site({f"{RM}.hostname": "rm"}))
    assert found.client == ("rm", 8032)
    assert found.scheduler == ("rm", 8030)
    assert found.web == "http://rm:8088"
    assert found.id == ""


def test_one_resource_manager_by_its_client_address_alone():
    (found,) = resource_managers(Site({f"{RM}.address": "rm:9032"}))
    assert (found.client, found.scheduler) == (("rm", 9032), ("rm", 8030))
    assert found.web == "http://rm:8088"


def test_addresses_for_all_interfaces_mean_the_host():
    properties = {f"{RM}.hostname": "rm", f"{RM}.webapp.address": "0.0.0.0:88"}
    assert resource_managers(Site(properties))[0].web == "http://rm:88"


def test_a_resource_manager_of_ipv6():
    (found,) = resource_managers(Site({f"{RM}.address": "[fd00::1]:8032"}))
    assert found.web == "http://[fd00::1]:8088"


def test_two_resource_managers_by_ids_addresses_before_host_names():
    site = Site(
        {
            f"{RM}.ha.enabled": "true",
            f"{RM}.ha.rm-ids": "rm1, rm2",
            f"{RM}.hostname.rm1": "a",
            f"{RM}.hostname.rm2": "b",
            f"{RM}.address.rm2": "c:1",
            f"{RM}.scheduler.address.rm2": "${yarn.resourcemanager.hostname.rm2}:2",
            "yarn.http.policy": "HTTPS_ONLY",
            f"{RM}.webapp.https.address.rm1": "a:443",
        }
    )
    first, second = resource_managers(site)
    assert (first.id, first.client, first.scheduler) == ("rm1", ("a", 8032), ("a", 8030))
    assert (second.id, second.client, second.scheduler) == ("rm2", ("c", 1), ("b", 2))
    assert (first.web, second.web) == ("https://a:443", "https://b:8090")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "neither yarn.resourcemanager.hostname nor yarn.resourcemanager.address is set"),
        ({f"{RM}.ha.enabled": "true"}, "rm-ids is empty"),
        ({f"{RM}.ha.enabled": "true", f"{RM}.ha.rm-ids": "x"}, "hostname.x nor"),
        ({f"{RM}.hostname": "http://rm"}, "is no address"),
    ],
)
def test_a_site_without_a_resource_manager_says_what_is_missing(properties, words):
    with pytest.raises(SiteFileError, match=words):
        resource_managers(Site(properties))


def test_a_name_node_named_directly():
    found = name_service(Site({"fs.defaultFS": "hdfs://nn:9000"}))
    assert found.nodes == (NameNode("", Address("nn", 9000), "http://nn:9870"),)
    assert (found.name, found.logical, found.token_service) == ("nn:9000", False, "")
    site = Site({"fs.defaultFS": "hdfs://nn/", "dfs.namenode.http-address": "0.0.0.0:1"})
    assert name_service(site).nodes == (NameNode("", Address("nn", 8020), "http://nn:1"),)


HA = {
    "fs.defaultFS": "hdfs://prod",
    "dfs.nameservices": "prod,lone",
    "dfs.ha.namenodes.prod": "nn1,nn2",
    "dfs.namenode.rpc-address.prod.nn1": "a:8020",
    "dfs.namenode.rpc-address.prod.nn2": "b:8020",
    "dfs.namenode.http-address.prod.nn1": "a:9871",
    "dfs.namenode.rpc-address.lone": "c:8020",
}


def test_a_nameservice_with_two_name_nodes():
    found = name_service(Site(HA))
    assert found.logical
    assert found.token_service == "ha-hdfs:prod"
    assert found.nodes == (
        NameNode("nn1", Address("a", 8020), "http://a:9871"),
        NameNode("nn2", Address("b", 8020), "http://b:9870"),
    )


def test_a_nameservice_of_one_name_node_and_a_cluster_that_is_not_ours():
    assert name_service(Site(HA), "hdfs://lone/x").nodes[0].rpc == ("c", 8020)
    other = name_service(Site(HA), "hdfs://other:1/x")
    assert other.nodes[0].rpc == ("other", 1)


def test_webhdfs_over_tls():
    site = Site({**HA, "dfs.http.policy": "HTTPS_ONLY"})
    assert [node.web for node in name_service(site).nodes] == ["https://a:9871", "https://b:9871"]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "file:/// is not on HDFS"),
        ({"fs.defaultFS": "s3a://bucket"}, "s3a://bucket is not on HDFS"),
        ({"fs.defaultFS": "hdfs:///"}, "is not on HDFS"),
        ({**HA, "dfs.ha.namenodes.prod": "nn3"}, "dfs.namenode.rpc-address.prod.nn3 is not set"),
    ],
)
def test_a_site_without_hdfs_says_so(properties, words):
    with pytest.raises(SiteFileError, match=words):
        name_service(Site(properties))
