"""`outputs:` of a job that ended: put into the blob store, listed in the record."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from dromon.agent.record import Record
from dromon.storage.blobs import BlobStore


def keep(record: Record, attempt: int, asked: Sequence[str], blobs: BlobStore) -> None:
    """Every file under the asked paths of the last attempt's working directory, by content."""
    work = record.work(attempt)
    kept: list[dict[str, Any]] = []
    for path in asked:
        files = list(_files(work, path))
        if not files:
            kept.append({"path": path, "missing": True})
        for name in files:
            full = os.path.join(work, name)
            size = os.path.getsize(full)
            kept.append({"path": name, "size": size, "digest": blobs.put_file(full)})
    _write(record, {"outputs": kept})


def note_failure(record: Record, text: str) -> None:
    _write(record, {"outputs": [], "error": text})


def read(record: Record) -> dict[str, Any]:
    try:
        with open(record.path("outputs.json")) as file:
            found: dict[str, Any] = json.load(file)
            return found
    except FileNotFoundError:
        return {"outputs": []}


def _files(work: str, path: str) -> Iterator[str]:
    full = os.path.join(work, path)
    if os.path.isfile(full):
        yield path
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
