"""A shipped function and what loads it as one archive: the same function gives the same bytes."""

import gzip
import io
import os
import tarfile

from dromon.packaging import payload


def archive(path: str, cache: str) -> bytes:
    """`path`: the payload's file."""
    folder = payload.runner(os.path.join(cache, "light"))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for root, folders, names in os.walk(folder):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            for name in sorted(names):
                full = os.path.join(root, name)
                _add(tar, full, os.path.relpath(full, folder))
        _add(tar, path, "payload")
    return gzip.compress(out.getvalue(), 6, mtime=0)


def _add(tar: tarfile.TarFile, path: str, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = os.path.getsize(path), 0o644
    with open(path, "rb") as file:
        tar.addfile(entry, file)
