"""The working directory, fixed by content at submit: a later edit never reaches a queued job.

`snapshot` looks at the tree (`tree`), stores what is new and names the whole by the sha256 of its
manifest. An unchanged tree costs one stat per file and stores nothing.
"""

import errno
import json
import os
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dromon.errors import PackagingError
from dromon.packaging import git
from dromon.packaging import index as indexes
from dromon.packaging.index import Index
from dromon.packaging.manifest import (
    EMPTY,
    Entry,
    decode,
    diff,
    encode,
    is_outside,
    manifest,
    reachable,
)
from dromon.packaging.materialise import FEW, many, materialise
from dromon.packaging.tree import REMEDY, Directory, File, LeftOut, Walk, is_racy, unreadable
from dromon.storage.blobs import BlobStore

__all__ = [
    "EMPTY", "Entry", "LeftOut", "Snapshot", "decode", "diff", "git_facts", "manifest",
    "materialise", "reachable", "snapshot",
]  # fmt: skip

LIMIT = 512 * 1024 * 1024

git_facts = git.facts


@dataclass(frozen=True, slots=True)
class Snapshot:
    digest: str
    files: int
    size: int  # bytes of all files
    stored: int  # bytes that were not in the store before
    left_out: tuple[LeftOut, ...] = ()
    seconds: float = 0.0


def snapshot(
    workdir: str,
    store: BlobStore,
    *,
    index_dir: str,
    limit: int = LIMIT,
    files: Mapping[str, str] | None = None,
    ours: Collection[str] = (),
) -> Snapshot:
    """Fix the code in `workdir`. `files` maps further paths in the snapshot to files elsewhere.
    `ours`: directories of Dromon's own, which are no code where they lie in it.

    Hold `store.pinned()` around this call and until the digest is on record, if `gc` may run.
    """
    began = time.monotonic()
    root = os.path.realpath(workdir)
    if not os.path.isdir(root):
        raise PackagingError(
            f"The working directory {workdir} is not a directory.",
            hint="Set `workdir:` in the job file to where the code lies.",
        )
    place = os.path.join(index_dir, indexes.name(root, store.root))
    index = indexes.remembered(place)
    with index.lock, store.pinned():
        own = {os.path.realpath(path) for path in ours}
        return _Taking(root, store, place, index, limit, began, own).take(files or {})


