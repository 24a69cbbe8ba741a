"""A container as an agent's place: what is laid out, what is brought home, and when."""

import base64
import json
import os
import tarfile
import threading

import pytest
from stage import until

from dromon.agent.plan import AgentPlan
from dromon.agent.record import Record
from dromon.engines.yarn.am.container import Container

HOME = "/user/al/.dromon/jobs/train-aaaaaa"


class Scene:
    """One container's directory."""

    def __init__(self, root, request, hdfs):
        self.root, self.hdfs = root, hdfs
        self.logs = root / "logs"
        self.logs.mkdir()
        self.record = Record(str(root / "record"))
        os.makedirs(self.record.root)
        self.woken = threading.Event()
        self.container = Container(request, "worker-0", self.record, str(self.logs), hdfs)
        self.container.open(self.woken.set)

    def plan(self, run=1, attempt=1):
        return AgentPlan(
            "train-aaaaaa", "worker", 0, run, attempt, self.record.root, self.record.root,
            "true", "none",
        )  # fmt: skip

    def lay_out(self, **which):
        plan = self.plan(**which)
        until(lambda: self.container.lay_out(plan), "it to be laid out")
        return plan

    def run_file(self, plan, name, text):
        folder = self.record.run(plan.member, plan.run)
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)

    def words(self):
        found = []
        until(lambda: found.extend(self.container.words()) or found, "its words")
        return found


@pytest.fixture
def scene(tmp_path, make_request, hdfs):
    def make(**keys):
        return Scene(tmp_path, {**make_request(**keys)}, hdfs)

    return make


