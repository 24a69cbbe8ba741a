"""WebHDFS against a NameNode and a DataNode that fail in every way that real ones do."""

import io
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_webhdfs import END_OF_FILE, SAFE_MODE, FakeWebHdfs, Fault

from dromon.hadoop.hdfsfaults import (
    AlreadyThere,
    HdfsError,
    HdfsUnreachable,
    NoDataNode,
    NoPermission,
    NoSpace,
    NotThere,
    SafeMode,
    explained,
)
from dromon.hadoop.webhdfs import WebHdfs


@pytest.fixture
def fake() -> Iterator[FakeWebHdfs]:
    with FakeWebHdfs() as fake:
        yield fake


@pytest.fixture
def hdfs(fake: FakeWebHdfs) -> Iterator[WebHdfs]:
    hdfs = WebHdfs([fake.url], "alice", patience=5)
    yield hdfs
    hdfs.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_bytes_go_by_way_of_the_data_node(fake: FakeWebHdfs, hdfs: WebHdfs):
    hdfs.write("/a b/c", b"hello")
    assert hdfs.read("/a b/c", 1, 3) == b"ell"
    assert fake.ops == ["CREATE", "CREATE at the DataNode", "OPEN", "OPEN at the DataNode"]
    assert {params["user.name"] for _, params in fake.asked} == {"alice"}


def test_a_token_travels_with_every_request_and_may_be_renewed(fake: FakeWebHdfs):
    hdfs = WebHdfs([fake.url], token="first")
    hdfs.make_directory("/d")
    hdfs.use("second")
    hdfs.write("/d/f", b"")
    assert [params["delegation"] for _, params in fake.asked] == ["first", "second", "second"]
    assert all("user.name" not in params for _, params in fake.asked)


def test_one_line_to_the_name_node_serves_many_requests(fake: FakeWebHdfs, hdfs: WebHdfs):
    for _ in range(5):
        assert hdfs.stat("/") is not None
        assert hdfs.stat("/nowhere") is None
    assert fake.connections == 1


def test_threads_share_it(hdfs: WebHdfs):
    def work(number: int) -> None:
        for turn in range(5):
            hdfs.write(f"/{number}/{turn}", f"{number}-{turn}".encode())
            assert hdfs.read(f"/{number}/{turn}") == f"{number}-{turn}".encode()

    failed: list[Any] = []
    threading.excepthook, before = failed.append, threading.excepthook
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.excepthook = before
    assert not failed
    assert len(hdfs.list("/5")) == 5


def test_the_active_one_of_two_name_nodes_is_found_and_kept(fake: FakeWebHdfs):
    with FakeWebHdfs() as standby:
        standby.standby = True
        hdfs = WebHdfs([f"http://127.0.0.1:{free_port()}", standby.url, fake.url], patience=5)
        hdfs.write("/a", b"x")
        assert hdfs.read("/a") == b"x"
        assert len(standby.asked) == 1


def test_where_nobody_answers_every_address_is_named():
    first, second = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    with pytest.raises(HdfsUnreachable) as refused:
        WebHdfs([first, second], patience=0.1).stat("/")
    assert first in str(refused.value)
    assert second in str(refused.value)


def test_what_each_data_node_says_once_after_a_restart_is_not_the_last_word(
    fake: FakeWebHdfs, hdfs: WebHdfs
):
    hdfs.write("/a", b"x")
    fake.faults = [Fault("OPEN", data=True, refusal=END_OF_FILE)]
    assert hdfs.read("/a") == b"x"
    fake.faults = [Fault("CREATE", data=True, refusal=END_OF_FILE)]
    hdfs.write("/b", b"y")
    assert hdfs.read("/b") == b"y"
    assert not fake.faults


def test_safe_mode_is_waited_for_and_then_said(fake: FakeWebHdfs, hdfs: WebHdfs):
    fake.faults = [Fault("MKDIRS", refusal=SAFE_MODE)]
    hdfs.make_directory("/d")
    fake.faults = [Fault("MKDIRS", refusal=SAFE_MODE) for _ in range(9)]
    with pytest.raises(SafeMode, match="Cannot make directory /e: HDFS is in safe mode"):
        WebHdfs([fake.url], patience=0.2).make_directory("/e")


def test_a_line_that_breaks_in_a_write_is_written_again(fake: FakeWebHdfs, hdfs: WebHdfs):
    fake.faults = [Fault("CREATE", data=True), Fault("CREATE")]
    hdfs.write("/a", io.BytesIO(b"0123456789"))
    assert hdfs.read("/a") == b"0123456789"
    excluded = [params.get("excludedatanodes") for op, params in fake.asked if op == "CREATE"]
    assert excluded == [None, None, "127.0.0.1"]


