"""HDFS by both ways, hdfs-native and WebHDFS: one contract, on a real NameNode and DataNode."""

import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbeds.yarn.bed import Bed

from dromon.hadoop import site
from dromon.hadoop.hdfsfaults import (
    AlreadyThere,
    HdfsError,
    NoDataNode,
    NoPermission,
    NotThere,
    SafeMode,
)
from dromon.storage.hdfs import NATIVE, WEB, Hdfs
from dromon.storage.native import acts_as
from faults import ENTER, LEAVE, safe_mode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def load(bed: Bed) -> site.Site:
    files = {path.name: path.read_text() for path in Path(bed.plan.conf()).glob("*.xml")}
    return site.load(files, dict(os.environ), {})


def connect(bed: Bed, way: str, user: str = "", patience: float = 30.0) -> Hdfs:
    return Hdfs.connect(load(bed), user or acts_as(), way=way, patience=patience)


@pytest.fixture(params=[NATIVE, WEB])
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def hdfs(bed: Bed, way: str) -> Hdfs:
    return connect(bed, way)


@pytest.fixture
def place(bed: Bed) -> Iterator[str]:
    """A directory of the test's own."""
    hdfs, path = connect(bed, WEB), f"/tmp/test-{secrets.token_hex(4)}"
    hdfs.make_directory(path, "755")
    yield path
    hdfs.delete(path)


def test_what_was_written_is_read_in_whole_and_in_part(hdfs: Hdfs, place: str):
    hdfs.write(f"{place}/a", b"0123456789")
    assert hdfs.read(f"{place}/a") == b"0123456789"
    assert hdfs.read(f"{place}/a", 3, 4) == b"3456"
    assert hdfs.read(f"{place}/a", 8, 100) == b"89"
    assert hdfs.read(f"{place}/a", 10) == hdfs.read(f"{place}/a", 11, 5) == b""


def test_an_empty_file_is_a_file(hdfs: Hdfs, place: str):
    hdfs.write(f"{place}/empty", b"")
    status = hdfs.stat(f"{place}/empty")
    assert status is not None
    assert status.length == 0
    assert not status.is_directory
    assert hdfs.read(f"{place}/empty") == b""
    assert hdfs.open(f"{place}/empty").read() == b""


def test_a_file_that_grew_is_read_on_from_where_it_ended(hdfs: Hdfs, place: str):
    hdfs.write(f"{place}/log", b"one\n")
    assert hdfs.read(f"{place}/log", 4) == b""
    hdfs.write(f"{place}/log", b"one\ntwo\n")
    assert hdfs.read(f"{place}/log", 4) == b"two\n"


def test_only_the_first_of_two_exclusive_writers_wins(hdfs: Hdfs, place: str):
    hdfs.write(f"{place}/claim", b"mine", overwrite=False)
    with pytest.raises(AlreadyThere):
        hdfs.write(f"{place}/claim", b"his", overwrite=False)
    assert hdfs.read(f"{place}/claim") == b"mine"


def test_a_writer_whose_directory_is_gone_is_fenced_off(hdfs: Hdfs, place: str):
    hdfs.make_directory(f"{place}/record")
    hdfs.write(f"{place}/record/1", b"x", make_parents=False)
    hdfs.rename(f"{place}/record", f"{place}/taken")
    with pytest.raises(NotThere):
        hdfs.write(f"{place}/record/2", b"x", make_parents=False)
    assert hdfs.stat(f"{place}/record") is None


def test_renaming_replaces_only_where_it_is_told_to(hdfs: Hdfs, place: str):
    hdfs.write(f"{place}/a", b"a")
    hdfs.write(f"{place}/b", b"b")
    assert not hdfs.rename(f"{place}/a", f"{place}/b")
    assert hdfs.read(f"{place}/b") == b"b"
    assert hdfs.rename(f"{place}/a", f"{place}/b", overwrite=True)
    assert hdfs.read(f"{place}/b") == b"a"
    assert not hdfs.rename(f"{place}/a", f"{place}/c")
    assert not hdfs.rename(f"{place}/b", f"{place}/no/where")


def test_names_modes_and_times_are_as_they_were_set(hdfs: Hdfs, place: str):
    hdfs.make_directory(f"{place}/d", "700")
    hdfs.write(f"{place}/f", b"abc", permission="640")
    hdfs.set_times(f"{place}/f", 1_000_000_000_123)
    hdfs.set_permission(f"{place}/f", "604")
    (d, directory), (f, file) = hdfs.list(place)
    assert (d, directory.kind, directory.permission) == ("d", "DIRECTORY", "700")
    assert (f, file.kind, file.permission, file.length) == ("f", "FILE", "604", 3)
    assert file.mtime == 1_000_000_000_123
    assert file.atime > 1_700_000_000_000
    assert file.owner == acts_as()
    assert hdfs.stat(f"{place}/f") == file
    assert hdfs.list(f"{place}/d") == []
    with pytest.raises(NotThere):
        hdfs.list(f"{place}/nowhere")
    assert hdfs.delete(f"{place}/d")
    assert not hdfs.delete(f"{place}/d")


