"""Small files of the record: each whole, the newest last."""

import json
import threading

from stage import until

from dromon.engines.yarn.am.scribe import Scribe

RECORD = "/user/al/.dromon/jobs/train-aaaaaa"


def read(hdfs, name="status.json"):
    return json.loads(hdfs.read(f"{RECORD}/{name}"))


def test_a_file_is_there_whole_once_it_was_written_now(hdfs):
    scribe = Scribe(hdfs, RECORD)
    scribe.write_now("coordinator.json", {"epoch": 1})
    scribe.write_now("coordinator.json", {"epoch": 2})
    assert read(hdfs, "coordinator.json") == {"epoch": 2}
    assert [name for name, _ in hdfs.list(RECORD)] == ["coordinator.json"]
    scribe.close(10, {})


def test_readers_never_see_half_a_file(hdfs, name_node):
    scribe = Scribe(hdfs, RECORD)
    scribe.write_now("status.json", {"state": "queued"})
    gate, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        gate.wait(20)

    name_node.meanwhile["RENAME"] = hold
    scribe.write("status.json", {"state": "running"})
    assert reached.wait(20)
    assert read(hdfs) == {"state": "queued"}
    gate.set()
    until(lambda: read(hdfs) == {"state": "running"}, "the new one")
    scribe.close(10, {})


def test_of_what_waits_only_the_newest_is_written(hdfs, name_node):
    scribe = Scribe(hdfs, RECORD)
    gate, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        gate.wait(20)

    name_node.meanwhile["CREATE"] = hold
    scribe.write("status.json", 0)
    assert reached.wait(20)
    for number in range(1, 20):
        scribe.write("status.json", number)
    gate.set()
    scribe.close(10, {})
    assert read(hdfs) == 19
    assert name_node.ops.count("CREATE") == 2


def test_the_last_word_is_written_before_it_ends(hdfs):
    scribe = Scribe(hdfs, RECORD)
    scribe.write("status.json", "running")
    scribe.close(10, {"status.json": "over", "other.json": 1})
    assert read(hdfs) == "over"
    assert read(hdfs, "other.json") == 1


def test_a_write_that_failed_does_not_end_the_scribe(hdfs, name_node):
    from fake_webhdfs import Fault

    scribe = Scribe(hdfs, RECORD)
    full = ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "the quota is exceeded")
    fault = Fault("CREATE", refusal=full)
    name_node.faults.append(fault)
    scribe.write("status.json", 1)
    until(lambda: fault not in name_node.faults, "the refusal")
    scribe.write("status.json", 2)
    scribe.close(10, {})
    assert read(hdfs) == 2
