"""What is remembered of a working directory between snapshots: a cache, never the truth.

In memory for a daemon that lives long, on disk (as JSON) for the next one.
"""

import hashlib
import json
import os
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from dromon.packaging.tree import Directory, File

VERSION = 2  # of the file; another one is thrown away
REMEMBERED = 32  # working directories whose index stays in memory


@dataclass(slots=True)
class Index:
    """What is remembered of one working directory between snapshots."""

    directories: dict[str, Directory] = field(default_factory=dict)
    outer: list[list[str]] = field(default_factory=list)
    extra: dict[str, File] = field(default_factory=dict)  # sources of `files:`, by real path
    generation: str = ""  # of the store when all digests were last known to be in it
    key: str = ""  # what the manifest below was made of, beside the tree
    digest: str = ""
    files: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_indexes: OrderedDict[str, Index] = OrderedDict()
_indexes_lock = threading.Lock()


def name(root: str, store: str) -> str:
    key = os.fsencode(root) + b"\0" + os.fsencode(store)
    return f"{hashlib.sha256(key).hexdigest()[:24]}.json"


def remembered(place: str) -> Index:
    with _indexes_lock:
        if place not in _indexes:
            _indexes[place] = _load(place)
            while len(_indexes) > REMEMBERED:
                _indexes.popitem(last=False)
        _indexes.move_to_end(place)
        return _indexes[place]


def _load(place: str) -> Index:
    """Whatever is wrong with the file, an empty index is right."""
    try:
        with open(place, encoding="ascii") as file:
            data = json.load(file)
        if data["version"] != VERSION:
            return Index()
        return Index(
            {p: Directory.from_json(d) for p, d in data["directories"].items()}, data["outer"],
            {p: File(*f) for p, f in data["extra"].items()}, data["generation"], data["key"],
            data["digest"], data["files"],
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Index()


def save(place: str, root: str, index: Index) -> None:
    data: dict[str, Any] = {
        "version": VERSION, "workdir": root, "outer": index.outer,
        "directories": {p: d.to_json() for p, d in index.directories.items()},
        "extra": {
            p: [f.size, f.mtime, f.ctime, f.inode, f.executable, f.digest, f.racy]
            for p, f in index.extra.items()
        },
        "generation": index.generation, "key": index.key, "digest": index.digest,
        "files": index.files,
    }  # fmt: skip
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        fd, fresh = tempfile.mkstemp(dir=os.path.dirname(place))
        try:
            with os.fdopen(fd, "w", encoding="ascii") as file:
                # `dumps`, since `dump` takes the slow way through Python
                file.write(json.dumps(data, separators=(",", ":")))
            os.replace(fresh, place)
        except BaseException:
            os.unlink(fresh)
            raise
    except OSError:
        pass  # it is a cache: the next snapshot is slower, that is all
