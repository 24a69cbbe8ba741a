"""Content-addressed blobs on a local disk. What a blob means is not known here.

A blob is written beside its place and renamed into it, so that a reader sees all of it or nothing,
and once there it is never written again. Files are 0600 and directories 0700: code may be private.

    root/ab/cdef…     a blob, named by its sha256
    root/tmp/         being written
    root/lock         shared by those who are about to name blobs, alone for `gc`
    root/generation   changes whenever `gc` takes something away
"""

import errno
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from typing import BinaryIO, NamedTuple

from dromon.errors import PackagingError

CHUNK = 1024 * 1024
ABANDONED = 3600.0  # a file in tmp/ older than this belongs to a writer that died


class Stored(NamedTuple):
    digest: str
    size: int
    is_new: bool


class BlobStore:
    """Threads and processes may share one root."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self._tmp = os.path.join(self.root, "tmp")
        self._fans: set[str] = set()
        with _explained("make the store", self.root):
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            os.makedirs(self._tmp, mode=0o700, exist_ok=True)

    def path(self, digest: str) -> str:
        return f"{self.root}/{digest[:2]}/{digest[2:]}"

    def has(self, digest: str) -> bool:
        return os.path.exists(self.path(digest))

    def open(self, digest: str) -> BinaryIO:
        try:
            return open(self.path(digest), "rb")
        except FileNotFoundError:
            raise lost(digest) from None

    def read(self, digest: str) -> bytes:
        with self.open(digest) as blob:
            return blob.read()

    def put(self, data: bytes) -> str:
        return self.insert(data).digest

    def put_file(self, path: str) -> str:
        with open(path, "rb") as source:
            return self.insert_file(source).digest

    def insert(self, data: bytes) -> Stored:
        digest = hashlib.sha256(data).hexdigest()
        if self._holds(digest, len(data)):
            return Stored(digest, len(data), False)

        def fill(fd: int) -> tuple[str, int]:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            return digest, len(data)

        return self._write(fill)

    def insert_file(self, source: RawIOBase | BufferedReader) -> Stored:
        """The digest is that of the copy, also when the file grows meanwhile."""
        start = source.tell()
        # Asking for a whole chunk would allocate one; most files are small.
        most = min(CHUNK, os.fstat(source.fileno()).st_size + 1)
        first = source.read(most) or b""
        if len(first) < most:
            return self.insert(first)
        source.seek(start)
        known = hashlib.file_digest(source, "sha256").hexdigest()
        size = source.tell() - start
        if self._holds(known, size):
            return Stored(known, size, False)
        source.seek(start)

        def fill(fd: int) -> tuple[str, int]:
            hasher, total = hashlib.sha256(), 0
            while chunk := source.read(CHUNK):
                hasher.update(chunk)
                total += len(chunk)
                view = memoryview(chunk)
                while view:
                    view = view[os.write(fd, view) :]
            return hasher.hexdigest(), total

        return self._write(fill)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """While held, `gc` waits. Hold it from finding a blob until what names it is on record."""
        with self._locked(fcntl.LOCK_SH):
            yield

    def generation(self) -> str:
        """As long as this stays the same, no blob has gone."""
        try:
            with open(os.path.join(self.root, "generation")) as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def gc(self, keep: set[str] | Callable[[], set[str]]) -> int:
        """Take away every blob not in `keep`. Returns the bytes freed. A function is asked once
        nobody holds a pin: only then is all that was pinned on record."""
        freed = 0
        with self._locked(fcntl.LOCK_EX):
            self._sweep()
            named = keep() if callable(keep) else keep
            doomed = [(p, s) for digest, p, s in self._all() if digest not in named]
            if not doomed:
                return 0
            # Before the first removal: whoever trusts the old generation must look again.
            fresh = os.path.join(self._tmp, f"generation-{os.getpid()}")
            with open(fresh, "w") as file:
                file.write(f"{time.time_ns()}-{os.getpid()}")
            os.replace(fresh, os.path.join(self.root, "generation"))
            for path, size in doomed:
                os.unlink(path)
                freed += size
        return freed

    def _all(self) -> Iterator[tuple[str, str, int]]:
        for fan in sorted(os.listdir(self.root)):
            directory = os.path.join(self.root, fan)
            if len(fan) != 2 or not os.path.isdir(directory):
                continue
            with os.scandir(directory) as entries:
                for entry in entries:
                    yield fan + entry.name, entry.path, entry.stat().st_size

    def _sweep(self) -> None:
        with os.scandir(self._tmp) as entries:
            for entry in entries:
                try:
                    if time.time() - entry.stat().st_mtime > ABANDONED:
                        os.unlink(entry.path)
                except FileNotFoundError:
                    continue

    def _holds(self, digest: str, size: int) -> bool:
        """A blob cut short by a power failure is not held, and is put again."""
        try:
            return os.stat(self.path(digest)).st_size == size
        except FileNotFoundError:
            return False

    def _write(self, fill: Callable[[int], tuple[str, int]]) -> Stored:
        with _explained("store a blob", self.root):
            fd, path = tempfile.mkstemp(dir=self._tmp)
            try:
                try:
                    digest, size = fill(fd)
                finally:
                    os.close(fd)
                if self._holds(digest, size):
                    os.unlink(path)
                    return Stored(digest, size, False)
                if digest[:2] not in self._fans:
                    os.makedirs(os.path.join(self.root, digest[:2]), mode=0o700, exist_ok=True)
                    self._fans.add(digest[:2])
                os.rename(path, self.path(digest))
            except BaseException:
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    pass
                raise
        return Stored(digest, size, True)

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with _explained("lock the store", self.root):
            fd = os.open(os.path.join(self.root, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, how)
            yield
        finally:
            os.close(fd)


def lost(digest: str) -> PackagingError:
    return PackagingError(
        f"Blob {digest[:12]} is missing from the store or damaged.",
        hint="Submit the job again; its files are stored anew.",
    )


@contextmanager
def _explained(doing: str, root: str) -> Iterator[None]:
    """What the disk refuses, as a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PackagingError(
                f"Cannot {doing} in {root}: the disk is full.",
                hint="Free some space (`dromon gc` removes what no job needs) and submit again.",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PackagingError(
                f"Cannot {doing} in {root}: {error.strerror}.",
                hint="Point DROMON_HOME at a writable directory on a local disk.",
            ) from error
        raise
