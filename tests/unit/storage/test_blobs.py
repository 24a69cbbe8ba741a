import errno
import hashlib
import os
import resource
import subprocess
import sys
import threading

import pytest

from dromon.errors import PackagingError
from dromon.storage.blobs import CHUNK, BlobStore


@pytest.fixture
def store(tmp_path):
    return BlobStore(str(tmp_path / "store"))


def everything_in(root):
    return sorted(
        os.path.join(d, f)
        for d, _, files in os.walk(root)
        for f in files
        if f not in ("lock", "generation")
    )


def test_a_blob_is_named_by_its_sha256_and_read_back(store):
    digest = store.put(b"oars")
    assert digest == hashlib.sha256(b"oars").hexdigest()
    assert store.has(digest)
    assert store.read(digest) == b"oars"
    with store.open(digest) as blob:
        assert blob.read() == b"oars"


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_a_file_of_any_size_is_stored_whole(store, tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    digest = store.put_file(str(tmp_path / "f"))
    assert digest == hashlib.sha256(data).hexdigest()
    assert store.read(digest) == data


def test_an_existing_blob_is_never_written_again(store, tmp_path):
    digest = store.put(b"once")
    before = os.stat(store.path(digest))
    store.put(b"once")
    (tmp_path / "f").write_bytes(b"once")
    store.put_file(str(tmp_path / "f"))
    after = os.stat(store.path(digest))
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not store.insert(b"once").is_new
    assert everything_in(store.root) == [store.path(digest)]


def test_a_blob_cut_short_by_a_power_failure_is_stored_anew(store):
    digest = store.put(b"whole")
    os.truncate(store.path(digest), 2)
    assert store.insert(b"whole").is_new
    assert store.read(digest) == b"whole"


def test_only_the_owner_can_read(store):
    digest = store.put(b"private")
    assert os.stat(store.path(digest)).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(store.path(digest))).st_mode & 0o777 == 0o700
    assert os.stat(store.root).st_mode & 0o777 == 0o700


def test_gc_keeps_what_is_named_and_says_how_much_it_freed(store):
    keep, drop = store.put(b"keep"), store.put(b"drop this")
    generation = store.generation()
    assert store.gc({keep}) == len(b"drop this")
    assert store.has(keep)
    assert not store.has(drop)
    assert store.generation() != generation
    generation = store.generation()
    assert store.gc({keep}) == 0
    assert store.generation() == generation


def test_gc_waits_for_those_about_to_name_a_blob(store):
    digest = store.put(b"wanted")
    done = threading.Event()

    def collect():
        store.gc(set())
        done.set()

    with store.pinned():
        thread = threading.Thread(target=collect)
        thread.start()
        assert not done.wait(0.2)
        assert store.has(digest)
    thread.join(10)
    assert not store.has(digest)


def test_gc_removes_what_a_dead_writer_left(store):
    left = os.path.join(store.root, "tmp", "half")
    with open(left, "w") as file:
        file.write("half")
    store.gc(set())
    assert os.path.exists(left)  # may still be written
    os.utime(left, (0, 0))
    store.gc(set())
    assert not os.path.exists(left)


def test_a_missing_blob_is_explained(store):
    with pytest.raises(PackagingError, match="missing"):
        store.read("0" * 64)


def test_many_threads_putting_the_same_blob_make_one(store):
    data = os.urandom(CHUNK * 2)
    digests = []
    threads = [threading.Thread(target=lambda: digests.append(store.put(data))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(digests) == {hashlib.sha256(data).hexdigest()}
    assert everything_in(store.root) == [store.path(digests[0])]


def test_a_full_disk_is_explained_and_leaves_nothing_behind(store, monkeypatch):
    real = os.write

    def full(fd, data):
        real(fd, bytes(data[:3]))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(PackagingError, match="disk is full") as failure:
        store.put(b"too much")
    assert "dromon gc" in failure.value.hint
    assert everything_in(store.root) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_really_full_file_system_is_explained(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], capture_output=True
    ).returncode:
        pytest.skip("this machine does not allow mounting")
    try:
        store = BlobStore(str(small / "store"))
        big = tmp_path / "big"
        big.write_bytes(os.urandom(3 * CHUNK))
        with pytest.raises(PackagingError, match="disk is full"):
            store.put_file(str(big))
        assert everything_in(store.root) == []
        assert store.read(store.put(b"there is room for this")) == b"there is room for this"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_writer_killed_half_way_leaves_no_blob(tmp_path):
    # A file size limit kills the writer in the middle of its write.
    script = (
        "import sys; from dromon.storage.blobs import BlobStore; "
        "BlobStore(sys.argv[1]).put(b'x' * 300_000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import signal; signal.signal(signal.SIGXFSZ, 0);" + script,
         str(tmp_path / "s")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
        capture_output=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert not [
        p for p in everything_in(tmp_path / "s") if not p.startswith(str(tmp_path / "s" / "tmp"))
    ]
    assert BlobStore(str(tmp_path / "s")).put(b"x" * 300_000)
