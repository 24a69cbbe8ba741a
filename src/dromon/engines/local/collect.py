"""Taking away what no job needs any more: records, blobs, environments.

Whoever is about to name a blob or an environment holds a pin until the journal names it; what is
in use is read from the journal while nobody holds one. Environments are shared by all of a user's
state directories, so each that uses them is listed in the cache and asked too.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dromon.agent.record import Record
from dromon.engines import outputs
from dromon.engines.home import Home
from dromon.engines.local.arbiter import ENVIRONMENT
from dromon.errors import PackagingError
from dromon.packaging import environment, snapshot
from dromon.storage.blobs import BlobStore


def collect(home: Home, blobs: BlobStore, removed: Sequence[str] = ()) -> int:
    """The records of removed jobs, and blobs no job names. Returns the bytes freed in the store.

    Records nobody removed stay, also when the journal does not know them: a journal can be lost.
    """
    for id in removed:
        shutil.rmtree(home.record(id), ignore_errors=True)
    return blobs.gc(lambda: _blobs(home, blobs))


def _blobs(home: Home, blobs: BlobStore) -> set[str]:
    """Every blob a job names: its code, its function, its outputs."""
    code: set[str] = set()
    others: set[str] = set()
    for id, request in _requests(home.journal):
        for key, names in (("code", code), ("payload", others)):
            if request.get(key):
                names.add(str(request[key]["digest"]))
        kept = outputs.read(Record(home.record(id)))["outputs"]
        others |= {entry["digest"] for entry in kept if "digest" in entry}
    for digest in code:
        try:
            others |= snapshot.reachable(digest, blobs)
        except PackagingError:
            others.add(digest)  # damaged or lost: what is left of it may stay
    return others


# ---- environments -------------------------------------------------------------------------------


class Environments:
    """The cache of built environments, as seen from one state directory."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.root = home.cache

    def pin(self) -> int:
        """A descriptor; until it is closed no environment goes. Blocks while some do."""
        fd = self._open()
        name = hashlib.sha256(self.home.root.encode()).hexdigest()[:16]
        users = os.path.join(self.root, "users")
        os.makedirs(users, mode=0o700, exist_ok=True)
        with open(os.path.join(users, name), "w") as file:
            file.write(self.home.journal)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return fd

    def collect(self) -> int:
        """Take away what no job of any state directory names, unless one is just being built.
        Returns the bytes freed."""
        if not os.path.isdir(os.path.join(self.root, "environments")):
            return 0
        with self._alone() as alone:
            return environment.gc(self.root, self._in_use()) if alone else 0

    def _in_use(self) -> set[str]:
        users = os.path.join(self.root, "users")
        found: set[str] = set()
        for name in os.listdir(users) if os.path.isdir(users) else ():
            path = os.path.join(users, name)
            with open(path) as file:
                journal = file.read()
            if os.path.exists(journal):
                found |= _environments(journal)
            else:
                os.unlink(path)  # that state directory was deleted
        return found

    def _open(self) -> int:
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        path = os.path.join(self.root, "lock")
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        fd = self._open()
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield True
            except BlockingIOError:
                yield False
        finally:
            os.close(fd)


# ---- journals, read beside whoever writes them --------------------------------------------------


def _requests(journal: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for id, request in _read(journal, "SELECT id, request FROM jobs"):
        yield id, json.loads(request)


def _environments(journal: str) -> set[str]:
    found = {request["environment"].get("digest") for _, request in _requests(journal)}
    for (text,) in _read(journal, "SELECT event FROM events"):
        if ENVIRONMENT in text:
            found.add(json.loads(text).get("environment", {}).get("digest"))
    return {digest for digest in found if digest}


def _read(journal: str, query: str) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=30)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()
