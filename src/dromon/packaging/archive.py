"""Code and environments as files that a cluster's nodes unpack: built once, found by request.

    cache/archives/<request>.json      what was made for a request, and its digest
    cache/archives/<digest>.tar.gz     the archive, named by its content
    cache/archives/<request>.lock      held while it is made

A request is what an archive is made of, told without reading it: a lock's digest, an interpreter,
names, sizes and times. Nothing is believed that is not whole. What goes into an archive is decided
in `bundle`.
"""

import contextlib
import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

from dromon.errors import PackagingError, Refused
from dromon.packaging import bundle, pieces, platforms
from dromon.packaging.bundle import Bundle, Nodes
from dromon.packaging.environment import Lock, alone, kept
from dromon.packaging.manifest import manifest
from dromon.packaging.pieces import Piece
from dromon.packaging.tarball import Fetch
from dromon.storage.blobs import BlobStore

__all__ = [
    "Archive", "Fetch", "Progress", "code_archive", "environment_archive", "gc", "locked",
    "runtime_archive",
]  # fmt: skip

FORMAT = 1  # another one when the same request makes other archives

Progress = Callable[[str, int, int], None]  # what is done, bytes done, of how many (0: not known)


def silent(text: str, done: int, total: int) -> None:
    """For those who do not want to know."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A .tar.gz, named by its content."""

    path: str
    digest: str
    size: int
    unpacked: int  # bytes of the files in it
    python: str = ""  # the version inside
    glibc: str = ""  # what a node must have at least
    notes: tuple[str, ...] = ()  # what the caller should know, as sentences


def locked(
    environment: Mapping[str, Any],
    cache_dir: str,
    *,
    platform: str = platforms.DEFAULT,
    python_tarball: str = "",
    fetch: Fetch | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """`environment` with exact versions for the nodes in it, for the job's record and a rerun.

    Other kinds than uv's come back as they are.
    """
    nodes = Nodes(platforms.parse(platform), python_tarball, cache_dir, fetch, environ)
    if environment["kind"] != "uv":
        return dict(environment)
    lock = bundle.resolve_for(environment, nodes)
    return {**environment, "digest": lock.digest, "lock": lock.to_json()}


def environment_archive(
    environment: Mapping[str, Any],
    cache_dir: str,
    *,
    platform: str = platforms.DEFAULT,
    python_tarball: str = "",
    fetch: Fetch | None = None,
    environ: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> Archive:
    """An interpreter and its packages: what a job's `environment` is, for nodes of `platform`.

    `environment` is a launch's, or what `locked` made of it. `python_tarball` is where the Python
    of another platform comes from; `fetch` reads the URLs that only a cluster knows (hdfs://…).
    """
    nodes = Nodes(platforms.parse(platform), python_tarball, cache_dir, fetch, environ)

    def tell(text: str) -> None:
        progress(text, 0, 0)

    match environment["kind"]:
        case "host":
            request, make = bundle.of_host(environment["python"], nodes)
        case "uv":
            lock = environment.get("lock")
            if lock is None:
                tell("resolving")
            found = Lock(**lock) if lock else bundle.resolve_for(environment, nodes)
            request, make = bundle.of_lock(found, nodes, tell)
        case kind:
            raise Refused(f"An environment of kind {kind!r} is not made of files to unpack.")
    return _found_or_made(request, cache_dir, make, progress, "environment")


def runtime_archive(
    python: str,
    cache_dir: str,
    *,
    platform: str = platforms.DEFAULT,
    python_tarball: str = "",
    fetch: Fetch | None = None,
    environ: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> Archive:
    """The interpreter behind `python` and its standard library alone."""
    nodes = Nodes(platforms.parse(platform), python_tarball, cache_dir, fetch, environ)
    request, make = bundle.of_runtime(python, nodes)
    return _found_or_made(request, cache_dir, make, progress, "interpreter")


def code_archive(
    digest: str, store: BlobStore, cache_dir: str, *, progress: Progress = silent
) -> Archive:
    """A snapshot, as `materialise` would lay it out."""

    def make() -> Bundle:
        return Bundle(
            [
                Piece(
                    e.path, store.path(e.digest) if e.digest else "", size=e.size,
                    executable=e.executable, link=e.link, is_directory=e.is_directory,
                )
                for e in manifest(digest, store)
            ]
        )  # fmt: skip

    return _found_or_made(["code", digest], cache_dir, make, progress, "code")


def gc(cache_dir: str, keep: set[str], *, older_than: float = 0.0) -> int:
    """Take away every archive whose digest is not in `keep` and that was not asked for within
    `older_than` seconds. Returns the bytes freed."""
    root = os.path.join(cache_dir, "archives")
    freed = 0
    for name in os.listdir(root) if os.path.isdir(root) else ():
        path = os.path.join(root, name)
        if not name.endswith(".json") or name == "interpreters.json":
            continue
        lock = path.removesuffix(".json") + ".lock"
        try:
            with alone(lock, None):
                found = _read(path)
                is_old = time.time() - os.stat(path).st_mtime >= older_than
                if found is not None and is_old and found.digest not in keep:
                    os.unlink(path)
                    if os.path.exists(found.path):
                        freed += found.size
                        os.unlink(found.path)
                    os.unlink(lock)
        except (BlockingIOError, FileNotFoundError):
            continue  # being made, or taken away by another
    return freed


def _found_or_made(
    request: Sequence[object],
    cache_dir: str,
    make: Callable[[], Bundle],
    progress: Progress,
    what: str,
) -> Archive:
    key = hashlib.sha256(json.dumps([FORMAT, *request]).encode()).hexdigest()
    root = os.path.join(os.path.abspath(cache_dir), "archives")
    place = os.path.join(root, f"{key}.json")
    if found := _read(place):
        with contextlib.suppress(OSError):
            os.utime(place)  # in use: see `gc`
        return found
    with alone(os.path.join(root, f"{key}.lock"), lambda text: progress(text, 0, 0)):
        if found := _read(place):
            return found
        progress(f"collecting the {what}", 0, 0)
        made = make()
        partial = os.path.join(root, f"{key}.partial")
        try:
            keeping = kept(made.built, cache_dir) if made.built else nullcontext()
            with keeping, open(partial, "wb") as file:
                written = pieces.write(
                    made.pieces,
                    file,
                    lambda done, total: progress(f"packing the {what}", done, total),
                )
                file.flush()
                os.fsync(file.fileno())
            path = os.path.join(root, f"{written.digest}.tar.gz")
            os.replace(partial, path)
            archive = Archive(
                path, written.digest, written.size, written.unpacked, made.python, made.glibc,
                tuple(made.notes),
            )  # fmt: skip
            with open(partial, "w", encoding="utf-8") as record:
                json.dump(asdict(replace(archive, path="")), record)
            os.replace(partial, place)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise PackagingError(
                f"The archive of the {what} cannot be written to {root}: {error.strerror}.",
                hint="Free some space (`dromon gc` removes what no job needs)." if full else "",
            ) from error
        finally:
            if os.path.exists(partial):
                os.unlink(partial)
        return archive


def _read(place: str) -> Archive | None:
    try:
        with open(place, encoding="utf-8") as file:
            told = json.load(file)
        path = os.path.join(os.path.dirname(place), f"{told['digest']}.tar.gz")
        archive = Archive(**{**told, "path": path, "notes": tuple(told["notes"])})
        return archive if os.stat(path).st_size == archive.size else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