def pack_code(root, **files):
    with tarfile.open(root / "code.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            path = root / f"{name}.src"
            path.write_text(text)
            archive.add(path, f"{name}.py")


def test_code_is_laid_out_fresh_for_every_attempt(scene):
    it = scene()
    pack_code(it.root, train="print(1)")
    it.lay_out(run=1, attempt=1)
    work = it.root / "record" / "work-1"
    assert (work / "train.py").read_text() == "print(1)"
    (work / "left.txt").write_text("by the first attempt")
    it.lay_out(run=2, attempt=1)  # a run of the same attempt finds what is there
    assert (work / "left.txt").exists()
    it.lay_out(run=3, attempt=2)
    assert os.listdir(it.root / "record" / "work-2") == ["train.py"]
    assert not work.exists()


def test_a_job_without_code_has_an_empty_directory(scene):
    it = scene()
    it.lay_out()
    assert os.listdir(it.root / "record" / "work-1") == []


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_logs_lie_where_yarn_collects_them_readable_by_its_group(scene, umask):
    it = scene()
    before = os.umask(umask)
    try:
        plan = it.lay_out()
    finally:
        os.umask(before)
    it.run_file(plan, "log", "said\n")
    target = it.logs / "worker-0.1.log"
    assert target.read_text() == "said\n"
    for name in ("worker-0.1.log", "worker-0.1.log.index"):
        assert (it.logs / name).stat().st_mode & 0o777 == 0o640


def test_a_damaged_archive_ends_the_run_with_words(scene):
    it = scene()
    pack_code(it.root, train="x" * 100_000)
    whole = (it.root / "code.tar.gz").read_bytes()
    (it.root / "code.tar.gz").write_bytes(whole[: len(whole) // 2])
    plan = it.plan()
    with pytest.raises(OSError, match=r"\w"):
        until(lambda: it.container.lay_out(plan), "the trouble")


def test_a_volume_that_is_not_there_ends_the_run_with_words(scene):
    it = scene(volumes={"ct": {"source": "hdfs:///none"}})
    with pytest.raises(OSError, match="/none is not on HDFS"):
        until(lambda: it.container.lay_out(it.plan()), "the trouble")


def test_checkpoints_of_others_are_there_before_a_run_begins(scene, hdfs):
    it = scene()
    hdfs.write(f"{HOME}/checkpoints/step-1", b"weights")
    it.lay_out()
    assert (it.root / "record" / "checkpoints" / "step-1").read_bytes() == b"weights"


def test_a_run_is_over_only_when_what_it_left_is_on_hdfs(scene, hdfs, name_node):
    it = scene()
    plan = it.lay_out()
    it.run_file(plan, "exit.json", "{}")
    it.run_file(plan, "metrics.jsonl", '{"a": 1}\n')
    (it.root / "record" / "checkpoints" / "model").write_text("weights")
    gate = threading.Event()
    name_node.meanwhile["CREATE"] = lambda: gate.wait(20)
    it.woken.clear()
    assert it.container.bring_home(plan) is False
    assert it.container.bring_home(plan) is False
    gate.set()
    assert it.woken.wait(20)
    until(lambda: it.container.bring_home(plan), "all to be home")
    assert hdfs.read(f"{HOME}/worker-0.1/metrics.jsonl") == b'{"a": 1}\n'
    assert hdfs.read(f"{HOME}/worker-0.1/exit.json") == b"{}"
    assert hdfs.read(f"{HOME}/checkpoints/model") == b"weights"
    assert hdfs.stat(f"{HOME}/worker-0.1/log") is None  # YARN collects that


def test_logs_are_brought_home_where_yarn_does_not_collect_them(scene, hdfs):
    it = scene()
    it.container._request["logs_aggregated"] = False
    plan = it.lay_out()
    it.run_file(plan, "log", "said\n")
    until(lambda: it.container.bring_home(plan), "all to be home")
    assert hdfs.read(f"{HOME}/worker-0.1/log") == b"said\n"


def test_the_end_of_a_run_that_ended_with_its_container_is_not_told(scene):
    it = scene()
    plan = it.lay_out()
    until(lambda: it.container.bring_home(plan), "all to be home")
    it.container.is_over = True
    assert it.container.bring_home(plan) is False


def test_an_hdfs_that_refuses_does_not_hold_up_the_end_of_a_run(scene, name_node):
    from fake_webhdfs import Fault

    it = scene()
    plan = it.lay_out()
    it.run_file(plan, "exit.json", "{}")
    full = ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "the quota is exceeded")
    name_node.faults.append(Fault("CREATE", refusal=full))
    until(lambda: it.container.bring_home(plan), "the end")
    complaint = next(it.logs.glob("worker-0.1.agent*")).read_text()
    assert "could not be brought to HDFS" in complaint
    assert "quota" in complaint


def test_outputs_are_told_and_those_asked_for_are_kept(scene, hdfs):
    it = scene(outputs=["m", "summary.txt", "none"])
    it.lay_out()
    work = it.root / "record" / "work-1"
    (work / "m" / "deep").mkdir(parents=True)
    (work / "m" / "deep" / "a").write_text("aa")
    (work / "summary.txt").write_text("s")
    (work / "other").write_text("not asked for")
    it.container.hear({"op": "keep", "attempt": 1})
    found = ["m/deep/a", "summary.txt"]
    assert it.words() == [{"op": "kept", "attempt": 1, "found": found}]
    assert hdfs.stat(f"{HOME}/outputs") is None
    keep = {"op": "keep", "attempt": 1, "paths": ["m/deep/a"]}
    it.container.hear(keep)
    (kept,) = it.words()
    assert kept["outputs"] == [{"path": "m/deep/a", "size": 2}]
    assert hdfs.read(f"{HOME}/outputs/m/deep/a") == b"aa"
    assert hdfs.stat(f"{HOME}/outputs/summary.txt") is None
    (work / "m" / "deep" / "a").unlink()
    it.container.hear(keep)  # the line broke, and it is asked again
    assert it.words() == [kept]


def test_an_output_that_hdfs_refuses_costs_no_other(scene, hdfs, name_node):
    from fake_webhdfs import Fault

    it = scene(outputs=["a", "b"])
    it.lay_out()
    for name in ("a", "b"):
        (it.root / "record" / "work-1" / name).write_text(name)
    full = ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "the quota is exceeded")
    name_node.faults.append(Fault("CREATE", refusal=full))
    it.container.hear({"op": "keep", "attempt": 1, "paths": ["a", "b"]})
    (kept,) = it.words()
    first, second = kept["outputs"]
    assert (first["path"], first["kept"]) == ("a", False)
    assert "quota" in first["why"]
    assert second == {"path": "b", "size": 1}


def read(it, name, offset=0, **more):
    it.container.hear({"op": "read", "id": 5, "name": name, "offset": offset, **more})
    (answer,) = it.words()
    assert (answer["op"], answer["id"]) == ("data", 5)
    return None if answer.get("missing") else base64.b64decode(answer["data"])


def test_a_growing_log_is_read_in_pieces(scene):
    it = scene()
    plan = it.lay_out()
    it.run_file(plan, "log", "0123456789")
    assert read(it, "worker-0.1.log", 4) == b"456789"
    assert read(it, "worker-0.1.log", 4, limit=2) == b"45"
    assert read(it, "worker-0.1.log", 10) == b""
    assert read(it, "worker-0.1.log.index") == b""


@pytest.mark.parametrize(
    "name", ["worker-0.2.log", "../record/key", "agent.stderr", "worker-0.1.log/../x", ""]
)
def test_nothing_else_can_be_read(scene, name):
    it = scene()
    it.lay_out()
    (it.root / "record" / "key").write_text("secret")
    assert read(it, name) is None


def test_an_offset_before_the_start_is_no_log(scene):
    it = scene()
    it.lay_out()
    assert read(it, "worker-0.1.log", -5) is None


def test_a_later_master_is_followed_and_an_earlier_one_is_not(scene, hdfs):
    it = scene()
    here = it.root / "record" / "coordinator.json"
    here.write_text(json.dumps({"address": "tcp:a:1", "epoch": 2}))

    def seek(address, epoch):
        hdfs.write(
            f"{HOME}/coordinator.json", json.dumps({"address": address, "epoch": epoch}).encode()
        )
        it.container.seek()
        until(lambda: not it.container._seeking, "the look")
        return json.loads(here.read_text())["address"]

    assert seek("tcp:old:1", 1) == "tcp:a:1"
    assert seek("tcp:same:1", 2) == "tcp:a:1"
    assert seek("tcp:new:1", 3) == "tcp:new:1"


@pytest.mark.parametrize("text", [b"", b"not json", b"[]", b'{"epoch": "x"}'])
def test_a_record_that_says_nothing_useful_is_asked_again_later(scene, hdfs, text):
    it = scene()
    here = it.root / "record" / "coordinator.json"
    here.write_text(json.dumps({"address": "tcp:a:1", "epoch": 2}))
    hdfs.write(f"{HOME}/coordinator.json", text)
    it.container.seek()
    until(lambda: not it.container._seeking, "the look")
    assert json.loads(here.read_text())["address"] == "tcp:a:1"
