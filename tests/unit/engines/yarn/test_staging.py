"""The staging directory: nothing twice, nothing half, and nothing taken that is needed."""

import hashlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "hadoop"))

from fake_webhdfs import FakeWebHdfs, Fault

from dromon.engines.yarn.collect import collect
from dromon.engines.yarn.staging import MTIME, RecordGone, Staging
from dromon.errors import EngineError, Refused
from dromon.hadoop.hdfsfaults import HdfsError
from dromon.hadoop.site import Site
from dromon.storage.hdfs import WEB, Hdfs

DAY = 86400.0


@pytest.fixture
def fake() -> Iterator[FakeWebHdfs]:
    with FakeWebHdfs() as fake:
        fake.tree.make("/user/al", None, "700", "al")
        yield fake


def open_staging(fake: FakeWebHdfs, **more: Any) -> Staging:
    web = fake.url.removeprefix("http://")
    site = Site({"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": web})
    return Staging(Hdfs.connect(site, "al", way=WEB, patience=2), **more)


@pytest.fixture
def staging(fake: FakeWebHdfs) -> Staging:
    return open_staging(fake)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(staging: Staging, data: bytes, **more: Any) -> Any:
    return staging.put(data, digest(data), "tar.gz", **more)


def paths(fake: FakeWebHdfs) -> set[str]:
    return {path for path in fake.tree.entries if path.startswith("/user/al/")}


def age(fake: FakeWebHdfs, seconds: float) -> None:
    """All that is there becomes older."""
    for entry in fake.tree.entries.values():
        entry.atime -= int(seconds * 1000)
        if entry.mtime != MTIME:
            entry.mtime -= int(seconds * 1000)


def test_a_blob_is_where_it_is_said_to_be_with_the_time_that_is_known(
    fake: FakeWebHdfs, staging: Staging
):
    artifact = put(staging, b"code")
    assert artifact == staging.artifact(digest(b"code"), "tar.gz", 4)
    assert artifact.url == f"hdfs://nn:8020/user/al/.dromon/blobs/{digest(b'code')}.tar.gz"
    entry = fake.tree.entries[staging.path(artifact)]
    assert (entry.data, entry.mtime, entry.permission) == (b"code", MTIME, "600")
    assert fake.tree.entries["/user/al/.dromon"].permission == "700"
    assert fake.tree.entries["/user/al/.dromon/blobs"].permission == "700"


def test_nothing_is_sent_twice(fake: FakeWebHdfs, staging: Staging, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"0123456789")
    first = staging.put(tmp_path / "file", digest(b"0123456789"), "zip")
    again = open_staging(fake)
    assert again.put(tmp_path / "file", digest(b"0123456789"), "zip") == first
    assert (staging.uploaded, again.uploaded, fake.received) == (10, 0, 10)


def test_a_blob_that_is_not_whole_is_put_again(fake: FakeWebHdfs, staging: Staging):
    artifact = put(staging, b"code")
    fake.tree.entries[staging.path(artifact)].data = b"co"
    assert staging.missing([artifact]) == [artifact]
    put(staging, b"code")
    assert staging.missing([artifact]) == []
    assert fake.tree.entries[staging.path(artifact)].data == b"code"


def test_an_upload_that_fails_leaves_nothing_behind(fake: FakeWebHdfs, staging: Staging):
    fake.faults = [Fault("SETTIMES", refusal=("java.io.IOException", "the disk is on fire"))]
    with pytest.raises(HdfsError, match="the disk is on fire"):
        put(staging, b"code")
    assert staging.missing([staging.artifact(digest(b"code"), "tar.gz", 4)])
    assert paths(fake) == {"/user/al/.dromon", "/user/al/.dromon/blobs"}


def test_a_line_that_breaks_during_an_upload_is_no_matter(fake: FakeWebHdfs, staging: Staging):
    fake.faults = [Fault("CREATE", data=True), Fault("RENAME", done=True)]
    assert staging.missing([put(staging, b"code")]) == []


def test_several_may_put_the_same_at_once(fake: FakeWebHdfs):
    stagings = [open_staging(fake) for _ in range(4)]
    threads = [threading.Thread(target=put, args=(one, b"code" * 1000)) for one in stagings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths(fake)) == 3
    assert stagings[0].missing([put(stagings[0], b"code" * 1000)]) == []


def test_what_all_users_share_needs_a_place_that_all_can_reach(fake: FakeWebHdfs):
    fake.tree.make("/apps/dromon", None, "1777", "root")
    shared = put(open_staging(fake, public_root="/apps/dromon"), b"env", public=True)
    assert shared.public
    assert shared.url.startswith("hdfs://nn:8020/apps/dromon/")
    assert fake.tree.entries["/apps/dromon/" + shared.name].permission == "644"
    fake.tree.entries["/apps"].permission = "750"
    with pytest.raises(Refused, match="/apps is 750"):
        put(open_staging(fake, public_root="/apps/dromon"), b"more", public=True)
    assert not put(open_staging(fake), b"env", public=True).public