class _Taking:
    """One snapshot being taken, with the index locked."""

    def __init__(
        self, root: str, store: BlobStore, place: str, index: Index, limit: int, began: float,
        ours: Collection[str],
    ) -> None:  # fmt: skip
        self.root = root
        self.store = store
        self.place = place
        self.index = index
        self.limit = limit
        self.began = began
        self.ours = ours
        self.stored = 0
        self.counting = threading.Lock()
        self.dirty = False  # the index on disk no longer says what the one in memory does

    def take(self, files: Mapping[str, str]) -> Snapshot:
        index = self.index
        rules, sources = git.outer_rules(self.root)
        outer = [list(s) for s in sources]
        # Until the manifest stands again: whatever stops us here, the next time one is made.
        last, index.digest = index.digest, ""
        walk = Walk(self.root, self.limit, index.directories, self.ours)
        walk.run(rules, fresh=outer != index.outer)
        index.directories, index.outer = walk.directories, outer
        self._settle_generation(walk)
        changed = self._hash(walk) or walk.changed
        extra, extra_size = self._extra(files, self.limit - walk.size)
        key = json.dumps([[e.path, e.digest, e.executable] for e in extra])
        if changed or key != index.key or not last or not self.store.has(last):
            entries = _merged(_entries(index.directories), extra)
            index.files = sum(1 for e in entries if not e.is_directory)
            made = self.store.insert(encode(entries))
            index.digest, index.key = made.digest, key
            self.stored += made.size if made.is_new else 0
            self.dirty = True
        else:
            index.digest = last
        if self.dirty:
            indexes.save(self.place, self.root, index)
        return Snapshot(
            index.digest, index.files, walk.size + extra_size, self.stored,
            tuple(_left_out(index.directories)), time.monotonic() - self.began,
        )  # fmt: skip

    def _settle_generation(self, walk: Walk) -> None:
        """After a `gc`, a digest in the index may name a blob that is gone."""
        now = self.store.generation()
        if now == self.index.generation:
            return
        for where, found in walk.directories.items():
            for name, file in found.files.items():
                if file.digest and not file.racy and not self.store.has(file.digest):
                    file.digest = ""
                    walk.unhashed.append((where, name, file))
        self.index.extra = {p: f for p, f in self.index.extra.items() if self.store.has(f.digest)}
        self.index.generation = now
        self.dirty = True

    def _hash(self, walk: Walk) -> bool:
        """Store what has no digest yet. Says whether anything is different now."""
        changed = False
        # A few files read again because they are young are not worth writing the index for.
        self.dirty |= len(walk.unhashed) > FEW
        paths = [f"{where}/{name}" if where else name for where, name, _ in walk.unhashed]
        for (where, name, old), file in zip(
            walk.unhashed, many(lambda p: self._store(f"{self.root}/{p}", p), paths), strict=True
        ):
            found = walk.directories[where]
            if file is None:
                del found.files[name]  # it went away while we looked
                found.racy = changed = True
                continue
            found.files[name] = file
            walk.size += file.size - old.size
            changed |= (file.digest, file.executable) != (old.digest, old.executable)
        return changed

    def _store(self, path: str, shown: str) -> File | None:
        now = time.time_ns()
        try:
            # Should it have become a link or a pipe by now, neither follow nor wait for it.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(fd, "rb", buffering=0) as source:
                st = os.fstat(source.fileno())
                made = self.store.insert_file(source)
        except FileNotFoundError:
            return None
        except PermissionError:
            raise unreadable("file", shown) from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise PackagingError(
                f"The file {shown} cannot be read: {error.strerror}.", hint=REMEDY
            ) from error
        file = File.of(st)
        file.size = made.size
        file.digest = made.digest
        file.racy = is_racy(st, now)
        if made.is_new:
            with self.counting:
                self.stored += made.size
        return file

    def _extra(self, files: Mapping[str, str], room: int) -> tuple[list[Entry], int]:
        out: list[Entry] = []
        for dest, src in sorted(files.items()):
            clean = os.path.normpath(dest)
            if os.path.isabs(dest) or is_outside(clean):
                raise PackagingError(
                    f"files: {dest!r} is not a path inside the working directory.",
                    hint="Write `files:` as `path in the job: path on this machine`.",
                )
            source = os.path.realpath(os.path.join(self.root, os.path.expanduser(src)))
            if os.path.isdir(source):
                walk = Walk(source, room, {}, self.ours)
                walk.run(git.outer_rules(source)[0], fresh=True)
                self._hash_at(source, walk)
                inner = _entries(walk.directories, clean + "/")
                out += [e for e in inner if not e.is_directory]
                continue
            file = self._known(source)
            if file is None:
                raise PackagingError(
                    f"files: {src} does not exist, or is not a file.",
                    hint="Paths under `files:` are relative to the working directory.",
                )
            out.append(Entry(clean, file.digest, file.size, file.executable))
        return out, sum(e.size for e in out)

    def _hash_at(self, source: str, walk: Walk) -> None:
        paths = [f"{source}/{w}/{n}" if w else f"{source}/{n}" for w, n, _ in walk.unhashed]
        stored = many(lambda p: self._store(p, p), paths)
        for (where, name, _), file in zip(walk.unhashed, stored, strict=True):
            if file is not None:
                walk.directories[where].files[name] = file
            else:
                del walk.directories[where].files[name]

    def _known(self, source: str) -> File | None:
        try:
            st = os.stat(source)
        except OSError:
            return None
        known = self.index.extra.get(source)
        if known is not None and known.same(st) and not known.racy:
            return known
        if not os.path.isfile(source):
            return None
        file = self._store(source, source)
        if file is not None:
            self.index.extra[source] = file
            self.dirty = True
        return file


def _entries(directories: Mapping[str, Directory], under: str = "") -> list[Entry]:
    out: list[Entry] = []
    for where, found in directories.items():
        if found.is_environment:
            continue
        base = f"{under}{where}/" if where else under
        for name, f in found.files.items():
            out.append(Entry(base + name, f.digest, f.size, f.executable))
        for name, target in found.links.items():
            out.append(Entry(base + name, link=target))
        if where and not found.files and not found.links:
            inner = (directories.get(f"{where}/{name}") for name in found.directories)
            if all(d is None or d.is_environment for d in inner):
                out.append(Entry(base[:-1], is_directory=True))
    return out


def _merged(tree: list[Entry], extra: list[Entry]) -> list[Entry]:
    """`files:` win over the tree where they name the same path."""
    if not extra:
        return tree
    merged = {e.path: e for e in tree}
    for entry in extra:
        merged[entry.path] = entry
    leaves = {p for p, e in merged.items() if not e.is_directory}
    for entry in extra:
        parent = os.path.dirname(entry.path)
        while parent:
            if parent in leaves:
                raise PackagingError(
                    f"files: {entry.path} cannot be put there: {parent} is a file.",
                    hint="Choose another place for it under `files:`.",
                )
            parent = os.path.dirname(parent)
    beside = {os.path.dirname(p) for p in leaves}
    for entry in extra:
        below = entry.path + "/"
        if any(p.startswith(below) for p in beside) or entry.path in beside:
            raise PackagingError(
                f"files: {entry.path} cannot be put there: it is a directory of the code.",
                hint="Choose another place for it under `files:`.",
            )
    return [e for p, e in merged.items() if not (e.is_directory and p in beside)]


def _left_out(directories: Mapping[str, Directory]) -> list[LeftOut]:
    out: list[LeftOut] = []
    for where, found in directories.items():
        out += found.left_out
        if found.is_environment:
            out.append(LeftOut(where, "a virtual environment", found.size))
    return sorted(out, key=lambda x: x.path)
