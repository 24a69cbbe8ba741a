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
from dromon.packaging import index as indexes
from dromon.packaging.snapshot import (
    EMPTY,
    diff,
    git_facts,
    manifest,
    materialise,
    reachable,
    snapshot,
)
from dromon.storage.blobs import BlobStore


class Bench:
    """A working directory, a store and an index."""

    def __init__(self, root):
        self.root = root
        self.work = root / "work"
        self.work.mkdir()
        self.store = BlobStore(str(root / "store"))
        self.index = str(root / "index")

    def write(self, path, text="x", *, mode=None):
        file = self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if mode is not None:
            file.chmod(mode)
        return file

    def take(self, **options):
        return snapshot(str(self.work), self.store, index_dir=self.index, **options)

    def paths(self, **options):
        return [e.path for e in manifest(self.take(**options).digest, self.store)]

    def settle(self):
        """As if everything had been written long ago: the next snapshot trusts the index."""
        for data in indexes._indexes.values():
            for directory in data.directories.values():
                directory.racy = False
                for name, known in directory.ignores.items():
                    directory.ignores[name] = (*known[:4], False, known[5])
                for file in directory.files.values():
                    file.racy = False


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def git(where, *args):
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main", *args],
        cwd=where, check=True, capture_output=True,
    )  # fmt: skip


def test_an_unchanged_tree_keeps_its_digest_and_stores_nothing(bench):
    bench.write("a.py", "1")
    bench.write("p/b.py", "2")
    first = bench.take()
    assert first.files == 2
    assert first.size == 2
    assert first.stored > 2
    again = bench.take()
    assert (again.digest, again.stored, again.files) == (first.digest, 0, 2)
    bench.settle()
    again = bench.take()
    assert (again.digest, again.stored, again.files) == (first.digest, 0, 2)


def test_the_index_is_only_a_cache(bench):
    bench.write("a.py", "1")
    first = bench.take()
    indexes._indexes.clear()
    assert bench.take().digest == first.digest  # read back from disk
    indexes._indexes.clear()
    for name in os.listdir(bench.index):
        with open(os.path.join(bench.index, name), "w") as file:
            file.write('{"version": 1, "directories": {"": [1]}}')
    assert bench.take().digest == first.digest  # damaged
    indexes._indexes.clear()
    shutil.rmtree(bench.index)
    assert bench.take().digest == first.digest  # gone


def test_an_index_that_cannot_be_written_costs_time_only(bench):
    bench.write("a.py")
    with open(bench.index, "w") as file:
        file.write("a file where the directory should be")
    assert bench.take().files == 1


def test_the_digest_depends_on_content_alone(bench, tmp_path):
    bench.write("a.py", "1")
    bench.write("p/b.sh", "2", mode=0o700)
    first = bench.take()
    (tmp_path / "elsewhere").mkdir()
    other = Bench(tmp_path / "elsewhere")
    other.write("p/b.sh", "2", mode=0o755)
    other.write("a.py", "1", mode=0o600)
    assert other.take().digest == first.digest


def test_a_file_edited_in_place_is_seen(bench):
    file = bench.write("p/a.py", "one")
    first = bench.take()
    bench.settle()
    bench.take()
    with open(file, "r+") as handle:
        handle.write("two")
    second = bench.take()
    assert diff(first.digest, second.digest, bench.store) == [("p/a.py", "changed")]


def test_an_edit_that_keeps_size_and_times_is_seen_while_the_file_is_young(bench):
    file = bench.write("a.py", "one")
    st = os.stat(file)
    first = bench.take()
    with open(file, "r+") as handle:
        handle.write("two")
    os.utime(file, ns=(st.st_atime_ns, st.st_mtime_ns))
    for index in indexes._indexes.values():  # a clock too coarse to tell the two writes apart
        for known in index.directories[""].files.values():
            known.ctime = os.stat(file).st_ctime_ns
    assert bench.take().digest != first.digest


