"""The parts of the test bed that need no Hadoop: what it plans, writes and refuses."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from testbeds import process
from testbeds.yarn import config, groundwork, jars, plan
from testbeds.yarn.bed import Bed
from testbeds.yarn.groundwork import Groundwork
from testbeds.yarn.jvm import Jvm
from testbeds.yarn.plan import Options

from dromon.errors import UsageError

ROOT = Path(__file__).parents[3]


def planned(**options: object) -> plan.Plan:
    return plan.make("/bed", Options(**options), lambda port: True)  # type: ignore[arg-type]


def site(made: plan.Plan, daemon: str, file: str) -> dict[str, str]:
    root = ElementTree.fromstring(config.files(made, daemon, "/jars")[file])
    return {p.findtext("name", ""): p.findtext("value", "") for p in root}


def command(
    *words: str, directory: Path, env: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "testbeds.yarn", "--dir", str(directory), *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_ports_are_the_same_for_a_directory_and_differ_within_it() -> None:
    made = planned(nodes=5)
    every = [port for ports in made.ports.values() for port in ports.values()]
    assert len(every) == len(set(every)) == 2 + 3 + 5 + 5 * 4
    assert planned(nodes=5) == made


def test_ports_in_use_are_passed_over() -> None:
    taken = planned().ports["namenode"]["rpc"]
    made = plan.make("/bed", Options(), lambda port: port != taken)
    assert taken not in [port for ports in made.ports.values() for port in ports.values()]


def test_a_plan_comes_back_from_its_json() -> None:
    made = planned(expiry=7, settings={"a": "b"})
    assert plan.from_json(made.to_json()) == made


def test_nodes_share_nothing_but_their_master() -> None:
    made = planned()
    one, two = site(made, "node1", "yarn-site.xml"), site(made, "node2", "yarn-site.xml")
    for key in one:
        if key.endswith(("dirs", ".dir")) and key.startswith("yarn.nodemanager"):
            assert one[key] != two[key]
    assert one["yarn.nodemanager.address"] != two["yarn.nodemanager.address"]
    assert one["yarn.resourcemanager.address"] == two["yarn.resourcemanager.address"]


def test_whatever_a_daemon_keeps_is_within_its_bed() -> None:
    made = planned()
    for daemon in made.daemons:
        for file in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml"):
            for key, value in site(made, daemon, file).items():
                if key.endswith((".dir", "-dirs", ".tmp.dir", "root-dir", "store.uri")):
                    assert value.removeprefix("file://").startswith("/bed/data/"), key
    keys = site(made, "resourcemanager", "yarn-site.xml").keys()
    for kind in ("labels", "attribute"):
        assert f"yarn.node-{kind}.fs-store.root-dir" in keys


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("yarn.scheduler.capacity.root.urgent.capacity", "capacity-scheduler.xml"),
        ("yarn.nodemanager.resource-type.yarn.io/fpga", "node-resources.xml"),
        ("yarn.acl.enable", "yarn-site.xml"),
        ("dfs.permissions.enabled", "hdfs-site.xml"),
        ("hadoop.rpc.protection", "core-site.xml"),
    ],
)
def test_a_setting_goes_into_the_file_its_daemons_read(key: str, file: str) -> None:
    made = planned(settings={key: "<&>"})
    assert site(made, "resourcemanager", file)[key] == "<&>"


def test_expiry_and_recovery_are_off_unless_asked_for() -> None:
    key = "yarn.nm.liveness-monitor.expiry-interval-ms"
    enabled = "yarn.resourcemanager.recovery.enabled"
    assert not {key, enabled} & site(planned(), "resourcemanager", "yarn-site.xml").keys()
    asked = site(planned(expiry=5, recovery=True), "resourcemanager", "yarn-site.xml")
    assert asked[key] == "5000"
    assert asked[enabled] == "true"


def test_without_java_it_says_so(tmp_path: Path) -> None:
    done = command("up", directory=tmp_path / "bed", env={"PATH": str(tmp_path)})
    assert done.returncode == 69
    assert "needs Java" in done.stderr
    assert "hint: Install Java" in done.stderr


def test_without_maven_and_jars_it_says_so(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    env = {"PATH": str(tmp_path), "DROMON_CACHE": str(tmp_path / "cache")}
    done = command("up", directory=tmp_path / "bed", env=env)
    assert done.returncode == 69
    assert "no `mvn`" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_java_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(jars.JavaMissing, match="is Java 8"):
        jars.find_java()


# ---- what new beds begin with -------------------------------------------------------------------

# Writes what it was asked to dump, and the classes for it, into the archive; or fails.
DUMPING = """#!/bin/sh
for word; do case $word in
  -XX:SharedClassListFile=*) classes=${word#*=} ;;
  -XX:SharedArchiveFile=*) archive=${word#*=} ;;
esac; done
"""


class Rehearsal:
    """In place of a bed: two daemons that load a class both, and a NameNode's directory."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, jvm: Jvm, keep: Path) -> None:
        self.times += 1
        assert jvm.listed is not None
        for daemon, classes in (("node1", "A\nB\n"), ("resourcemanager", "B\nC\n")):
            (jvm.listed / daemon).write_text(classes)
        (keep / "current").mkdir(parents=True)
        (keep / "current" / "VERSION").write_text("namespaceID=7\nclusterID=CID-old\ncTime=0\n")


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jvm:
    monkeypatch.setenv("DROMON_CACHE", str(tmp_path / "cache"))
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "hadoop-3.4.3" / "jars").mkdir(parents=True)
    for jar in ("b.jar", "a.jar"):
        (tmp_path / "hadoop-3.4.3" / "jars" / jar).touch()
    return Jvm(jars.Java(str(tmp_path / "java"), "17.0.1"), tmp_path / "hadoop-3.4.3")


