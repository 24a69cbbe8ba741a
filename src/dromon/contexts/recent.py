"""Which cluster jobs were submitted or attached from here, and where they are. A cache of hints.

`recent.jsonl` in the state directory, a line for each: id, context, application, name, time; and
of a context that is in no file, where it is. What is lost here can still be named with --on.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any, NamedTuple

from dromon.contexts.file import KINDS, Context
from dromon.errors import AmbiguousJob

LIMIT = 256 * 1024  # bytes; beyond it the older half goes


class Known(NamedTuple):
    """A job that was seen from here."""

    id: str
    context: str
    name: str
    time: float
    application: str = ""
    kind: str = ""  # with `where`: of a context that no file names
    where: str = ""

    @property
    def unnamed(self) -> Context | None:
        """The context itself, where only this line remembers it."""
        return Context(self.context, self.kind, self.where) if self.where else None


class Recent:
    def __init__(self, path: str) -> None:
        self.path = path

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def entries(self) -> list[Known]:
        """Oldest first; of a job that was noted twice, the newer note."""
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return []
        found: dict[str, Known] = {}
        for line in lines:
            known = _known(line)
            if known is not None:
                found.pop(known.id, None)
                found[known.id] = known
        return list(found.values())

    def add(self, known: Known) -> bool:
        """Whether it could be noted: a job is not to fail because its note did."""
        line = json.dumps({k: v for k, v in known._asdict().items() if v}) + "\n"
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(fd, "r+b") as file:
                fcntl.flock(fd, fcntl.LOCK_EX)
                file.write(line.encode())
                file.flush()
                if os.fstat(fd).st_size > LIMIT:
                    file.seek(LIMIT // 2)
                    kept = file.read().partition(b"\n")[2]
                    file.truncate(0)
                    file.write(kept)
        except OSError:
            return False
        return True

    def forget(self, ids: set[str]) -> None:
        entries = self.entries()
        if not any(known.id in ids for known in entries):
            return
        try:
            with open(self.path, "r+b") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
                lines = file.read().splitlines(keepends=True)
                kept = [line for line in lines if (k := _known(line)) is None or k.id not in ids]
                file.seek(0)
                file.truncate()
                file.write(b"".join(kept))
        except OSError:
            pass  # a note too many does no harm

    def by_id(self, id: str) -> Known | None:
        return next((known for known in self.entries() if known.id == id), None)

    def named(self, ref: str) -> Known | None:
        """By id, application, or name (the newest)."""
        entries = self.entries() if ref else []
        for known in reversed(entries):
            if ref in (known.id, known.application):
                return known
        return next((known for known in reversed(entries) if ref == known.name), None)

    def find(self, ref: str) -> Known | None:
        """As `named`, or by the first letters of one id."""
        if not ref or (exact := self.named(ref)) is not None:
            return exact if ref else None
        entries = self.entries()
        found = [known for known in entries if known.id.startswith(ref)]
        if len(found) > 1:
            ids = ", ".join(known.id for known in found)
            raise AmbiguousJob(f"{ref!r} could be any of {ids}")
        return found[0] if found else None

    def contexts(self, within: float) -> dict[str, Known]:
        """The contexts used in the last so many seconds, each with the newest note of it."""
        since = time.time() - within
        return {known.context: known for known in self.entries() if known.time >= since}


def _known(line: str | bytes) -> Known | None:
    """None for a line that is broken: half written, or of another version."""
    try:
        data: dict[str, Any] = json.loads(line)
        known = Known(**data)
        if not isinstance(known.time, (int, float)):
            return None
    except (ValueError, TypeError):
        return None
    texts = (known.id, known.context, known.name, known.application, known.kind, known.where)
    if not all(isinstance(text, str) for text in texts) or not known.id or not known.context:
        return None
    if bool(known.where) != bool(known.kind) or (known.kind and known.kind not in KINDS):
        return None
    return known
