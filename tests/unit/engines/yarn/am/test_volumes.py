"""Volumes in a container: scratch of its own, one copy for all containers of a node."""

import os
import threading

import pytest

from dromon.engines.yarn.am import volumes

COPY = {"kind": "copy", "path": "hdfs:///data/ct", "mark": ""}
SCRATCH = {"kind": "scratch", "path": "", "mark": ""}


@pytest.fixture
def node(tmp_path, monkeypatch, hdfs):
    """A node with one application on it."""
    monkeypatch.setenv("LOCAL_DIRS", f"{tmp_path}/app,{tmp_path}/other")
    hdfs.write("/data/ct/a/1", b"one")
    hdfs.write("/data/ct/b", b"two")
    return tmp_path


def test_scratch_is_the_containers_own(node, hdfs):
    volumes.lay_out({"tmp": SCRATCH}, str(node / "c1"), hdfs)
    path = volumes.path_of("tmp", SCRATCH, str(node / "c1"))
    assert os.path.isdir(path)
    assert path.startswith(str(node / "c1"))


def test_a_copy_is_made_once_for_all_containers_of_the_node(node, hdfs, name_node):
    threads = [
        threading.Thread(target=volumes.lay_out, args=({"ct": COPY}, str(node / f"c{i}"), hdfs))
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    path = volumes.path_of("ct", COPY, str(node / "c1"))
    assert path == volumes.path_of("ct", COPY, str(node / "c2"))
    with open(f"{path}/a/1", "rb") as file:
        assert file.read() == b"one"
    assert name_node.ops.count("OPEN") == 2  # of two files, each once


def test_a_copy_is_read_only(node, hdfs):
    volumes.lay_out({"ct": COPY}, str(node / "c1"), hdfs)
    path = volumes.path_of("ct", COPY, str(node / "c1"))
    assert os.stat(f"{path}/b").st_mode & 0o777 == 0o444


def test_a_single_file_may_be_copied(node, hdfs):
    volume = {**COPY, "path": "hdfs:///data/ct/b"}
    volumes.lay_out({"f": volume}, str(node / "c1"), hdfs)
    with open(volumes.path_of("f", volume, str(node / "c1")), "rb") as file:
        assert file.read() == b"two"


def test_a_copy_that_was_cut_short_is_made_anew(node, hdfs):
    path = volumes.path_of("ct", COPY, str(node / "c1"))
    os.makedirs(f"{path}.partial/a")
    with open(f"{path}.partial/stale", "w") as file:
        file.write("half")
    volumes.lay_out({"ct": COPY}, str(node / "c1"), hdfs)
    assert sorted(os.listdir(path)) == ["a", "b"]


def test_what_is_not_on_hdfs_is_named(node, hdfs):
    with pytest.raises(FileNotFoundError, match="/data/none is not on HDFS"):
        volumes.lay_out({"x": {**COPY, "path": "hdfs:///data/none"}}, str(node / "c1"), hdfs)


def test_an_address_or_a_path_of_the_nodes_is_left_as_it_is(node, hdfs):
    volume = {"kind": "as it is", "path": "/mnt/shared", "mark": ""}
    volumes.lay_out({"x": volume}, str(node / "c1"), hdfs)
    assert volumes.path_of("x", volume, str(node / "c1")) == "/mnt/shared"
