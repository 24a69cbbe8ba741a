"""A snapshot laid out as files again: real copies, since a job may write into its own code."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from dromon.errors import PackagingError
from dromon.packaging.manifest import EMPTY, Entry, is_outside, manifest
from dromon.storage.blobs import BlobStore, lost

# What copy_file_range says where the kernel or the file systems cannot do it.
NOT_THIS_WAY = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
FEW = 64
THREADS = 4
SMALL = 64 * 1024  # below this one read and one write are quicker than asking the kernel to copy

A = TypeVar("A")
B = TypeVar("B")


def materialise(
    digest: str,
    store: BlobStore,
    target_dir: str,
    extra_files: Mapping[str, bytes] | None = None,
) -> None:
    """Make `target_dir`, holding the snapshot and over it `extra_files`.

    It appears whole: killed half way, there is only a `.partial` beside it, which the next try
    removes. It must not exist, or be empty.
    """
    try:
        if digest == EMPTY and not extra_files:
            os.makedirs(target_dir, mode=0o755, exist_ok=True)
            return
        fresh = target_dir.rstrip("/") + ".partial"
        shutil.rmtree(fresh, ignore_errors=True)
        os.makedirs(fresh, mode=0o755)
        try:
            _lay_out(digest, store, fresh, extra_files or {})
            os.rename(fresh, target_dir)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise PackagingError(
            f"The code cannot be unpacked into {target_dir}: {error.strerror}.",
            hint="Free some space (`dromon gc` removes what no job needs)." if full else "",
        ) from error


def _lay_out(digest: str, store: BlobStore, target: str, extra_files: Mapping[str, bytes]) -> None:
    made = {target}
    files = []
    for entry in manifest(digest, store):
        path = f"{target}/{entry.path}"
        if entry.is_directory:
            _make(path, made)
            continue
        _make(os.path.dirname(path), made)
        if entry.link:
            os.symlink(entry.link, path)
        else:
            files.append(entry)
    for _ in many(lambda e: _copy(e, store, f"{target}/{e.path}"), files):
        pass
    for name, data in extra_files.items():
        if is_outside(name):
            raise PackagingError(f"{name!r} leads out of the working directory.")
        path = f"{target}/{name}"
        _make(os.path.dirname(path), made)
        with open(path, "wb") as file:
            file.write(data)


def many(work: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
    """`map`, by threads where it pays: making a file mostly waits for the file system."""
    if len(items) <= FEW:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # its import is not for the small ones

    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(work, items)


def _make(path: str, made: set[str]) -> None:
    if path not in made:
        os.makedirs(path, mode=0o755, exist_ok=True)
        made.add(path)


def _copy(entry: Entry, store: BlobStore, path: str) -> None:
    try:
        source = os.open(store.path(entry.digest), os.O_RDONLY)
    except FileNotFoundError:
        raise lost(entry.digest) from None
    try:
        mode = 0o755 if entry.executable else 0o644
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            copied = _bytes(source, target, entry.size)
        finally:
            os.close(target)
    finally:
        os.close(source)
    if copied != entry.size:
        raise lost(entry.digest)


def _bytes(source: int, target: int, size: int) -> int:
    """Shares the blocks where the file system can (copy on write), else copies them."""
    done = 0
    if size > SMALL and hasattr(os, "copy_file_range"):
        try:
            while done < size:
                moved = os.copy_file_range(source, target, size - done)
                if not moved:
                    return done
                done += moved
            return done
        except OSError as error:
            if error.errno not in NOT_THIS_WAY or done:
                raise
    while chunk := os.read(source, 1024 * 1024):
        view = memoryview(chunk)
        while view:
            view = view[os.write(target, view) :]
        done += len(chunk)
    return done
