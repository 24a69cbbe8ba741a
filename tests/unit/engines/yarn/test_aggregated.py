"""The logs of a finished application: found wherever YARN puts them, read as our members' lines."""

import os
import sys
from pathlib import Path

import pytest

from dromon.agent.logfile import LINE_LIMIT, LogFile, index_of
from dromon.engines.base import LogLine
from dromon.engines.yarn import aggregated
from dromon.engines.yarn.aggregated import AggregatedLogs, NoLogs
from dromon.hadoop.extents import UnknownLogFormat
from dromon.hadoop.hdfsfaults import NoPermission, NotThere
from dromon.hadoop.site import Site
from dromon.observe.logs import Source

sys.path.insert(0, str(Path(__file__).parents[2] / "hadoop"))
import aggregated as written

ID = "application_1700000000000_0007"
USER = "ann"
PLACE = f"/tmp/logs/{USER}/bucket-logs-tfile/0007/{ID}"
NODE = "node1.example_45454"
SITE = Site({"yarn.log-aggregation-enable": "true"})


class Length:
    def __init__(self, length: int) -> None:
        self.length = length


class Disk:
    """A file system in memory, which counts what is read."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.forbidden = ""
        self.read_bytes = 0

    def list(self, path: str) -> list[tuple[str, Length]]:
        if self.forbidden and path.startswith(self.forbidden):
            raise NoPermission(f"bob may not list {path}")
        found = [
            (name.rpartition("/")[2], Length(len(data)))
            for name, data in self.files.items()
            if name.rpartition("/")[0] == path
        ]
        if not found:
            raise NotThere(path)
        return found

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        assert length is not None
        data = self.files[path][offset : offset + length]
        self.read_bytes += len(data)
        return data


@pytest.fixture
def disk() -> Disk:
    return Disk()


def container(number: int) -> str:
    return f"container_1700000000000_0007_01_{number:06d}"


def tfile(*containers: dict[str, bytes], compression: str = "none") -> bytes:
    records = [
        written.record(container(n), written.value(files)) for n, files in enumerate(containers, 1)
    ]
    return written.build([b"".join(records)], compression)


def member(name: str, tmp: Path, *segments: tuple[float, int, bytes], run: int = 0):
    """The two files that an agent leaves."""
    path = str(tmp / f"{name}.{run}.log")
    log = LogFile(path)
    log.append(list(segments))
    log.close()
    return {os.path.basename(p): Path(p).read_bytes() for p in (path, index_of(path))}


def logs(disk: Disk, site: Site = SITE) -> AggregatedLogs:
    return AggregatedLogs(disk, site, USER, ID)


def names(found: AggregatedLogs) -> set[tuple[str, int]]:
    return {(file.file, file.size) for file in found.files()}


OURS = tfile({"stdout": b"one\n"})


@pytest.mark.parametrize(
    ("place", "settings"),
    [
        (PLACE, {}),
        (f"/tmp/logs/{USER}/bucket-logs-ifile/0007/{ID}", {}),
        (f"/tmp/logs/{USER}/logs/{ID}", {}),
        (f"/tmp/logs/{USER}/logs-tfile/{ID}", {}),
        (f"/tmp/logs/{USER}/bucket-logs/0007/{ID}", {}),
        (f"/kept/{USER}/bucket-x-tfile/0007/{ID}",
         {"yarn.nodemanager.remote-app-log-dir": "hdfs://ns/kept/",
          "yarn.nodemanager.remote-app-log-dir-suffix": "x"}),
        (f"/own/{USER}/bucket-mine/0007/{ID}",
         {"yarn.log-aggregation.file-formats": "Fast,TFile",
          "yarn.log-aggregation.Fast.remote-app-log-dir": "/own",
          "yarn.log-aggregation.Fast.remote-app-log-dir-suffix": "mine"}),
    ],
)  # fmt: skip
def test_logs_are_found_in_every_place_yarn_puts_them(disk, place, settings):
    disk.files[f"{place}/{NODE}"] = OURS
    assert names(logs(disk, Site(settings))) == {("stdout", 4)}


def test_the_bucket_is_the_number_of_the_application_modulo_10000():
    found = AggregatedLogs(Disk(), SITE, USER, "application_1700000000000_123456")
    assert "/3456/application_1700000000000_123456" in found.directories()[0]


def test_uploads_in_progress_are_left_out_and_told(disk):
    disk.files[f"{PLACE}/{NODE}"] = OURS
    assert logs(disk).is_complete
    disk.files[f"{PLACE}/node2_45454.tmp"] = b"half"
    found = logs(disk)
    assert not found.is_complete
    assert names(found) == {("stdout", 4)}


def test_every_upload_of_a_rolling_node_is_read_and_the_longest_of_a_file_wins(disk, tmp_path):
    for time in ("1", "2"):
        files = member("worker-0", tmp_path, (1.0, 0, b"line\n"))  # appends: longer each time
        disk.files[f"{PLACE}/{NODE}_170000000000{time}"] = tfile(files)
    found = logs(disk)
    assert len(found.nodes()) == 2
    assert [line.text for line in found.lines([Source("worker-0", 0, 0)])] == ["line", "line"]


def test_of_an_appended_file_only_what_its_checksum_file_calls_good_is_read(disk):
    data = written.FILES["3.4.3", "appended", "gz"]
    first = data.index(data[:32], 32) + 32
    disk.files[f"{PLACE}/{NODE}_1"] = data[: first + 50]
    name = f"{NODE}_1".encode()
    disk.files[f"{PLACE}/{NODE}_1-checksum"] = (
        len(name).to_bytes(4, "big") + name + first.to_bytes(8, "big")
    )
    found = logs(disk)
    assert len(found.files()) == 5
    assert found.problems == []
    assert not found.is_complete


def test_only_the_owner_may_read_and_that_is_said(disk):
    disk.forbidden = f"/tmp/logs/{USER}"
    with pytest.raises(NoLogs, match="Only ann may read"):
        logs(disk).nodes()


def test_no_logs_are_a_sentence_that_says_why(disk):
    with pytest.raises(NoLogs, match="not uploaded yet, or deleted"):
        logs(disk).files()
    with pytest.raises(NoLogs, match="does not keep the logs"):
        logs(disk, Site({"yarn.log-aggregation-enable": "false"})).files()
    with pytest.raises(UnknownLogFormat, match="s3a://logs"):
        logs(disk, Site({"yarn.nodemanager.remote-app-log-dir": "s3a://logs/x"})).files()


def test_a_damaged_node_file_costs_no_other_nodes_logs(disk):
    disk.files[f"{PLACE}/node1_1"] = OURS[:-20]
    disk.files[f"{PLACE}/node2_1"] = OURS
    disk.files[f"{PLACE}/node3_1"] = b""
    found = logs(disk)
    assert names(found) == {("stdout", 4)}
    (problem,) = found.problems
    assert "node1_1" in problem


def test_a_container_log_streams_in_blocks(disk):
    body = os.urandom(9_000_000)
    disk.files[f"{PLACE}/{NODE}"] = tfile({"core": body})
    found = logs(disk)
    blocks = list(found.read(found.files()[0]))
    assert b"".join(blocks) == body
    assert max(map(len, blocks)) <= aggregated.BLOCK


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_members_lines_are_merged_by_time_with_rank_stream_and_run(disk, tmp_path, compression):
    disk.files[f"{PLACE}/node1_1"] = tfile(
        {**member("worker-0", tmp_path, (1.0, 0, b"a\nb\n"), (4.0, 1, b"oh")), "stdout": b"x"},
        compression=compression,
    )
    disk.files[f"{PLACE}/node2_1"] = tfile(
        member("worker-1", tmp_path, (2.0, 0, b"c\nd"), (3.0, 0, b"e\n"), run=2),
        compression=compression,
    )
    found = logs(disk)
    assert found.runs() == [("worker-0", 0), ("worker-1", 2)]
    sources = [Source("worker-0", 0, 0), Source("worker-1", 2, 1), Source("worker-2", 0, 2)]
    assert list(found.lines(sources)) == [
        LogLine(1.0, "worker-0", 0, "out", "a", 0),
        LogLine(1.0, "worker-0", 0, "out", "b", 0),
        LogLine(2.0, "worker-1", 1, "out", "c", 2),
        LogLine(3.0, "worker-1", 1, "out", "de", 2),
        LogLine(4.0, "worker-0", 0, "err", "oh", 0),
    ]


@pytest.mark.parametrize("plain", [True, False])
def test_texts_are_the_same_lines_as_bytes(disk, tmp_path, plain):
    segments = [
        (float(n), n // 50 % 2, b"caf\xe9 %d\n" % n if n % 7 else b"un") for n in range(500)
    ]
    disk.files[f"{PLACE}/{NODE}"] = tfile(member("worker-0", tmp_path, *segments))
    sources = [Source("worker-0", 0, 0)]
    lines = list(logs(disk).lines(sources))
    texts = list(logs(disk).lines(sources).texts(plain=plain))
    assert len(texts) < len(lines) if plain else len(texts) <= len(lines)
    for stream in ("out", "err"):
        joined = b"".join(text.data for text in texts if text.stream == stream)
        assert joined.decode("utf-8", "replace").splitlines() == [
            line.text for line in lines if line.stream == stream
        ]
    if not plain:
        assert [t.time for t in texts] == sorted(line.time for line in {
            (line.time, line.stream): line for line in lines}.values())  # fmt: skip


def test_a_log_without_an_index_is_still_told(disk):
    files = {"worker-0.0.log": (b"x" * 99 + b"\n") * 100_000 + b"end"}
    disk.files[f"{PLACE}/{NODE}"] = tfile(files)
    lines = list(logs(disk).lines([Source("worker-0", 0, 0)]))
    assert len(lines) == 100_001
    assert lines[-1].text == "end"


def test_an_endless_line_is_cut_and_not_held(disk, tmp_path):
    files = member("worker-0", tmp_path, *[(1.0, 0, b"y" * 100_000)] * 30)
    disk.files[f"{PLACE}/{NODE}"] = tfile(files)
    for plain in (True, False):
        texts = logs(disk).lines([Source("worker-0", 0, 0)]).texts(plain=plain)
        lines = b"".join(text.data for text in texts).split(b"\n")
        assert max(map(len, lines)) == LINE_LIMIT
        assert sum(map(len, lines)) == 3_000_000


def test_tail_and_since_read_little_of_a_large_log(disk, tmp_path):
    line = b"z" * 79 + b"\n"
    segments = [(float(n), 0, line * 100) for n in range(5000)]
    disk.files[f"{PLACE}/{NODE}"] = tfile(member("worker-0", tmp_path, *segments))
    found = logs(disk)
    sources = [Source("worker-0", 0, 0)]
    assert found.runs()
    for options, count in (({"tail": 10}, 10), ({"since": 4998.0}, 200),
                           ({"since": 4999.5, "tail": 10}, 0)):  # fmt: skip
        disk.read_bytes = 0
        assert len(list(found.lines(sources, **options))) == count
        assert disk.read_bytes < 10_000_000  # of 40 MB


def test_a_clock_that_was_set_back_loses_nothing(disk, tmp_path):
    a = member("a-0", tmp_path, (5.0, 0, b"a1\n"), (2.0, 0, b"a2\n"), (6.0, 0, b"a3\n"))
    b = member("b-0", tmp_path, (3.0, 0, b"b1\n"), (7.0, 0, b"b2\n"))
    disk.files[f"{PLACE}/{NODE}"] = tfile(a, b)
    lines = logs(disk).lines([Source("a-0", 0, 0), Source("b-0", 0, 1)])
    assert [line.text for line in lines] == ["b1", "a1", "a2", "a3", "b2"]


def test_many_members_are_merged_exactly_however_much_each_has(disk, tmp_path, monkeypatch):
    from dromon.observe import logs as observed

    monkeypatch.setattr(observed, "MOST", 0)  # the smallest pieces
    nodes = []
    for m in range(5):
        segments = [(n * 5.0 + m, 0, b"%07d\n" % (n * 5 + m) * 200) for n in range(300)]
        nodes.append(member(f"worker-{m}", tmp_path, *segments))
    disk.files[f"{PLACE}/{NODE}"] = tfile(*nodes)
    texts = logs(disk).lines([Source(f"worker-{m}", 0, m) for m in range(5)]).texts()
    assert [int(text.data[:7]) for text in texts] == list(range(1500))
