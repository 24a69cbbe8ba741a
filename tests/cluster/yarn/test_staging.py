"""The staging directory on a real HDFS: permissions, times, nothing twice, nothing left."""

import hashlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbeds.yarn.bed import Bed

from dromon.engines.yarn.collect import collect
from dromon.engines.yarn.staging import MTIME, Artifact, RecordGone, Staging
from dromon.hadoop import site
from dromon.hadoop.hdfsfaults import NoPermission
from dromon.storage.hdfs import NATIVE, WEB, Hdfs
from dromon.storage.native import acts_as

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def connect(bed: Bed, way: str = "", user: str = "") -> Hdfs:
    files = {path.name: path.read_text() for path in Path(bed.plan.conf()).glob("*.xml")}
    return Hdfs.connect(site.load(files, dict(os.environ), {}), user or acts_as(), way=way)


@pytest.fixture
def root(bed: Bed) -> Iterator[str]:
    path = f"/tmp/staging-{secrets.token_hex(4)}"
    yield path
    connect(bed, WEB).delete(path)


def put(staging: Staging, source: Path) -> Artifact:
    return staging.put(source, hashlib.sha256(source.read_bytes()).hexdigest(), "tar.gz")


@pytest.mark.parametrize("way", ["", NATIVE, WEB])
def test_nothing_is_sent_twice_whichever_way(bed: Bed, way: str, root: str, tmp_path: Path):
    (tmp_path / "env").write_bytes(os.urandom(3_000_000))
    staging = Staging(connect(bed, way), root)
    artifact = put(staging, tmp_path / "env")
    status = staging.hdfs.stat(staging.path(artifact))
    assert status is not None
    assert (status.length, status.mtime, status.permission) == (3_000_000, MTIME, "600")
    for directory in (staging.root, staging.blobs):
        made = staging.hdfs.stat(directory)
        assert made is not None
        assert made.permission == "700"
    again = Staging(connect(bed, WEB), root)
    assert put(again, tmp_path / "env") == artifact
    assert (staging.uploaded, again.uploaded) == (3_000_000, 0)
    assert again.missing([artifact]) == []
    assert again.missing([again.artifact(artifact.digest, "zip", 1)]) != []


def test_four_at_once_put_one_blob(bed: Bed, root: str, tmp_path: Path):
    (tmp_path / "env").write_bytes(os.urandom(2_000_000))
    stagings = [Staging(connect(bed, way), root) for way in (NATIVE, WEB, NATIVE, WEB)]
    found: list[Artifact] = []
    threads = [
        threading.Thread(target=lambda one=one: found.append(put(one, tmp_path / "env")))
        for one in stagings
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    hdfs = connect(bed, WEB)
    ((name, status),) = hdfs.list(f"{root}/blobs")
    assert (name, status.length, status.mtime) == (found[0].name, 2_000_000, MTIME)
    assert hdfs.read(f"{root}/blobs/{name}") == (tmp_path / "env").read_bytes()


def test_records_claims_and_gc_leave_nothing(bed: Bed, root: str, tmp_path: Path):
    (tmp_path / "env").write_bytes(os.urandom(1_500_000))
    staging, other = Staging(connect(bed), root), Staging(connect(bed, WEB), root)
    digest = hashlib.sha256((tmp_path / "env").read_bytes()).hexdigest()
    artifact = staging.artifact(digest, "tar.gz", 1_500_000)
    staging.create_record("net-1", {"name": "net"}, b"key", [artifact])
    assert put(staging, tmp_path / "env") == artifact
    assert staging.claim("net-1", "application_1_0001") == "application_1_0001"
    assert other.claim("net-1", "application_1_0002") == "application_1_0001"
    other.write_file("net-1", "coordinator.json", b"1")
    other.write_file("net-1", "coordinator.json", b"2")
    assert staging.read_file("net-1", "coordinator.json") == b"2"
    key = staging.hdfs.stat(f"{staging.record('net-1')}/key")
    assert key is not None
    assert key.permission == "600"

    kept = collect(other, lambda id: id == "net-1", older_than=0)
    assert (kept.records, kept.blobs, kept.bytes) == ([], [], 0)
    young = collect(other, lambda id: False, older_than=3600)
    assert young.bytes == 0
    gone = collect(other, lambda id: False, older_than=0)
    assert (gone.records, gone.blobs) == (["net-1"], [artifact.name])
    assert gone.bytes > 1_500_000
    assert staging.hdfs.stat(root) is None
    with pytest.raises(RecordGone):
        staging.write_file("net-1", "coordinator.json", b"3")


def test_a_user_without_a_home_is_told_to_ask_for_one(bed: Bed):
    staging = Staging(connect(bed, WEB, "newcomer"))
    with pytest.raises(NoPermission, match="newcomer may not write /user,") as refused:
        staging.create_record("net-1", {}, b"key")
    assert refused.value.hint == (
        "Ask for the home directory /user/newcomer on HDFS: it does not exist."
    )
