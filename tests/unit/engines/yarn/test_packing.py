"""What containers fetch: named by content, the same every time, and not packed twice."""

import hashlib
import subprocess
import sys
import tarfile

import pytest

from dromon.engines.yarn.packing import Packer
from dromon.engines.yarn.staging import MTIME, Staging
from dromon.hadoop.site import Site
from dromon.packaging import payload, snapshot
from dromon.storage.blobs import BlobStore
from dromon.storage.hdfs import WEB, Hdfs


def silent(what, done, total):
    pass


@pytest.fixture
def packer(tmp_path, name_node):
    web = name_node.url.removeprefix("http://")
    site = Site({"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": web})
    staging = Staging(Hdfs.connect(site, "al", way=WEB, patience=2), public_root="/public")
    return Packer(BlobStore(str(tmp_path / "blobs")), str(tmp_path / "cache"), staging)


def request(make_request, **more):
    return {**make_request(yarn={"python": "python3"}), **more}


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def test_a_job_on_the_nodes_own_python_ships_the_light_application_alone(packer, make_request):
    packed = packer.pack(request(make_request), silent)
    assert set(packed.files) == {"light.pyz"}
    path, artifact = packed.files["light.pyz"]
    assert artifact.digest == digest_of(path)
    assert packed.artifacts["light.pyz"] == {
        "url": f"hdfs://nn:8020/public/{artifact.digest}.pyz", "size": artifact.size,
        "timestamp": MTIME, "kind": "file", "visibility": "public",
    }  # fmt: skip


def test_packing_twice_gives_the_same_names(packer, make_request):
    first = packer.pack(request(make_request), silent).artifacts
    assert packer.pack(request(make_request), silent).artifacts == first


def test_a_shipped_function_travels_with_what_loads_it(packer, make_request, tmp_path):
    data = payload.dump(lambda: print("it runs"))
    digest = packer.blobs.put(data)
    asked = request(make_request, payload={"digest": digest, "size": len(data)})
    packed = packer.pack(asked, silent)
    path, artifact = packed.files["function"]
    assert packed.artifacts["function"]["kind"] == "archive"
    assert packed.artifacts["function"]["visibility"] == "private"
    with tarfile.open(path) as archive:
        names = archive.getnames()
        assert {"run.py", "payload"} <= set(names)
        inside = archive.extractfile("payload")
        assert inside is not None
        assert inside.read() == data
    again = packer.pack(asked, silent).files["function"][1]
    assert again.digest == artifact.digest == digest_of(path)


def test_code_is_an_archive_that_the_container_unpacks_for_each_attempt(
    packer, make_request, tmp_path
):
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("print(1)")
    taken = snapshot.snapshot(str(work), packer.blobs, index_dir=str(tmp_path / "index"))
    asked = request(make_request, code={"digest": taken.digest, "size": 1})
    packed = packer.pack(asked, silent)
    assert packed.artifacts["code.tar.gz"]["kind"] == "file"
    with tarfile.open(packed.files["code.tar.gz"][0]) as archive:
        assert [m.name.removeprefix("./") for m in archive if m.isfile()] == ["train.py"]


def test_what_a_job_ran_before_is_not_packed_again_while_it_is_on_hdfs(packer, make_request, hdfs):
    file = {
        "url": "hdfs://nn:8020/blobs/f.tar.gz", "size": 3, "timestamp": MTIME, "kind": "archive",
        "visibility": "private",
    }  # fmt: skip
    hdfs.write("/blobs/f.tar.gz", b"abc")
    hdfs.set_times("/blobs/f.tar.gz", MTIME)
    asked = request(
        make_request, payload={"digest": "0" * 64, "size": 3}, artifacts={"function": file}
    )
    packed = packer.pack(asked, silent)
    assert "function" not in packed.files
    assert packed.artifacts["function"] == file


def test_what_is_gone_from_hdfs_is_packed_again(packer, make_request, hdfs):
    digest = packer.blobs.put(b"the function")
    file = {"url": "hdfs://nn:8020/blobs/gone.tar.gz", "size": 3, "timestamp": MTIME}
    asked = request(
        make_request, payload={"digest": digest, "size": 12}, artifacts={"function": file}
    )
    assert "function" in packer.pack(asked, silent).files


def test_the_light_application_is_a_program(packer, make_request):
    path, _ = packer.pack(request(make_request), silent).files["light.pyz"]
    ended = subprocess.run(
        [sys.executable, "-I", "-S", path, "agent"], capture_output=True, text=True, check=False
    )
    assert "usage: agent" in ended.stderr