def test_a_stream_that_cannot_go_back_is_sent_whole_but_once(fake: FakeWebHdfs, hdfs: WebHdfs):
    def pipe(data: bytes) -> Any:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        return os.fdopen(reading, "rb")

    with pipe(b"hello") as stream:
        hdfs.write("/a", stream)
    assert hdfs.read("/a") == b"hello"
    fake.faults = [Fault("CREATE", data=True)]
    with pipe(b"hello") as stream, pytest.raises(NoDataNode, match="broke"):
        hdfs.write("/b", stream)
    assert hdfs.stat("/b") is None


def test_an_exclusive_write_whose_answer_was_lost_is_ours(fake: FakeWebHdfs, hdfs: WebHdfs):
    fake.faults = [Fault("CREATE", data=True, done=True)]
    hdfs.write("/claim", b"mine", overwrite=False)
    with pytest.raises(AlreadyThere):
        hdfs.write("/claim", b"mine", overwrite=False)


def test_an_exclusive_write_after_a_broken_line_is_not_ours_if_another_came(
    fake: FakeWebHdfs, hdfs: WebHdfs
):
    hdfs.write("/claim", b"his")
    fake.faults = [Fault("CREATE", data=True)]
    with pytest.raises(AlreadyThere):
        hdfs.write("/claim", b"mine", overwrite=False)


def test_what_was_done_although_the_answer_was_lost_counts_as_done(
    fake: FakeWebHdfs, hdfs: WebHdfs
):
    hdfs.write("/a", b"x")
    fake.faults = [Fault("RENAME", done=True)]
    assert hdfs.rename("/a", "/b")
    fake.faults = [Fault("RENAME", done=True)]
    assert hdfs.rename("/b", "/c", overwrite=True)
    fake.faults = [Fault("DELETE", done=True)]
    assert hdfs.delete("/c")
    assert not hdfs.delete("/c")


def test_a_stream_that_breaks_is_taken_up_where_it_was(fake: FakeWebHdfs, hdfs: WebHdfs):
    data = os.urandom(3_000_000)
    hdfs.write("/large", data)
    fake.faults = [Fault("OPEN", data=True, cut=1_000_000), Fault("OPEN", data=True, cut=7)]
    with hdfs.open("/large", 10) as stream:
        assert stream.read() == data[10:]
    offsets = [int(params["offset"]) for op, params in fake.asked if op == "OPEN at the DataNode"]
    assert offsets == [10, 1_000_010, 1_000_017]


def test_a_read_that_breaks_is_read_again(fake: FakeWebHdfs, hdfs: WebHdfs):
    hdfs.write("/a", b"0123456789")
    fake.faults = [Fault("OPEN", data=True, cut=4)]
    assert hdfs.read("/a") == b"0123456789"


def test_past_the_end_there_is_nothing_yet(hdfs: WebHdfs):
    hdfs.write("/a", b"abc")
    assert hdfs.read("/a", 3) == hdfs.read("/a", 30, 4) == hdfs.open("/a", 3).read() == b""
    hdfs.write("/a", b"abcdef")
    assert hdfs.read("/a", 3) == b"def"


def test_without_its_directory_a_write_is_fenced_off(hdfs: WebHdfs):
    with pytest.raises(NotThere, match="Parent directory"):
        hdfs.write("/gone/1", b"", make_parents=False)


def test_what_is_no_webhdfs_is_told_so():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            line.recv(65536)
            line.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>")
            line.close()

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(HdfsUnreachable, match="answers 404, but not as WebHDFS does"):
            WebHdfs([url], patience=0.1).stat("/")


@pytest.mark.parametrize(
    ("exception", "text", "kind", "words"),
    [
        (
            "org.apache.hadoop.security.AccessControlException",
            'Permission denied: user=al, access=WRITE, inode="/user":root:staff:drwxr-xr-x\n\tat a',
            NoPermission,
            "Cannot write /user/al: al may not write /user, which belongs to root:staff and is"
            " drwxr-xr-x.",
        ),
        (
            "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException",
            "The DiskSpace quota of /user/al is exceeded: quota = 1 MB\n\tat b",
            NoSpace,
            "Cannot write /user/al: The DiskSpace quota of /user/al is exceeded: quota = 1 MB",
        ),
        (
            "java.io.IOException",
            "File /user/al could only be written to 0 of the 1 minReplication nodes. There are 0"
            " datanode(s) running\n\tat c",
            NoDataNode,
            "Cannot write /user/al: File /user/al could only be written to 0 of the 1"
            " minReplication nodes. There are 0 datanode(s) running",
        ),
        ("java.lang.Odd$Thing", "strange", HdfsError, "Cannot write /user/al: strange"),
    ],
)
def test_what_hdfs_refuses_is_said_in_one_line(
    exception: str, text: str, kind: type[HdfsError], words: str
):
    error = explained(exception, text, "write /user/al")
    assert type(error) is kind
    assert str(error) == words
    assert error.exception == exception.replace("$", ".").rpartition(".")[2]
