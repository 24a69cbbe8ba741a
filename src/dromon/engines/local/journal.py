"""The journal: every accepted job and every event of it, in SQLite. Rows only, no decisions.

Writes gather until `commit`, which makes them safe from a kill of this process; `sync` makes them
safe from a loss of power. Effects may follow `commit`; "accepted" is said after `sync`. Questions
see what was committed.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from dromon.errors import EngineError, StateDirectoryUnusable

SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, state TEXT NOT NULL,
  submitted REAL NOT NULL, started REAL, ended REAL, attempt INTEGER NOT NULL DEFAULT 0,
  request TEXT NOT NULL, verdict TEXT
);
CREATE INDEX IF NOT EXISTS jobs_active ON jobs(number) WHERE ended IS NULL;
CREATE INDEX IF NOT EXISTS jobs_name ON jobs(name, number);
CREATE TABLE IF NOT EXISTS events (
  job TEXT NOT NULL, seq INTEGER NOT NULL, time REAL NOT NULL, event TEXT NOT NULL,
  PRIMARY KEY (job, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spells (
  job TEXT NOT NULL, start REAL NOT NULL, end REAL NOT NULL, since REAL NOT NULL,
  user TEXT NOT NULL, queue TEXT NOT NULL, priority INTEGER NOT NULL, amounts TEXT NOT NULL,
  PRIMARY KEY (job, start)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spells_end ON spells(end);
CREATE TABLE IF NOT EXISTS rules (
  version INTEGER PRIMARY KEY, time REAL NOT NULL, user TEXT NOT NULL, what TEXT NOT NULL,
  site TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_REMOVED = "removed:"  # in meta: a job forgotten whose record may still lie there
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Row(NamedTuple):
    """One job as the journal knows it."""

    id: str
    number: int
    name: str
    state: str
    submitted: float
    started: float | None
    ended: float | None
    attempt: int
    request: str
    verdict: str | None


_COLUMNS = ", ".join(Row._fields)


class Spell(NamedTuple):
    """What a job held, from when to when. Kept when the job itself is forgotten: it was used."""

    job: str
    start: float
    end: float
    since: float  # when it began to wait for this; endless: it did not, it only changed its size
    user: str
    queue: str
    priority: int
    amounts: Mapping[str, float]  # "cpus", "memory", "gpus", "gpus.KIND"


class Version(NamedTuple):
    """The rules of the site as they were changed once."""

    version: int
    time: float
    user: str
    what: str
    site: Mapping[str, Any]


class JournalFull(EngineError):
    """The journal cannot be written."""

    hint = "Free some disk space: `dromon gc`, or delete what is not needed."


class Journal:
    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # Made by us: SQLite gives its two companions the mode of the file itself.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.chmod(path, 0o600)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            mode = self._db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            if mode != "wal":
                raise StateDirectoryUnusable(f"{path}: SQLite gave journal mode {mode}, not WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_TABLES)
            self._pending: list[tuple[str, tuple[Any, ...]]] = []
            self._check_schema()
        except (OSError, sqlite3.Error) as error:
            raise StateDirectoryUnusable(f"cannot open the journal {path}: {error}") from None
        self._wal = os.open(path + "-wal", os.O_RDONLY)

    def _check_schema(self) -> None:
        found = self.get("schema")
        if found is None:
            self.put("schema", str(SCHEMA))
            self.commit()
        elif found != str(SCHEMA):
            raise StateDirectoryUnusable(
                f"the journal {self.path} has form {found}, this version of Dromon reads {SCHEMA}",
                hint="Use the version of Dromon that wrote it, or another DROMON_HOME.",
            )

    # ---- writing --------------------------------------------------------------------------------

    def add_job(self, row: Row) -> None:
        self._pending.append((f"INSERT INTO jobs ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", row))

    def add_event(self, job: str, seq: int, time: float, event: Mapping[str, Any]) -> None:
        values = (job, seq, time, _encode(event))
        self._pending.append(("INSERT INTO events VALUES (?,?,?,?)", values))

    def set_state(
        self, job: str, state: str, *, started: float | None, ended: float | None, attempt: int,
        verdict: Mapping[str, Any] | None,
    ) -> None:  # fmt: skip
        said = _encode(verdict) if verdict else None
        self._pending.append(
            (
                "UPDATE jobs SET state=?, started=?, ended=?, attempt=?, verdict=? WHERE id=?",
                (state, started, ended, attempt, said, job),
            )
        )

    def remove(self, jobs: Iterable[str]) -> None:
        """Forget these jobs; `removed` names them until `buried` says that their records are
        gone too."""
        for job in jobs:
            self._pending.append(("DELETE FROM events WHERE job=?", (job,)))
            self._pending.append(("DELETE FROM jobs WHERE id=?", (job,)))
            self.put(_REMOVED + job, "")

    def buried(self, jobs: Iterable[str]) -> None:
        for job in jobs:
            self._pending.append(("DELETE FROM meta WHERE key=?", (_REMOVED + job,)))

    def add_spell(self, spell: Spell) -> None:
        """The same spell twice is one."""
        values = (*spell[:-1], _encode(spell.amounts))
        self._pending.append(("INSERT OR REPLACE INTO spells VALUES (?,?,?,?,?,?,?,?)", values))

    def forget_spells(self, before: float) -> None:
        """Those that ended before this."""
        self._pending.append(("DELETE FROM spells WHERE end < ?", (before,)))

    def add_version(self, version: Version) -> None:
        values = (*version[:-1], _encode(version.site))
        self._pending.append(("INSERT INTO rules VALUES (?,?,?,?,?)", values))

    def put(self, key: str, value: str) -> None:
        self._pending.append(("INSERT OR REPLACE INTO meta VALUES (?,?)", (key, value)))

    def commit(self) -> None:
        """All of what was added, in one transaction; when the disk refuses, JournalFull, and all
        of it is still there to be committed later."""
        if not self._pending:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for statement, group in groupby(self._pending, key=itemgetter(0)):
                self._db.executemany(statement, map(itemgetter(1), group))
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise JournalFull(f"cannot write the journal {self.path}: {error}") from None
        self._pending.clear()

    def withdraw(self, count: int) -> None:
        """Forget the last `count` additions, which could not be committed."""
        del self._pending[len(self._pending) - count :]

    def sync(self) -> None:
        """Blocks until all that was committed is on disk. Safe to call from another thread."""
        os.fdatasync(self._wal)

    def close(self) -> None:
        try:
            self.commit()
        except JournalFull:
            pass  # the next life of the daemon learns the same from exit records
        self._db.close()
        os.close(self._wal)

    # ---- reading --------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        found = self._db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def removed(self) -> list[str]:
        found = self._db.execute("SELECT key FROM meta WHERE key GLOB ?", (_REMOVED + "*",))
        return [str(key).removeprefix(_REMOVED) for (key,) in found]

    def _rows(self, where: str, *values: object) -> Iterator[Row]:
        for found in self._db.execute(f"SELECT {_COLUMNS} FROM jobs {where}", values):
            yield Row(*found)

    def job(self, id: str) -> Row | None:
        return next(self._rows("WHERE id=?", id), None)

    def jobs(self, ids: Sequence[str]) -> dict[str, Row]:
        """Those of these ids that are known."""
        found = self._rows("WHERE id IN (SELECT value FROM json_each(?))", json.dumps(ids))
        return {row.id: row for row in found}

    def by_number(self, number: int) -> Row | None:
        return next(self._rows("WHERE number=?", number), None)

    def active(self) -> list[Row]:
        return list(self._rows("WHERE ended IS NULL ORDER BY number"))

    def latest(self, limit: int) -> list[Row]:
        return list(self._rows("ORDER BY number DESC LIMIT ?", limit))

    def submitted_since(self, time: float) -> list[Row]:
        return list(self._rows("WHERE submitted >= ? ORDER BY number", time))

    def ended_before(self, time: float) -> list[Row]:
        return list(self._rows("WHERE ended IS NOT NULL AND ended < ? ORDER BY number", time))

    def back(self, steps: int) -> Row | None:
        return next(self._rows("ORDER BY number DESC LIMIT 1 OFFSET ?", steps), None)

    def named(self, name: str) -> list[Row]:
        return list(self._rows("WHERE name=? ORDER BY number DESC LIMIT 2", name))

    def starting_with(self, prefix: str) -> list[Row]:
        """Jobs whose id starts so; two are enough to know that it is ambiguous."""
        end = prefix + "\U0010ffff"
        return list(self._rows("WHERE id >= ? AND id < ? ORDER BY number LIMIT 5", prefix, end))

    def events(self, job: str) -> list[tuple[float, dict[str, Any]]]:
        found = self._db.execute("SELECT time, event FROM events WHERE job=? ORDER BY seq", (job,))
        return [(time, json.loads(event)) for time, event in found]

    def spells(self, since: float) -> Iterator[Spell]:
        """Those that ended after this, in the order in which they did."""
        found = self._db.execute("SELECT * FROM spells WHERE end > ? ORDER BY end, job", (since,))
        for each in found:
            yield Spell._make((*each[:-1], json.loads(each[-1])))

    def versions(self, limit: int) -> list[Version]:
        """The newest first."""
        found = self._db.execute("SELECT * FROM rules ORDER BY version DESC LIMIT ?", (limit,))
        return [Version._make((*each[:-1], json.loads(each[-1]))) for each in found]

    def last_number(self) -> int:
        kept = int(self.get("last_number") or 0)  # numbers of removed jobs are not given again
        found = self._db.execute("SELECT max(number) FROM jobs").fetchone()[0]
        return max(kept, int(found or 0))
