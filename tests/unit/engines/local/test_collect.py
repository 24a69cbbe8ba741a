"""Cleaning up: what no job names goes, what any job may still need stays."""

import hashlib
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from dromon.agent.record import Record
from dromon.engines import outputs
from dromon.engines.home import Home
from dromon.engines.local import collect
from dromon.engines.local.collect import Environments
from dromon.engines.local.journal import Journal, Row
from dromon.packaging import payload, snapshot
from dromon.storage.blobs import BlobStore


class Store:
    """A state directory with jobs in it, and no daemon."""

    def __init__(self, root: Path) -> None:
        self.home = Home(str(root))
        os.makedirs(self.home.path("jobs"))
        self.blobs = BlobStore(self.home.blobs)
        self.journal = Journal(self.home.journal)
        self.root = root

    def job(self, id: str, *, code: str | None = None, function: str | None = None,
            environment: str | None = None) -> None:  # fmt: skip
        request = {
            "code": {"digest": code, "size": 1} if code else None,
            "payload": {"digest": function, "size": 1} if function else None,
            "environment": {"kind": "host"},
        }
        row = Row(id, hash(id) % 10**6, "t", "succeeded", 1.0, 1.0, 2.0, 1, json.dumps(request),
                  None)  # fmt: skip
        self.journal.add_job(row)
        if environment:
            built = {"kind": "_environment", "environment": {"digest": environment}}
            self.journal.add_event(id, 1, 1.0, built)
        self.journal.commit()
        os.makedirs(self.home.record(id))

    def snapshot(self, **files: str) -> str:
        work = self.root / "work" / hashlib.sha256(repr(files).encode()).hexdigest()[:8]
        work.mkdir(parents=True)
        for name, text in files.items():
            (work / name).write_text(text)
        return snapshot.snapshot(str(work), self.blobs, index_dir=self.home.path("index")).digest

    def collect(self) -> int:
        return collect.collect(self.home, self.blobs, self.journal.removed())

    def stored(self) -> set[str]:
        return {digest for digest, _, _ in self.blobs._all()}


@pytest.fixture
def store(tmp_path: Path):
    made = Store(tmp_path / "home")
    yield made
    made.journal.close()


def test_code_functions_and_outputs_that_jobs_name_stay(store):
    code = store.snapshot(a="one", b="two")
    function = store.blobs.put(payload.dump(len, ("abc",)))
    store.job("a-aaaaaa", code=code)
    store.job("b-aaaaaa", function=function)
    record = Record(store.home.record("a-aaaaaa"))
    os.makedirs(record.work(1))
    Path(record.work(1), "model").write_text("weights")
    outputs.keep(record, 1, ["model"], store.blobs)
    before = store.stored()
    assert len(before) == 5
    assert store.collect() == 0
    assert store.stored() == before


def test_what_nothing_names_any_more_goes(store):
    shared = store.snapshot(a="shared", b="only here")
    other = store.snapshot(a="shared")
    store.job("a-aaaaaa", code=shared)
    store.job("b-aaaaaa", code=other)
    store.journal.remove(["a-aaaaaa"])
    store.journal.commit()
    assert store.journal.removed() == ["a-aaaaaa"]
    assert store.collect() > 0
    assert store.stored() == snapshot.reachable(other, store.blobs)
    assert os.listdir(store.home.path("jobs")) == ["b-aaaaaa"]


def test_a_record_the_journal_does_not_know_stays(store):
    """A journal can be lost; the records must not follow it."""
    os.makedirs(store.home.record("old-aaaaaa"))
    store.collect()
    assert os.listdir(store.home.path("jobs")) == ["old-aaaaaa"]


def test_a_damaged_snapshot_does_not_keep_everything_from_being_cleaned(store):
    code = store.snapshot(a="one")
    store.job("a-aaaaaa", code=code)
    Path(store.blobs.path(code)).write_text("not a manifest")
    loose = store.blobs.put(b"nobody's")
    store.collect()
    assert loose not in store.stored()


def test_a_job_accepted_while_the_cleaner_waits_keeps_its_code(store):
    """Between the snapshot and its job's row lies a pin; the cleaner must look after it."""
    code = store.snapshot(a="one")
    with store.blobs.pinned():
        cleaner = threading.Thread(target=store.collect)
        cleaner.start()
        cleaner.join(0.2)
        assert cleaner.is_alive()
        store.job("a-aaaaaa", code=code)
    cleaner.join(60)
    assert store.stored() == snapshot.reachable(code, store.blobs)


# ---- environments -------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DROMON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def built(cache: Path, digest: str) -> Path:
    """An environment as a build leaves it."""
    home = cache / "environments" / digest
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").write_text("")
    (home / "complete").write_text("1\n")
    return home


