"""`outputs:` of a job that ended: put into the blob store, listed in the record."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from dromon.agent.record import Record
from dromon.errors import PackagingError
from dromon.storage.blobs import BlobStore


def keep(record: Record, attempt: int, asked: Sequence[str], blobs: BlobStore) -> None:
    """Every file under the asked paths of the last attempt's working directory, by content."""
    work = record.work(attempt)
    kept: list[dict[str, Any]] = []
    for path in asked:
        files = list(_files(work, path))
        if not files:
            why = "there is no such file or directory"
            kept.append({"path": path, "missing": True, "kept": False, "why": why})
        kept += [_keep(work, name, blobs) for name in files]
    _write(record, {"outputs": kept})


def _keep(work: str, name: str, blobs: BlobStore) -> dict[str, Any]:
    """One that cannot be kept does not cost the others."""
    full = os.path.join(work, name)
    try:
        size = os.path.getsize(full)
        return {"path": name, "size": size, "digest": blobs.put_file(full)}
    except OSError as error:
        return {"path": name, "kept": False, "why": error.strerror or str(error)}
    except PackagingError as error:
        return {"path": name, "kept": False, "why": error.message}


def note_failure(record: Record, asked: Sequence[str], why: str) -> None:
    try:
        _write(record, {"outputs": [{"path": p, "kept": False, "why": why} for p in asked]})
    except OSError:
        pass  # a full disk; the daemon's log has it


def read(record: Record) -> dict[str, Any]:
    try:
        with open(record.path("outputs.json")) as file:
            found: dict[str, Any] = json.load(file)
            return found
    except (FileNotFoundError, ValueError):  # not there, or cut short by a loss of power
        return {"outputs": []}


def _files(work: str, path: str) -> Iterator[str]:
    full = os.path.join(work, path)
    if os.path.isfile(full):
        yield path
        return
    for folder, _, names in sorted(os.walk(full)):
        for name in sorted(names):
            found = os.path.join(folder, name)
            if os.path.isfile(found) and not os.path.islink(found):
                yield os.path.relpath(found, work)


def _write(record: Record, data: dict[str, Any]) -> None:
    partial = record.path("outputs.json.partial")
    with open(partial, "w") as file:
        json.dump(data, file)
    os.rename(partial, record.path("outputs.json"))
