"""The code of a working directory, fixed by content."""

import os
import shutil
import subprocess

import pytest

from dromon.errors import PackagingError
from dromon.packaging import index as indexes
from dromon.packaging.snapshot import (
    EMPTY,
    diff,
    manifest,
    materialise,
)


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
            file.write(f'{{"version": {indexes.VERSION}, "directories": {{"": [1]}}}}')
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
    other = type(bench)(tmp_path / "elsewhere")
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


def test_what_dromon_keeps_below_a_home_directory_is_not_code(bench):
    bench.write("a.py")
    bench.write(".local/state/dromon/jobs/x/work-1/a.py", "12345")
    bench.write(".local/share/b.py")
    taken = bench.take(ours=[str(bench.work / ".local/state/dromon"), "/nowhere"])
    paths = [e.path for e in manifest(taken.digest, bench.store)]
    assert paths == [".local/share/b.py", ".local/state", "a.py"]
    assert list(taken.left_out) == [(".local/state/dromon", "Dromon's own", 5)]


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