def dumping(jvm: Jvm, last: str) -> None:
    program = Path(jvm.java.home, "bin", "java")
    program.write_text(DUMPING + last + "\n")
    program.chmod(0o755)


def test_classes_of_all_daemons_are_laid_out_once_for_all_beds(jvm: Jvm) -> None:
    dumping(jvm, 'cp "$classes" "$archive"')
    rehearse, told = Rehearsal(), []
    ground = groundwork.laid(jvm, rehearse, told.append)
    assert groundwork.laid(jvm, rehearse, told.append) == ground
    assert rehearse.times == len(told) == 1
    assert ground.archive is not None
    assert ground.archive.read_text() == "A\nB\nC\n"
    other = replace(jvm, java=replace(jvm.java, version="21.0.2"))
    assert groundwork.laid(other, rehearse, told.append) != ground


def test_a_java_that_lays_out_no_classes_does_without(jvm: Jvm) -> None:
    dumping(jvm, "exit 1")
    rehearse = Rehearsal()
    for _ in range(2):
        assert groundwork.laid(jvm, rehearse, print).archive is None
    assert rehearse.times == 1
    assert not [word for word in jvm.daemon(planned(), "node1") if "SharedArchive" in word]


def test_an_archive_is_of_the_jars_that_begin_the_class_path(jvm: Jvm, tmp_path: Path) -> None:
    made = tmp_path / "classes.jsa"
    dump = jvm.dump(tmp_path / "classes", made)
    run = replace(jvm, archive=made).daemon(planned(), "node1")
    of, after = (words[words.index("-cp") + 1] for words in (dump, run))
    assert [Path(jar).name for jar in of.split(":")] == ["a.jar", "b.jar"]
    assert after.startswith(f"{of}:")
    assert after.endswith(":/bed/conf/node1")
    assert f"-XX:SharedArchiveFile={made}" in set(dump) & set(run)


def test_every_new_file_system_is_one_of_its_own(tmp_path: Path, jvm: Jvm) -> None:
    Rehearsal()(replace(jvm, listed=tmp_path), tmp_path / "ground" / "name")
    texts = []
    for bed in ("one", "two"):
        Groundwork(tmp_path / "ground").found(str(tmp_path / bed))
        texts.append((tmp_path / bed / "current" / "VERSION").read_text())
    assert texts[0] != texts[1]
    for text in texts:
        assert text.startswith("namespaceID=7\nclusterID=CID-")
        assert text.endswith("\ncTime=0\n")
        assert "CID-old" not in text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["status"], "There is no test bed"),
        (["kill", "node1"], "There is no test bed"),
        (["up", "--nodes", "1"], "at least two nodes"),
        (["up", "--set", "novalue"], "not KEY=VALUE"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    tmp_path: Path, words: list[str], text: str
) -> None:
    done = command(*words, directory=tmp_path / "bed", env={"PATH": str(tmp_path)})
    assert done.returncode == 64
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_directory_hadoop_cannot_name_is_refused(tmp_path: Path) -> None:
    done = command("up", directory=tmp_path / "a, b", env=dict(os.environ))
    assert done.returncode == 64
    assert "cannot be named" in done.stderr


def test_a_directory_with_something_else_in_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="neither empty nor a test bed"):
        Bed(tmp_path)._claim()
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_down_leaves_a_process_alone_that_only_has_the_number_of_a_daemon(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            bed = Bed(tmp_path)
            real = process.spawn(
                ["sleep", "600"], log=str(tmp_path / "log"), cwd=str(tmp_path), env={}
            )
            stale = replace(real, pid=stranger.pid, started=real.started - 100)
            bed._write(planned(), {"namenode": stale, "datanode": real})
            assert not bed.is_alive("namenode")
            bed.down()
            assert stranger.poll() is None
            assert not real.is_alive
        finally:
            stranger.kill()


LEADERLESS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.readline).start()
ctypes.CDLL(None).pthread_exit(None)  # this thread's end, not the process's
"""


def test_a_process_lives_as_long_as_one_of_its_threads(tmp_path: Path) -> None:
    """Its first thread may end before the one that holds the port."""
    held = tmp_path / "held"
    os.mkfifo(held)
    words = ["sh", "-c", f"exec {sys.executable} -c '{LEADERLESS}' <{held}"]
    spawned = process.spawn(words, log=str(tmp_path / "log"), cwd=str(tmp_path), env={})
    with open(held, "w"):
        state = Path(f"/proc/{spawned.pid}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "Z":
            pass
        assert spawned.is_alive
    assert spawned.wait(60)
