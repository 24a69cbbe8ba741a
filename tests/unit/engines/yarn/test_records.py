"""What a job's record tells after the fact."""

import json

import pytest

from dromon.engines.yarn import records
from dromon.engines.yarn.staging import Staging
from dromon.hadoop.site import Site
from dromon.storage.hdfs import WEB, Hdfs

ID = "train-aaaaaa"


@pytest.fixture
def staging(name_node):
    web = name_node.url.removeprefix("http://")
    site = Site({"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": web})
    return Staging(Hdfs.connect(site, "al", way=WEB, patience=2))


def keep(hdfs, staging, place, *entries):
    data = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    hdfs.write(f"{staging.record(ID)}/{place}", data)


def event(time, kind, **more):
    return {"time": time, "event": {"kind": kind, **more}}


def test_the_timeline_is_of_all_attempts_in_their_order(staging, hdfs):
    keep(hdfs, staging, "journal-1.closed/000002", event(3.0, "MemberReady", member="worker-0"))
    keep(
        hdfs, staging, "journal-1.closed/000001",
        {"container": "c1", "member": "worker-0", "node": "n1"}, event(2.0, "Placed"),
    )  # fmt: skip
    keep(hdfs, staging, "journal-2.closed/000001", event(4.0, "Tick"))
    keep(hdfs, staging, "journal-10/000001", event(5.0, "MemberExited", member="worker-0", run=1))
    found = records.timeline(staging, ID, 1.0)
    kinds = [(entry["time"], entry["event"]) for entry in found]
    assert kinds == [
        (1.0, "Submitted"), (2.0, "Placed"), (3.0, "MemberReady"), (4.0, "Tick"),
        (5.0, "MemberExited"),
    ]  # fmt: skip
    assert found[-1]["detail"] == {"member": "worker-0", "run": 1}


def test_a_record_that_is_gone_has_only_its_beginning(staging, hdfs):
    hdfs.delete(staging.record(ID))
    assert records.timeline(staging, ID, 1.0) == [{"time": 1.0, "event": "Submitted"}]


def test_numbers_are_those_of_the_runs_that_brought_theirs_home(staging, hdfs):
    line = json.dumps({"step": 1, "loss": 0.5, "time": 1.0}) + "\n"
    hdfs.write(f"{staging.record(ID)}/worker-0.1/metrics.jsonl", line.encode())
    found = records.metrics(staging, ID, [("worker-0", 1, 0), ("worker-1", 1, 1)])
    assert "0.5" in json.dumps(found)
    assert "worker-1" not in json.dumps(found)
    assert records.metrics(staging, ID, []) == records.metrics(staging, ID, [("x-0", 1, 0)])