def test_an_environment_a_job_ran_in_stays_and_another_goes(store, cache):
    used, unused = built(cache, "used"), built(cache, "unused")
    store.job("a-aaaaaa", environment="used")
    os.close(Environments(store.home).pin())
    assert Environments(store.home).collect() > 0
    assert used.exists()
    assert not unused.exists()


def test_an_environment_of_another_state_directory_of_this_user_stays(store, cache, tmp_path):
    theirs = built(cache, "theirs")
    other = Store(tmp_path / "other")
    other.job("a-aaaaaa", environment="theirs")
    os.close(Environments(other.home).pin())
    Environments(store.home).collect()
    assert theirs.exists()
    other.journal.close()
    shutil.rmtree(other.home.root)  # that state directory is deleted: nobody needs it now
    Environments(store.home).collect()
    assert not theirs.exists()


def test_nothing_goes_while_an_environment_is_built_and_not_yet_on_record(store, cache):
    fresh = built(cache, "fresh")
    pin = Environments(store.home).pin()
    assert Environments(store.home).collect() == 0
    assert fresh.exists()
    os.close(pin)
    Environments(store.home).collect()
    assert not fresh.exists()


def test_without_a_cache_there_is_nothing_to_do(store, cache):
    assert Environments(store.home).collect() == 0
    assert not cache.exists()


# ---- through the daemon -------------------------------------------------------------------------


def blobs_of(local) -> int:
    return sum(1 for _ in BlobStore(local.home.blobs)._all())


def test_removing_a_job_frees_its_record_its_code_and_its_outputs(local, jobs):
    Path(jobs.cwd, "make.py").write_text("open('model', 'w').write('weights')")
    before = blobs_of(local)
    id = jobs.run("python", "make.py", outputs=["model"])
    jobs.end(id)
    assert blobs_of(local) == before + 3
    assert os.path.isdir(local.home.record(id))
    found = local.client.ask("remove", refs=[id])
    assert found["removed"] == [id]
    assert found["freed"] > 0
    assert blobs_of(local) == before
    assert not os.path.exists(local.home.record(id))
    assert jobs.run("true") != id


def test_a_record_left_by_a_daemon_killed_while_removing_goes_with_the_next_cleaning(local, jobs):
    id = jobs.run("true")
    jobs.end(id)
    stop = local.client.ask("daemon_stop")
    local.client.wait_gone(int(stop["pid"]))
    journal = Journal(local.home.journal)
    journal.remove([id])
    journal.commit()
    journal.close()
    assert os.path.isdir(local.home.record(id))
    local.client.ask("gc")
    assert not os.path.exists(local.home.record(id))


def test_cleaning_leaves_a_queued_job_all_it_needs(local, jobs):
    Path(jobs.cwd, "say.py").write_text("print('still here')")
    every = {"cpus": float(len(os.sched_getaffinity(0)))}
    first = jobs.run("sleep 60", resources=every)
    jobs.until(first, "running")
    second = jobs.run("python", "say.py")
    assert local.status(second).state == "queued"
    local.client.ask("gc", older_than=0.0)
    local.stop(first, 0.0)
    assert local.wait(second, 60).state == "succeeded"
    assert [line.text for line in local.logs(second, False)] == ["still here"]


def test_history_stays_until_it_is_cleaned_away_and_numbers_are_not_given_again(local, jobs):
    id = jobs.run("echo kept")
    number = jobs.end(id)["status"]["number"]
    assert local.client.ask("gc")["removed"] == []
    assert local.client.ask("gc", older_than=3600.0)["removed"] == []
    assert [line.text for line in local.logs(id, False)] == ["kept"]
    dry = local.client.ask("gc", older_than=0.0, dry_run=True)
    assert id in dry["removed"]
    assert local.status(id).state == "succeeded"
    assert id in local.client.ask("gc", older_than=0.0)["removed"]
    assert os.listdir(local.home.path("jobs")) == []
    assert local.client.ask("find", ref=jobs.run("true"))["number"] > number


def test_submitting_and_cleaning_at_once_never_loses_code(local, jobs):
    """Every job of a fresh directory runs, though a cleaner is always at work."""
    over = threading.Event()

    def clean() -> None:
        while not over.is_set():
            local.client.ask("gc", older_than=0.0)

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    try:
        for number in range(8):
            Path(jobs.cwd, "say.py").write_text(f"print({number})")
            id = jobs.run("python", "say.py")
            for status in local.watch(id):
                last = status
            assert last.state == "succeeded", last.verdict
    finally:
        over.set()
        cleaner.join()
