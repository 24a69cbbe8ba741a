"""Which way the client takes to HDFS, and what it says when there is none."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hadoop"))

from fake_webhdfs import FakeWebHdfs

from dromon.hadoop.addresses import name_service
from dromon.hadoop.hdfsfaults import HdfsUnreachable
from dromon.hadoop.site import Site
from dromon.storage.hdfs import LARGE, NATIVE, WEB, Hdfs
from dromon.storage.native import Native, acts_as, settings

CLOSED = "127.0.0.1:1"


def served(fake: FakeWebHdfs) -> Site:
    web = fake.url.removeprefix("http://")
    return Site({"fs.defaultFS": f"hdfs://{CLOSED}", "dfs.namenode.http-address": web})


PAIR = Site(
    {
        "fs.defaultFS": "hdfs://ns",
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a,b",
        "dfs.namenode.rpc-address.ns.a": "one:8020",
        "dfs.namenode.rpc-address.ns.b": "two:8020",
        "dfs.replication": "2",
    }
)


def test_hdfs_native_is_told_of_both_name_nodes_and_not_to_try_for_long():
    told = settings(PAIR, name_service(PAIR))
    assert told["dfs.nameservices"] == "ns"
    assert told["dfs.ha.namenodes.ns"] == "a,b"
    assert told["dfs.namenode.rpc-address.ns.b"] == "two:8020"
    assert told["dfs.replication"] == "2"
    assert int(told["dfs.client.failover.max.attempts"]) <= 2


@pytest.mark.parametrize("way", [NATIVE, WEB])
def test_a_name_node_that_is_down_is_named(way: str):
    site = Site({"fs.defaultFS": f"hdfs://{CLOSED}", "dfs.namenode.http-address": CLOSED})
    hdfs = Hdfs.connect(site, acts_as(), way=way, patience=0.1)
    with pytest.raises(HdfsUnreachable, match=f"NameNode.*{CLOSED}.*Connection refused"):
        hdfs.stat("/")


def test_small_files_go_over_webhdfs_and_hdfs_native_is_not_asked():
    with FakeWebHdfs() as fake:
        hdfs = Hdfs.connect(served(fake), acts_as(), patience=1)
        hdfs.write("/a", b"x")
        assert hdfs.read("/a") == b"x"
        assert hdfs.url == f"hdfs://{CLOSED}"
        hdfs.close()


def test_where_hdfs_native_reaches_nothing_webhdfs_takes_large_files_too(tmp_path: Path):
    (tmp_path / "large").write_bytes(bytes(LARGE) + b"end")
    steps: list[tuple[int, int]] = []
    with FakeWebHdfs() as fake:
        hdfs = Hdfs.connect(served(fake), acts_as(), patience=0.1)
        hdfs.upload(tmp_path / "large", "/large", progress=lambda *step: steps.append(step))
        assert steps[-1] == (LARGE + 3, LARGE + 3)
        assert hdfs.how == "WebHDFS (hdfs-native reaches no DataNode from here)"
        with hdfs.open("/large", LARGE) as stream:
            assert stream.read() == b"end"
        assert hdfs.read("/large", LARGE, LARGE) == b"end"
        hdfs.close()


def test_a_stream_that_hdfs_native_cannot_open_goes_on_over_webhdfs():
    with FakeWebHdfs() as fake:
        hdfs = Hdfs.connect(served(fake), acts_as(), patience=0.1)
        hdfs.write("/log", b"one\ntwo\n")
        with hdfs.open("/log", 4) as stream:
            assert list(stream) == [b"two\n"]
        hdfs.close()


def test_a_native_client_waits_no_longer_than_it_is_told():
    site = Site({"fs.defaultFS": f"hdfs://{CLOSED}"})
    with pytest.raises(HdfsUnreachable) as refused:
        Native(site, name_service(site), patience=0).list("/x")
    assert str(refused.value).startswith("Cannot list /x: the NameNode (127.0.0.1:1)")
    assert "Tried for" not in str(refused.value)
