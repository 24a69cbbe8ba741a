"""What a snapshot holds, as text: one JSON object a line, sorted by path. Its sha256 is its name.

    {"digest": …, "mode": "file" | "executable", "path": …, "size": n}
    {"link": target, "path": …}
    {"directory": true, "path": …}

Directories are listed when they are empty; the others follow from what is in them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dromon.errors import PackagingError
from dromon.storage.blobs import BlobStore

EMPTY = hashlib.sha256(b"").hexdigest()  # the snapshot of an empty directory


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    digest: str = ""
    size: int = 0
    executable: bool = False
    link: str = ""
    is_directory: bool = False

    def line(self) -> str:
        path = json.dumps(self.path)
        if self.link:
            return f'{{"link":{json.dumps(self.link)},"path":{path}}}\n'
        if self.is_directory:
            return f'{{"directory":true,"path":{path}}}\n'
        mode = "executable" if self.executable else "file"
        return f'{{"digest":"{self.digest}","mode":"{mode}","path":{path},"size":{self.size}}}\n'


def encode(entries: Iterable[Entry]) -> bytes:
    return "".join(e.line() for e in sorted(entries, key=lambda e: e.path)).encode("ascii")


def decode(data: bytes) -> list[Entry]:
    """The entries, checked: none leads out of the directory it is unpacked into."""
    entries = []
    for line in data.splitlines():
        try:
            fields = json.loads(line)
            path = fields["path"]
            entry = Entry(
                path, fields.get("digest", ""), fields.get("size", 0),
                fields.get("mode") == "executable", fields.get("link", ""),
                bool(fields.get("directory")),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PackagingError("This is not a snapshot's manifest.") from None
        if is_outside(path):
            raise PackagingError(f"The snapshot names a path outside of itself: {path!r}.")
        entries.append(entry)
    return entries


def manifest(digest: str, store: BlobStore) -> list[Entry]:
    return [] if digest == EMPTY else decode(store.read(digest))


def reachable(digest: str, store: BlobStore) -> set[str]:
    """Every blob this snapshot needs, itself included."""
    return {digest, *(e.digest for e in manifest(digest, store) if e.digest)}


def diff(a: str, b: str, store: BlobStore) -> list[tuple[str, str]]:
    """(path, "added" | "removed" | "changed") from a to b, sorted by path."""
    return list(_diff(manifest(a, store), manifest(b, store))) if a != b else []


def _diff(before: list[Entry], after: list[Entry]) -> Iterator[tuple[str, str]]:
    old = {e.path: e for e in before}
    new = {e.path: e for e in after}
    for path in sorted(old.keys() | new.keys()):
        if path not in old:
            yield path, "added"
        elif path not in new:
            yield path, "removed"
        elif old[path] != new[path]:
            yield path, "changed"


def is_outside(path: str) -> bool:
    parts = path.split("/")
    return not path or "\0" in path or any(p in ("", ".", "..") for p in parts)