def test_files_added_removed_renamed_and_made_executable_are_seen(bench):
    bench.write("a.py", "1")
    bench.write("p/q/b.py", "2")
    first = bench.take().digest
    bench.settle()
    bench.write("p/q/c.py", "3")
    second = bench.take().digest
    assert diff(first, second, bench.store) == [("p/q/c.py", "added")]
    bench.settle()
    (bench.work / "p/q/b.py").rename(bench.work / "b.py")
    third = bench.take().digest
    assert diff(second, third, bench.store) == [("b.py", "added"), ("p/q/b.py", "removed")]
    bench.settle()
    (bench.work / "a.py").chmod(0o755)
    fourth = bench.take().digest
    assert diff(third, fourth, bench.store) == [("a.py", "changed")]
    bench.settle()
    shutil.rmtree(bench.work / "p")
    fifth = bench.take().digest
    assert diff(fourth, fifth, bench.store) == [("p/q/c.py", "removed")]


def test_every_level_of_gitignore_holds_and_dromonignore_wins(bench):
    git(bench.work, "init", "-q")
    bench.write(".gitignore", "*.log\n/data/\nbuild/\n")
    bench.write("sub/.gitignore", "!keep.log\nlocal\n")
    bench.write(".git/info/exclude", "excluded\n")
    bench.write(".dromonignore", "!weights.log\nnotes/\n")
    for path in ["a.py", "x.log", "weights.log", "data/big", "sub/data/small", "sub/keep.log",
                 "sub/local", "build/out", "excluded", "notes/n", "untracked.txt"]:  # fmt: skip
        bench.write(path)
    taken = bench.take()
    assert [e.path for e in manifest(taken.digest, bench.store)] == [
        ".dromonignore", ".gitignore", "a.py", "sub/.gitignore", "sub/data/small",
        "sub/keep.log", "untracked.txt", "weights.log",
    ]  # fmt: skip
    assert {(x.path, x.reason) for x in taken.left_out} == {
        ("x.log", ".gitignore: *.log"), ("data", ".gitignore: /data/"),
        ("build", ".gitignore: build/"), ("sub/local", "sub/.gitignore: local"),
        ("excluded", ".git/info/exclude: excluded"), ("notes", ".dromonignore: notes/"),
    }  # fmt: skip
    assert {x.size for x in taken.left_out} == {1}


def test_a_changed_ignore_file_is_seen_by_directories_that_did_not_change(bench):
    bench.write("p/q/a.log")
    bench.write("p/q/a.py")
    bench.write(".gitignore", "nothing\n")
    assert "p/q/a.log" in bench.paths()
    bench.settle()
    bench.write(".gitignore", "*.log\n")
    assert "p/q/a.log" not in bench.paths()
    bench.settle()
    (bench.work / ".gitignore").unlink()
    assert "p/q/a.log" in bench.paths()


def test_the_rules_of_the_repository_above_hold_in_a_subdirectory(bench):
    git(bench.root, "init", "-q")
    (bench.root / ".gitignore").write_text("*.log\n/work/data\n")
    bench.write("a.py")
    bench.write("a.log")
    bench.write("data/d")
    assert bench.paths() == ["a.py"]
    bench.settle()
    (bench.root / ".gitignore").write_text("/work/data\n")
    assert bench.paths() == ["a.log", "a.py"]


def test_a_workdir_its_repository_ignores_is_taken_all_the_same(bench):
    git(bench.root, "init", "-q")
    (bench.root / ".gitignore").write_text("*\n")
    bench.write("a.py")
    assert bench.paths() == ["a.py"]


