"""The context's store as this machine sees it: blobs by content, and a record for each job.

A directory that pods mount too. Where this machine does not see it, jobs keep their records there
all the same, and what they say is asked of Kubernetes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from dromon.agent.record import Record
from dromon.errors import EngineError

REQUEST = "request.json"


class StoreUnusable(EngineError):
    """The store cannot be used from here."""

    hint = "`mounted` of the context says where this machine sees it; is it there, and writable?"


class Store:
    """`root`: this user's part of it on this machine."""

    def __init__(self, root: str) -> None:
        self.root = root

    def record(self, id: str) -> Record:
        return Record(os.path.join(self.root, "jobs", id))

    def records(self) -> list[str]:
        try:
            return sorted(os.listdir(os.path.join(self.root, "jobs")))
        except FileNotFoundError:
            return []

    def create_record(self, id: str, request: Mapping[str, Any]) -> None:
        """Names its blobs before they are looked for, so that no collector takes them away."""
        record = self.record(id)
        try:
            os.makedirs(record.root, mode=0o755, exist_ok=True)
            _write(record.request, json.dumps(request).encode())
        except OSError as error:
            raise StoreUnusable(f"cannot write to the store {self.root}: {error}") from None

    def request(self, id: str) -> dict[str, Any] | None:
        return self._json(self.record(id).request)

    def request_of(self, ref: str) -> dict[str, Any] | None:
        """The same, of what may be no id at all."""
        return self.request(ref) if ref and "/" not in ref and not ref.startswith(".") else None

    def status(self, id: str) -> dict[str, Any] | None:
        """What the job's coordinator told last."""
        return self._json(self.record(id).status)

    def remove_record(self, id: str) -> int:
        """Bytes that are free now."""
        import shutil  # with all its archive formats: a list of jobs does without

        root = self.record(id).root
        size = _size(root)
        shutil.rmtree(root, ignore_errors=True)
        return size

    # ---- blobs ----------------------------------------------------------------------------------

    def put(self, path: str, name: str, progress: Callable[[int, int], None]) -> None:
        """A file under the name of its content; one that is there already is not sent again."""
        there = os.path.join(self.root, "blobs", name)
        total = os.path.getsize(path)
        try:
            if os.path.exists(there) and os.path.getsize(there) == total:
                os.utime(there)  # a collector leaves alone what was asked for lately
                return
            os.makedirs(os.path.dirname(there), exist_ok=True)
            draft = f"{there}.{os.urandom(6).hex()}.partial"
            with open(path, "rb") as source, open(draft, "wb") as out:
                while data := source.read(1 << 20):
                    out.write(data)
                    progress(out.tell(), total)
            os.chmod(draft, 0o644)
            os.replace(draft, there)
        except OSError as error:
            raise StoreUnusable(f"cannot write to the store {self.root}: {error}") from None

    def blobs(self) -> dict[str, os.stat_result]:
        found = {}
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(os.path.join(self.root, "blobs")):
                found[entry.name] = entry.stat()
        return found

    def remove_blob(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.root, "blobs", name))

    @staticmethod
    def _json(path: str) -> dict[str, Any] | None:
        try:
            with open(path, encoding="utf-8") as file:
                return dict(json.load(file))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            raise StoreUnusable(f"cannot read {path}: {error.strerror}") from None


def _write(path: str, data: bytes) -> None:
    draft = f"{path}.{os.getpid()}.partial"  # a number at the end would be a run
    with open(draft, "wb") as file:
        file.write(data)
    os.replace(draft, path)


def _size(root: str) -> int:
    return sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(root)
        for name in names
    )
