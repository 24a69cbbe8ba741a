"""Archives that a job ships, unpacked where its members run: the very ones that were submitted, and
whole, or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zlib
from typing import BinaryIO

# What an archive that is no good may raise.
BROKEN = (OSError, tarfile.TarError, EOFError, zlib.error)
PIECE = 1 << 20


def unpack(archive: str, folder: str, digest: str = "") -> None:
    """`digest`: sha256 of the file, in hex; "" where it is not known. OSError: it is another."""
    partial = f"{folder}.partial"
    with open(archive, "rb") as file:
        # Before anything is written: links of an archive that is not ours may lead anywhere.
        if digest and (found := _digest(file)) != digest:
            raise OSError(f"{archive} is not what was submitted: its sha256 is {found}")
        file.seek(0)
        shutil.rmtree(partial, ignore_errors=True)
        os.makedirs(partial)
        with tarfile.open(fileobj=file) as tar:
            # The user's own, packed by us: links and all.
            trusted = getattr(tarfile, "fully_trusted_filter", None)
            tar.extractall(partial, **({"filter": trusted} if trusted else {}))
    os.rename(partial, folder)


def _digest(file: BinaryIO) -> str:
    hasher = hashlib.sha256()
    while data := file.read(PIECE):
        hasher.update(data)
    return hasher.hexdigest()