def test_what_is_surely_not_code_is_always_left_out(bench):
    git(bench.work, "init", "-q")
    bench.write("a.py")
    bench.write("__pycache__/a.cpython-311.pyc")
    bench.write("stray.pyc")
    bench.write(".hg/x")
    bench.write(".dromon/x")
    bench.write(".venv/pyvenv.cfg")
    bench.write(".venv/lib/big.so", "12345")
    bench.write("venv/not_an_environment.py")
    taken = bench.take()
    assert [e.path for e in manifest(taken.digest, bench.store)] == [
        "a.py", "venv/not_an_environment.py",
    ]  # fmt: skip
    assert list(taken.left_out) == [(".venv", "a virtual environment", 6)]
    bench.settle()
    (bench.work / ".venv/pyvenv.cfg").unlink()
    assert ".venv/lib/big.so" in bench.paths()


def test_empty_directories_links_and_modes_come_back(bench):
    bench.write("run.sh", "#!/bin/sh\n", mode=0o755)
    bench.write("p/plain.py", "y")
    (bench.work / "outputs/deep").mkdir(parents=True)
    os.symlink("p/plain.py", bench.work / "relative")
    os.symlink(str(bench.work / "p"), bench.work / "absolute")
    os.symlink("nowhere", bench.work / "dangling")
    digest = bench.take().digest
    target = bench.root / "out"
    materialise(digest, bench.store, str(target), {"extra/e.txt": b"extra"})
    assert os.access(target / "run.sh", os.X_OK)
    assert not os.access(target / "p/plain.py", os.X_OK)
    assert (target / "outputs/deep").is_dir()
    assert os.readlink(target / "relative") == "p/plain.py"
    assert os.path.realpath(target / "absolute") == str(target / "p")
    assert os.readlink(target / "dangling") == "nowhere"
    assert (target / "extra/e.txt").read_bytes() == b"extra"


def test_a_job_that_writes_into_its_code_changes_no_other(bench):
    bench.write("small", "small")
    bench.write("large", "l" * 3_000_000)
    digest = bench.take().digest
    for name in ("one", "two"):
        materialise(digest, bench.store, str(bench.root / name))
    for name in ("small", "large"):
        with open(bench.root / "one" / name, "r+") as file:
            file.write("WRITTEN")
        assert (bench.root / "two" / name).read_text() == (bench.work / name).read_text()
    materialise(digest, bench.store, str(bench.root / "three"))
    assert (bench.root / "three/large").read_text() == "l" * 3_000_000


def test_a_later_edit_never_reaches_the_snapshot(bench):
    bench.write("a.py", "submitted")
    digest = bench.take().digest
    bench.write("a.py", "edited later")
    materialise(digest, bench.store, str(bench.root / "out"))
    assert (bench.root / "out/a.py").read_text() == "submitted"


def test_an_empty_workdir_is_one_directory(bench):
    assert bench.take().digest == EMPTY
    materialise(EMPTY, bench.store, str(bench.root / "deep/out"))
    assert os.listdir(bench.root / "deep/out") == []
    assert manifest(EMPTY, bench.store) == []


def test_an_unpacking_that_was_killed_leaves_no_target_and_is_done_again(bench):
    bench.write("a.py", "a")
    digest = bench.take().digest
    (bench.root / "out.partial").mkdir()
    (bench.root / "out.partial/stray").write_text("left by one that was killed")
    materialise(digest, bench.store, str(bench.root / "out"))
    assert os.listdir(bench.root / "out") == ["a.py"]
    with pytest.raises(PackagingError, match="cannot be unpacked"):
        materialise(digest, bench.store, str(bench.root / "out"))
    assert not (bench.root / "out.partial").exists()
    bench.store.gc({digest})
    with pytest.raises(PackagingError, match="missing"):
        materialise(digest, bench.store, str(bench.root / "two"))
    assert not (bench.root / "two").exists()


def test_many_files_come_back_equal(bench):
    for i in range(150):
        bench.write(f"d{i % 7}/f{i}", f"content {i}")
    materialise(bench.take().digest, bench.store, str(bench.root / "out"))
    subprocess.run(["diff", "-r", str(bench.work), str(bench.root / "out")], check=True)


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
