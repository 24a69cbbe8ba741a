"""Lines of a job: while it runs, when it ends under our eyes, and long after."""

import os
import sys
from pathlib import Path

import pytest

from dromon.agent.logfile import LogFile, index_of
from dromon.engines.yarn.aggregated import AggregatedLogs
from dromon.engines.yarn.follow import Follower, Seen, Wanted, runs_of
from dromon.engines.yarn.live import Silent
from dromon.hadoop.hdfsfaults import NotThere
from dromon.hadoop.site import Site

sys.path.insert(0, str(Path(__file__).parents[2] / "hadoop"))
import aggregated as written

APP = "application_1700000000000_0007"
PLACE = f"/tmp/logs/al/bucket-logs-tfile/0007/{APP}"


class Node:
    """Where agents write, and YARN collects at the end."""

    def __init__(self, root):
        self.root = root
        self.open = {}
        self.silent = False

    def print(self, member, run, time, text, stream=0):
        path = str(self.root / f"{member}.{run}.log")
        log = self.open.setdefault((member, run), LogFile(path))
        log.append([(time, stream, text.encode())])

    def close(self):
        for log in self.open.values():
            log.close()

    def piece(self, name, offset):
        """As the master passes it on, 7 bytes at most."""
        if self.silent:
            raise Silent("gone")
        path = self.root / name
        if not path.exists():
            return None
        return path.read_bytes()[offset : offset + 7]

    def collected(self):
        files = {p.name: p.read_bytes() for p in sorted(self.root.iterdir())}
        record = written.record(f"container_{APP[12:]}_01_000002", written.value(files))
        return AggregatedLogs(
            Disk({f"{PLACE}/n1_1": written.build([record])}),
            Site({"yarn.log-aggregation-enable": "true"}), "al", APP,
        )  # fmt: skip


class Length:
    def __init__(self, length):
        self.length = length


class Disk:
    def __init__(self, files):
        self.files = files

    def list(self, path):
        found = [
            (name.rpartition("/")[2], Length(len(data)))
            for name, data in self.files.items()
            if name.rpartition("/")[0] == path
        ]
        if not found:
            raise NotThere(path)
        return found

    def read(self, path, offset=0, length=None):
        return self.files[path][offset : offset + length]


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    yield made
    made.close()


def follower(looks, collected=lambda: None, **wanted):
    """`looks`: what is seen, one after the other."""
    seen = iter(looks)
    return Follower(lambda: next(seen), collected, Wanted(**wanted))


def texts(lines):
    return [(line.member, line.run, line.rank, line.text) for line in lines]


RUNS = [("worker-0", 1, 0), ("worker-1", 1, 1)]


def test_what_has_been_printed_so_far_is_read_once(node):
    node.print("worker-0", 1, 1.0, "first\n")
    node.print("worker-1", 1, 2.0, "second\nthird\n")
    found = follower([Seen(False, RUNS, node)]).lines(follow=False)
    assert texts(found) == [
        ("worker-0", 1, 0, "first"), ("worker-1", 1, 1, "second"), ("worker-1", 1, 1, "third"),
    ]  # fmt: skip


def test_a_job_is_followed_to_its_last_line(node):
    node.print("worker-0", 1, 1.0, "one\n")

    def looks():
        yield Seen(False, RUNS[:1], node)
        node.print("worker-0", 1, 2.0, "two\n")
        yield Seen(False, RUNS[:1], node)
        node.silent = True
        yield Seen(False, RUNS[:1], node)
        node.print("worker-0", 1, 3.0, "last\n")
        node.print("worker-1", 1, 3.5, "never seen live\n")
        node.close()
        yield Seen(True, RUNS)

    found = follower(looks(), node.collected).lines(follow=True)
    assert [text for _, _, _, text in texts(found)] == ["one", "two", "last", "never seen live"]


def test_a_job_that_is_just_ending_is_read_once_yarn_has_collected_it(node):
    node.print("worker-0", 1, 1.0, "one\n")
    node.close()
    looks = [Seen(False, RUNS[:1], node, ending=True)] * 2 + [Seen(True, RUNS[:1])]
    node.silent = True
    found = follower(looks, node.collected, tail=1).lines(follow=False)
    assert texts(found) == [("worker-0", 1, 0, "one")]


@pytest.mark.parametrize("how", ["master", "agent"])
def test_an_end_that_comes_between_looking_and_reading_loses_no_line(node, tmp_path, how):
    node.print("worker-0", 1, 1.0, "one\n")
    node.close()
    hidden = Node(tmp_path / "nobody")  # its agent has left; the master still answers
    hidden.silent = how == "master"
    looks = [
        Seen(False, RUNS[:1], hidden),
        Seen(False, RUNS[:1], hidden, ending=True),
        Seen(True, RUNS[:1]),
    ]
    found = follower(looks, node.collected).lines(follow=False)
    assert texts(found) == [("worker-0", 1, 0, "one")]


def test_a_member_that_has_no_log_yet_keeps_nobody_waiting(node):
    node.print("worker-0", 1, 1.0, "one\n")
    looks = [Seen(False, RUNS, node)] * 2
    assert texts(follower(looks).lines(follow=False)) == [("worker-0", 1, 0, "one")]


def test_a_job_that_is_over_is_read_from_what_yarn_collected(node):
    node.print("worker-0", 1, 1.0, "one\n")
    node.print("worker-0", 2, 2.0, "two\n")  # a run its last status does not know
    node.close()
    found = follower([Seen(True, RUNS[:1])], node.collected).lines(follow=True)
    assert texts(found) == [("worker-0", 1, 0, "one"), ("worker-0", 2, None, "two")]


def test_only_what_is_wanted_is_read(node):
    for member, run, time in (("worker-0", 1, 1.0), ("worker-0", 2, 2.0), ("worker-1", 1, 3.0)):
        node.print(member, run, time, f"{member}.{run}\n")
    runs = [("worker-0", 1, 0), ("worker-0", 2, 0), ("worker-1", 1, 1)]

    def lines(**wanted):
        found = follower([Seen(False, runs, node)], **wanted).lines(follow=False)
        return [line.text for line in found]

    assert lines(ranks=frozenset({1})) == ["worker-1.1"]
    assert lines(members=frozenset({"worker-0"})) == ["worker-0.1", "worker-0.2"]
    assert lines(every_run=False) == ["worker-0.2", "worker-1.1"]
    assert lines(since=2.5) == ["worker-1.1"]


def test_a_job_that_never_ran_has_no_lines():
    assert list(follower([Seen(True, [])]).lines(follow=True)) == []


def test_what_yarn_did_not_collect_is_no_error(node):
    empty = AggregatedLogs(Disk({}), Site({"yarn.log-aggregation-enable": "true"}), "al", APP)
    assert list(follower([Seen(True, RUNS)], lambda: empty).lines(follow=True)) == []


def test_nothing_is_left_on_this_machine(node, tmp_path, monkeypatch):
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    node.print("worker-0", 1, 1.0, "one\n")
    lines = follower([Seen(False, RUNS[:1], node)] * 3).lines(follow=True)
    assert next(lines).text == "one"
    assert os.listdir(place) != []
    lines.close()
    assert os.listdir(place) == []


def test_every_run_that_a_status_knows_has_its_members_rank():
    standing = {
        "members": [{"member": "worker-0", "rank": 0}],
        "runs": [["worker-0", 1], ["worker-0", 2], ["worker-9", 1]],
    }
    assert runs_of(standing) == [("worker-0", 1, 0), ("worker-0", 2, 0), ("worker-9", 1, None)]
    assert index_of("x") == "x.index"