def test_a_record_is_there_whole_and_only_once(fake: FakeWebHdfs, staging: Staging):
    artifact = staging.artifact(digest(b"code"), "tar.gz", 4)
    staging.create_record("net-1", {"name": "net"}, b"key", [artifact])
    assert staging.records() == ["net-1"]
    assert staging.refs("net-1") == {artifact.name}
    assert staging.read_file("net-1", "key") == b"key"
    assert staging.read_file("net-1", "coordinator.json") is None
    with pytest.raises(EngineError, match="has a record on HDFS already"):
        staging.create_record("net-1", {}, b"")
    assert len([path for path in paths(fake) if ".tmp-" in path]) == 0


def test_a_small_file_is_replaced_in_one_step(fake: FakeWebHdfs, staging: Staging):
    staging.create_record("net-1", {}, b"key")
    staging.write_file("net-1", "coordinator.json", b"1")
    staging.write_file("net-1", "coordinator.json", b"2")
    assert staging.read_file("net-1", "coordinator.json") == b"2"
    assert not [path for path in paths(fake) if ".tmp-" in path]
    with pytest.raises(RecordGone):
        staging.write_file("net-2", "coordinator.json", b"1")
    assert staging.records() == ["net-1"]


def test_of_two_that_submit_one_job_the_first_wins(fake: FakeWebHdfs, staging: Staging):
    staging.create_record("net-1", {}, b"key")
    assert staging.claim("net-1", "application_1_1") == "application_1_1"
    assert open_staging(fake).claim("net-1", "application_1_2") == "application_1_1"
    assert not [path for path in paths(fake) if ".tmp-" in path]


def test_without_a_list_every_digest_of_the_request_counts(staging: Staging):
    staging.create_record("net-1", {"code": {"digest": digest(b"code")}}, b"key")
    staging.hdfs.delete(f"{staging.record('net-1')}/refs.json")
    assert staging.refs("net-1") == {digest(b"code")}


def make_job(staging: Staging, id: str, data: bytes) -> None:
    artifact = staging.artifact(digest(data), "tar.gz", len(data))
    staging.create_record(id, {}, b"key", [artifact])
    put(staging, data)
    staging.claim(id, f"application_{id}")


def test_old_jobs_go_and_what_others_need_stays(fake: FakeWebHdfs, staging: Staging):
    make_job(staging, "old-1", b"shared")
    make_job(staging, "old-2", b"only of old-2")
    make_job(staging, "runs-3", b"of runs-3")
    age(fake, 2 * DAY)
    make_job(staging, "new-4", b"shared")
    gone = collect(staging, lambda id: id == "runs-3", older_than=DAY)
    assert gone.records == ["old-1", "old-2"]
    assert gone.blobs == [f"{digest(b'only of old-2')}.tar.gz"]
    assert staging.records() == ["new-4", "runs-3"]
    kept = [
        staging.artifact(digest(data), "tar.gz", len(data)) for data in (b"shared", b"of runs-3")
    ]
    assert staging.missing(kept) == []
    assert gone.bytes > len(b"only of old-2")


def test_what_would_go_is_told_without_taking_it(fake: FakeWebHdfs, staging: Staging):
    make_job(staging, "old-1", b"code")
    before = paths(fake)
    told = collect(staging, lambda id: False, older_than=0, dry_run=True)
    assert paths(fake) == before
    assert collect(staging, lambda id: False, older_than=0) == told
    assert told.records == ["old-1"]


def test_with_nothing_active_and_no_limit_nothing_is_left(fake: FakeWebHdfs, staging: Staging):
    make_job(staging, "old-1", b"code")
    staging.create_record("never-claimed", {}, b"key")
    fake.tree.make("/user/al/.dromon/blobs/.tmp-abc", b"half", "600", "al")
    fake.tree.make("/user/al/.dromon/jobs/.tmp-abc/key", b"half", "600", "al")
    fake.tree.make("/user/al/.dromon/.tmp-collect-abc/blob", b"half", "600", "al")
    collect(staging, lambda id: False, older_than=0)
    assert paths(fake) == set()
    assert collect(staging, lambda id: False, older_than=0).bytes == 0


def test_an_upload_under_way_does_not_lose_its_blob(fake: FakeWebHdfs, staging: Staging):
    put(staging, b"not yet in a record")
    staging.create_record("being-made", {}, b"key")
    fake.tree.make("/user/al/.dromon/blobs/.tmp-abc", b"half", "600", "al")
    before = paths(fake)
    gone = collect(staging, lambda id: False, older_than=DAY)
    assert (gone.records, gone.blobs, gone.temporary, gone.bytes) == ([], [], [], 0)
    assert paths(fake) == before


def test_a_record_that_comes_while_blobs_are_put_aside_gets_its_blob_back(
    fake: FakeWebHdfs, staging: Staging
):
    artifact = put(staging, b"code")
    other = open_staging(fake)
    fake.meanwhile["RENAME"] = lambda: other.create_record("new-1", {}, b"key", [artifact])
    gone = collect(staging, lambda id: False, older_than=0)
    assert gone.blobs == []
    assert other.missing([artifact]) == []
