"""Taking away from HDFS what no job needs any more: records, blobs, what was never finished.

Two may collect at once, and others may submit meanwhile. A blob that no record names is first put
aside, then the records are read again: one that came in between gets its blob back. Whoever looks
for the blob in between does not find it, and puts it anew.

Blobs under the site's `public_root` stay: other users' records are not ours to read. So do YARN's
aggregated logs, which YARN keeps for as long as the cluster is told to.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from dromon.engines.yarn.staging import APPLICATION, TEMPORARY, Staging
from dromon.hadoop.hdfsfaults import HdfsError, NotThere
from dromon.hadoop.webhdfs import Status

SAFETY = 3600.0  # seconds for which what nobody names, or is not whole, may be somebody's work


@dataclass(frozen=True)
class Removed:
    """What went, or would have gone."""

    records: list[str] = field(default_factory=list)
    blobs: list[str] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)
    bytes: int = 0


def collect(
    staging: Staging,
    is_active: Callable[[str], bool],
    *,
    older_than: float,
    dry_run: bool = False,
) -> Removed:
    """``older_than``: seconds since a job's record last changed. ``is_active``: may the job of
    this id yet run? It is not asked about records that are too young.

    What nobody names, and records that no application has claimed, are left alone for an hour, or
    for ``older_than`` if that is less: 0 takes away everything that is not active.
    """
    hdfs = staging.hdfs
    aside = f"{staging.root}/{TEMPORARY}collect-{secrets.token_hex(8)}"
    if hdfs.stat(staging.root) is None:
        return Removed()
    hdfs.make_directory(aside)
    try:
        made = hdfs.stat(aside)
        sweep = _Sweep(staging, aside, made.mtime if made else 0, older_than, dry_run)
        return sweep.run(is_active)
    finally:
        try:
            hdfs.delete(aside)
            for directory in (staging.blobs, staging.jobs, staging.root):
                hdfs.delete(directory, recursive=False)
        except HdfsError:
            pass  # not empty; or the next one takes it


class _Sweep:
    def __init__(
        self, staging: Staging, aside: str, now: int, older_than: float, dry_run: bool
    ) -> None:
        self._staging = staging
        self._hdfs = staging.hdfs
        self._aside = aside
        self._now = now  # by the NameNode's clock, as all times here
        self._older_than = older_than
        self._safety = min(SAFETY, older_than)
        self._dry_run = dry_run
        self._bytes = 0

    def run(self, is_active: Callable[[str], bool]) -> Removed:
        # 1. records   2. blobs that no record left names   3. what was begun and never finished
        records = self._records(is_active)
        blobs = self._blobs(set(records))
        temporary = self._temporary()
        return Removed(records, blobs, temporary, self._bytes)

    def _records(self, is_active: Callable[[str], bool]) -> list[str]:
        gone = []
        for id in self._staging.records():
            path = self._staging.record(id)
            entries = self._list(path)
            changed = max((status.mtime for _, status in entries), default=0)
            claimed = any(name == APPLICATION for name, _ in entries)
            least = self._older_than if claimed else max(self._older_than, self._safety)
            if self._age(changed) < least or is_active(id):
                continue
            self._remove(path)
            gone.append(id)
        return gone

    def _blobs(self, without: set[str]) -> list[str]:
        needed = self._needed(without)
        candidates = {
            name: status
            for name, status in self._list(self._staging.blobs)
            if not name.startswith(TEMPORARY)
            and not _is_named(name, needed)
            and self._age(status.atime) >= self._safety
        }
        if not self._dry_run:
            for name in candidates:
                self._hdfs.rename(f"{self._staging.blobs}/{name}", f"{self._aside}/{name}")
            needed = self._needed(without)
        gone = []
        for name, status in candidates.items():
            if not _is_named(name, needed):
                gone.append(name)
                self._bytes += status.length
            elif not self._dry_run:
                self._hdfs.rename(f"{self._aside}/{name}", f"{self._staging.blobs}/{name}")
        return gone

    def _temporary(self) -> list[str]:
        gone = []
        staging = self._staging
        for directory in (staging.root, staging.blobs, staging.jobs):
            for name, status in self._list(directory):
                path = f"{directory}/{name}"
                if not name.startswith(TEMPORARY) or path == self._aside:
                    continue
                # A blob that is about to be renamed already has the time that all of them have.
                if self._age(max(status.mtime, status.atime)) >= self._safety:
                    self._remove(path)
                    gone.append(path)
        return gone

    def _needed(self, without: set[str]) -> set[str]:
        left = set(self._staging.records()) - without
        return {name for id in left for name in self._staging.refs(id)}

    def _remove(self, path: str) -> None:
        self._bytes += self._size(path)
        if not self._dry_run:
            self._hdfs.delete(path)

    def _size(self, path: str) -> int:
        status = self._hdfs.stat(path)
        if status is None:
            return 0
        if not status.is_directory:
            return status.length
        return sum(self._size(f"{path}/{name}") for name, _ in self._list(path))

    def _list(self, path: str) -> list[tuple[str, Status]]:
        try:
            return self._hdfs.list(path)
        except NotThere:
            return []

    def _age(self, then: int) -> float:
        return (self._now - then) / 1000


def _is_named(name: str, needed: set[str]) -> bool:
    """By its name, or by its digest alone."""
    return name in needed or name.partition(".")[0] in needed
