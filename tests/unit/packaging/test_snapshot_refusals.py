"""Trees that cannot be taken as they are, and stores that were damaged."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from dromon.errors import PackagingError
from dromon.packaging.snapshot import (
    diff,
    git_facts,
    manifest,
    materialise,
    reachable,
    snapshot,
)
from dromon.storage.blobs import BlobStore


def git(where, *args):
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main", *args],
        cwd=where, check=True, capture_output=True,
    )  # fmt: skip


@pytest.mark.parametrize("target", ["../outside", "/etc/passwd", "p/../../outside"])
def test_a_link_out_of_the_tree_is_refused_by_name(bench, target):
    bench.write("p/x")
    os.symlink(target, bench.work / "p/link" if target == "/etc/passwd" else bench.work / "link")
    with pytest.raises(PackagingError) as failure:
        bench.take()
    assert "link" in failure.value.message
    assert target in failure.value.message
    assert "files:" in failure.value.hint
    assert ".dromonignore" in failure.value.hint
    bench.write(".dromonignore", "link\n")
    assert bench.take().files == 2


def test_sockets_and_pipes_are_left_out_and_said(bench):
    bench.write("a.py")
    os.mkfifo(bench.work / "pipe")
    here = os.getcwd()
    os.chdir(bench.work)  # a socket's path must be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("sock")
    finally:
        os.chdir(here)
    taken = bench.take()
    assert taken.files == 1
    assert [(x.path, x.reason) for x in taken.left_out] == [
        ("pipe", "a socket, pipe or device"),
        ("sock", "a socket, pipe or device"),
    ]


@pytest.mark.parametrize("what", ["secret.key", "closed"])
def test_what_cannot_be_read_is_refused_by_name(what):
    root = tempfile.mkdtemp()
    try:
        os.chmod(root, 0o777)
        work = os.path.join(root, "work")
        os.makedirs(os.path.join(work, "closed"))
        with open(os.path.join(work, "secret.key"), "w") as file:
            file.write("x")
        os.chmod(os.path.join(work, what), 0)
        was = os.geteuid()
        if was == 0:
            os.seteuid(65534)  # root reads everything
        try:
            store = BlobStore(os.path.join(root, "store"))
            with pytest.raises(PackagingError, match=f"{what} cannot be read") as failure:
                snapshot(work, store, index_dir=os.path.join(root, "index"))
            assert ".dromonignore" in failure.value.hint
        finally:
            os.seteuid(was)
        os.chmod(os.path.join(work, what), 0o700)
    finally:
        shutil.rmtree(root)


def test_over_the_limit_the_five_biggest_paths_are_named(bench):
    for i in range(7):
        bench.write(f"small{i}.py", "s" * (100 + i))
    bench.write("data/images/train.bin", "d" * 50_000)
    bench.write("data/readme", "r")
    bench.write("logs/a", "a" * 4_000)
    bench.write("logs/b", "b" * 4_000)
    with pytest.raises(PackagingError) as failure:
        bench.take(limit=20_000)
    message = failure.value.message
    named = [line.split()[-1] for line in message.splitlines()[1:]]
    assert named == ["data/images/train.bin", "logs/", "small6.py", "small5.py", "small4.py"]
    assert "57." in message  # KiB in all
    assert "19.5 KiB" in message
    assert ".dromonignore" in failure.value.hint
    bench.write(".dromonignore", "data\n")
    assert bench.take(limit=20_000).files == 10


def test_a_tree_refused_once_is_taken_right_the_next_time(bench):
    bench.write("a.py", "1")
    bench.write("b.py", "1")
    first = bench.take()
    bench.settle()
    bench.write("big", "b" * 1000)
    (bench.work / "b.py").unlink()
    with pytest.raises(PackagingError):
        bench.take(limit=500)
    (bench.work / "big").unlink()
    second = bench.take(limit=500)
    assert diff(first.digest, second.digest, bench.store) == [("b.py", "removed")]


def test_an_edit_seen_by_a_snapshot_that_failed_is_in_the_next(bench):
    bench.write("a.py", "one")
    first = bench.take()
    bench.settle()
    bench.write("a.py", "two")
    with pytest.raises(PackagingError, match="does not exist"):
        bench.take(files={"x.py": "missing.py"})
    assert diff(first.digest, bench.take().digest, bench.store) == [("a.py", "changed")]


def test_the_root_directory_is_refused_without_being_read_to_its_end(bench):
    with pytest.raises(PackagingError, match="too big to snapshot"):
        snapshot("/", bench.store, index_dir=bench.index, limit=1_000_000)


def test_a_workdir_that_is_none_is_refused(bench):
    with pytest.raises(PackagingError, match="not a directory"):
        snapshot(str(bench.work / "none"), bench.store, index_dir=bench.index)


def test_further_files_are_added_and_win(bench):
    bench.write("a.py", "tree")
    other = bench.root / "lib"
    (other / "pkg").mkdir(parents=True)
    (other / "one.py").write_text("elsewhere")
    (other / "pkg/__init__.py").write_text("p")
    files = {"a.py": str(other / "one.py"), "deep/two.py": "../lib/one.py", "pkg": "../lib/pkg"}
    taken = bench.take(files=files)
    materialise(taken.digest, bench.store, str(bench.root / "out"))
    assert (bench.root / "out/a.py").read_text() == "elsewhere"
    assert (bench.root / "out/deep/two.py").read_text() == "elsewhere"
    assert (bench.root / "out/pkg/__init__.py").read_text() == "p"
    assert bench.take(files=files).digest == taken.digest
    (other / "one.py").write_text("changed")
    assert bench.take(files=files).digest != taken.digest
    assert bench.paths() == ["a.py"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"../x": "a.py"}, "inside the working directory"),
        ({"/x": "a.py"}, "inside the working directory"),
        ({"x": "missing.py"}, "does not exist"),
        ({"a.py/x": "a.py"}, "a.py is a file"),
        ({"p": "a.py"}, "directory of the code"),
    ],
)
def test_further_files_that_make_no_sense_are_refused(bench, files, said):
    bench.write("a.py")
    bench.write("p/q/r.py")
    with pytest.raises(PackagingError, match=said):
        bench.take(files=files)


def test_after_gc_a_snapshot_stores_what_is_gone(bench):
    bench.write("a.py", "1")
    bench.write("b.py", "2")
    first = bench.take()
    bench.settle()
    assert bench.take().stored == 0
    bench.store.gc(set())
    again = bench.take()
    assert again.digest == first.digest
    assert again.stored == first.stored
    bench.store.gc(reachable(again.digest, bench.store))
    materialise(again.digest, bench.store, str(bench.root / "out"))
    assert sorted(os.listdir(bench.root / "out")) == ["a.py", "b.py"]


def test_a_damaged_blob_is_noticed_when_unpacked(bench):
    bench.write("a.py", "whole")
    digest = bench.take().digest
    (blob,) = reachable(digest, bench.store) - {digest}
    os.truncate(bench.store.path(blob), 2)
    with pytest.raises(PackagingError, match="damaged"):
        materialise(digest, bench.store, str(bench.root / "out"))


def test_a_manifest_that_leads_out_is_refused(bench):
    line = json.dumps({"path": "../../etc/cron.d/x", "link": "y"}) + "\n"
    digest = bench.store.put(line.encode())
    with pytest.raises(PackagingError, match="outside of itself"):
        materialise(digest, bench.store, str(bench.root / "out"))
    with pytest.raises(PackagingError, match="not a snapshot"):
        manifest(bench.store.put(b"\xff\xfe"), bench.store)


def test_names_that_are_no_text_come_back(bench):
    name = os.fsdecode(b"caf\xe9 \xff\n.py")
    with open(os.path.join(str(bench.work), name), "w") as file:
        file.write("x")
    bench.write("naïve ☃.py")
    materialise(bench.take().digest, bench.store, str(bench.root / "out"))
    assert sorted(os.listdir(bench.root / "out")) == sorted(os.listdir(bench.work))


def test_many_threads_take_the_same_snapshot(bench):
    for i in range(100):
        bench.write(f"f{i}", str(i))
    digests = []
    threads = [
        threading.Thread(target=lambda: digests.append(bench.take().digest)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(digests) == 6
    assert len(set(digests)) == 1


def test_a_tree_written_to_meanwhile_never_breaks_a_snapshot(bench):
    for i in range(50):
        bench.write(f"d/f{i}", str(i))
    stop = threading.Event()

    def churn():
        n = 0
        while not stop.is_set():
            n += 1
            bench.write(f"d/new{n % 20}", str(n))
            (bench.work / f"d/new{(n + 7) % 20}").unlink(missing_ok=True)
            time.sleep(0.001)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for i in range(15):
            taken = bench.take()
            materialise(taken.digest, bench.store, str(bench.root / f"out{i}"))
    finally:
        stop.set()
        thread.join()
    materialise(bench.take().digest, bench.store, str(bench.root / "last"))
    subprocess.run(["diff", "-r", str(bench.work), str(bench.root / "last")], check=True)


def test_git_facts_name_commit_branch_and_dirt(bench):
    assert git_facts(str(bench.work)) == {}
    git(bench.work, "init", "-q")
    bench.write("a.py")
    assert git_facts(str(bench.work)) == {"branch": "main", "dirty": True}
    git(bench.work, "add", ".")
    git(bench.work, "commit", "-qm", "one")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=bench.work, capture_output=True, text=True
    ).stdout.strip()
    clean = {"commit": head, "branch": "main", "dirty": False}
    assert git_facts(str(bench.work), bench.take().digest) == clean
    bench.write("sub/b.py")
    assert git_facts(str(bench.work), bench.take().digest) == {**clean, "dirty": True}
    shutil.rmtree(bench.work / "sub")
    git(bench.work, "pack-refs", "--all")
    (bench.work / "p").mkdir()
    assert git_facts(str(bench.work / "p")) == clean
    git(bench.work, "worktree", "add", "-q", "-b", "side", str(bench.root / "side"))
    assert git_facts(str(bench.root / "side")) == {**clean, "branch": "side"}
    git(bench.work, "checkout", "-q", "--detach")
    assert git_facts(str(bench.work)) == {"commit": head, "dirty": False}