def test_a_large_file_goes_there_and_back_in_a_stream(hdfs: Hdfs, place: str, tmp_path: Path):
    data = os.urandom(1024 * 1024) * 9 + b"end"
    (tmp_path / "large").write_bytes(data)
    steps: list[tuple[int, int]] = []
    sent = hdfs.upload(
        tmp_path / "large", f"{place}/large", progress=lambda *step: steps.append(step)
    )
    assert sent == len(data)
    assert steps[-1] == (len(data), len(data))
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert len(steps) > 2
    with hdfs.open(f"{place}/large", 5) as file:
        assert file.read() == data[5:]
    assert hdfs.read(f"{place}/large", 2_000_000, 2_000_000) == data[2_000_000:4_000_000]


def test_the_way_that_is_used_is_said(bed: Bed, way: str):
    assert connect(bed, way).how == way
    assert connect(bed, "").how == "hdfs-native for large files, WebHDFS for the rest"
    assert connect(bed, "", "stranger").how == (
        f"WebHDFS (hdfs-native acts as {acts_as()}, not as stranger)"
    )


def test_where_webhdfs_does_not_answer_hdfs_native_does_all(bed: Bed, place: str):
    closed = load(bed).with_properties({"dfs.namenode.http-address": "127.0.0.1:1"})
    hdfs = Hdfs.connect(closed, acts_as(), patience=2)
    hdfs.write(f"{place}/a", b"x")
    assert hdfs.read(f"{place}/a") == b"x"
    assert hdfs.how == "hdfs-native (WebHDFS at http://127.0.0.1:1 does not answer)"


def test_what_belongs_to_another_is_refused_with_owner_and_mode(
    bed: Bed, way: str, place: str, monkeypatch: pytest.MonkeyPatch
):
    connect(bed, WEB).write(f"{place}/secret", b"x", permission="600")
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    stranger = connect(bed, way, "mallory", patience=1)
    with pytest.raises(NoPermission) as refused:
        stranger.read(f"{place}/secret")
    assert str(refused.value) == (
        f"Cannot read {place}/secret: mallory may not read {place}/secret,"
        f" which belongs to root:supergroup and is -rw-------."
    )
    with pytest.raises(NoPermission, match=f"mallory may not write {place}, which belongs to"):
        stranger.write(f"{place}/b", b"x")


def test_safe_mode_is_waited_for_and_then_said(bed: Bed, way: str, place: str):
    safe_mode(bed, ENTER)
    try:
        with pytest.raises(SafeMode, match="HDFS is in safe mode") as refused:
            connect(bed, way, patience=1).write(f"{place}/a", b"x")
        assert "leaves safe mode by itself" not in str(refused.value)
        assert refused.value.hint
        assert connect(bed, way, patience=1).stat(place) is not None
        threading.Timer(1.0, safe_mode, (bed, LEAVE)).start()
        connect(bed, way).write(f"{place}/b", b"x")
    finally:
        safe_mode(bed, LEAVE)
    assert connect(bed, way).read(f"{place}/b") == b"x"


def test_a_data_node_that_goes_during_an_upload_and_comes_back(
    bed: Bed, place: str, tmp_path: Path
):
    data = os.urandom(1024 * 1024) * 32
    (tmp_path / "large").write_bytes(data)
    connect(bed, WEB).write(f"{place}/there", b"x")
    begun = {way: threading.Event() for way in (NATIVE, WEB)}
    go_on = threading.Event()
    outcome: dict[str, object] = {}

    def upload(way: str) -> None:
        def progress(done: int, total: int) -> None:
            if done > total / 4:
                begun[way].set()
                go_on.wait()

        try:
            outcome[way] = connect(bed, way, patience=90).upload(
                tmp_path / "large", f"{place}/{way}", progress=progress
            )
        except HdfsError as error:
            outcome[way] = error

    uploads = [threading.Thread(target=upload, args=(way,)) for way in begun]
    for thread in uploads:
        thread.start()
    for event in begun.values():
        event.wait()
    bed.kill("datanode")
    go_on.set()
    try:
        with pytest.raises(NoDataNode, match=f"^Cannot write {place}/less"):
            connect(bed, WEB, patience=1).write(f"{place}/less", b"x")
        for way in begun:
            with pytest.raises(NoDataNode, match=f"^Cannot read {place}/there"):
                connect(bed, way, patience=1).read(f"{place}/there")
    finally:
        bed.start("datanode")
    for thread in uploads:
        thread.join()
    assert outcome == dict.fromkeys(begun, len(data))
    for way in begun:
        with connect(bed, way).open(f"{place}/{way}") as file:
            assert file.read() == data


def test_a_name_node_that_is_away_is_named_and_then_found_again(bed: Bed, place: str):
    ways = {way: connect(bed, way) for way in (NATIVE, WEB)}
    for way, hdfs in ways.items():
        hdfs.write(f"{place}/{way}", b"x")
    bed.kill("namenode")
    try:
        for way, port in ((NATIVE, "rpc"), (WEB, "web")):
            with pytest.raises(HdfsError, match=bed.plan.address("namenode", port)):
                connect(bed, way, patience=1).stat(place)
    finally:
        bed.start("namenode")
    for way in (WEB, NATIVE):  # a DataNode's first answer over HTTP is a failure
        assert ways[way].read(f"{place}/{way}") == b"x"
        ways[way].write(f"{place}/{way}", b"y")
        assert ways[way].read(f"{place}/{way}") == b"y"
