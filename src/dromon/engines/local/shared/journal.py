"""What the arbiter keeps on disk: whose jobs wait and run, and who did what. Rows only.

Not the truth about jobs, which is each daemon's own: it tells what holds a share while its daemon
is away, in which order jobs came, and, of those that are over, who used how much.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from dromon.errors import StateDirectoryUnusable

SCHEMA = "1"
_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
  key TEXT PRIMARY KEY, uid INTEGER NOT NULL, home TEXT NOT NULL, seq INTEGER NOT NULL,
  job TEXT NOT NULL, acls TEXT NOT NULL, state TEXT NOT NULL, placement TEXT NOT NULL,
  started REAL, ended REAL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS jobs_active ON jobs(key) WHERE ended IS NULL;
CREATE TABLE IF NOT EXISTS audit (
  number INTEGER PRIMARY KEY, time REAL NOT NULL, uid INTEGER NOT NULL, user TEXT NOT NULL,
  action TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class Row(NamedTuple):
    key: str
    uid: int
    home: str
    seq: int
    job: str
    acls: str
    state: str
    placement: str
    started: float | None
    ended: float | None


class Journal:
    def __init__(self, path: str) -> None:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_TABLES)
            if (found := self.get("schema")) not in (None, SCHEMA):
                raise StateDirectoryUnusable(f"the journal {path} has form {found}, not {SCHEMA}")
            self.put("schema", SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise StateDirectoryUnusable(f"cannot open the journal {path}: {error}") from None

    def get(self, key: str) -> str | None:
        found = self._db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def put(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?,?)", (key, value))

    def write(self, rows: list[Row], audit: list[tuple[Any, ...]]) -> None:
        """All of it or none; a full disk must not stop the machine: what is lost here the daemons
        tell again."""
        self._db.execute("BEGIN")
        try:
            self._db.executemany("INSERT OR REPLACE INTO jobs VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
            self._db.executemany(
                "INSERT INTO audit (time, uid, user, action, subject, detail) VALUES (?,?,?,?,?,?)",
                audit,
            )
            self._db.execute("COMMIT")
        except sqlite3.Error:
            self._db.execute("ROLLBACK")
            raise

    def active(self) -> Iterator[Row]:
        for found in self._db.execute("SELECT * FROM jobs WHERE ended IS NULL ORDER BY seq"):
            yield Row(*found)

    def job(self, key: str) -> Row | None:
        found = self._db.execute("SELECT * FROM jobs WHERE key=?", (key,)).fetchone()
        return None if found is None else Row(*found)

    def last_seq(self) -> int:
        found = self._db.execute("SELECT max(seq) FROM jobs").fetchone()[0]
        return int(found or 0)

    def audit(self, limit: int) -> list[dict[str, Any]]:
        """The latest, oldest first."""
        columns = ("time", "uid", "user", "action", "subject", "detail")
        found = self._db.execute(
            f"SELECT {', '.join(columns)} FROM audit ORDER BY number DESC LIMIT ?", (limit,)
        ).fetchall()
        return [dict(zip(columns, row, strict=True)) for row in reversed(found)]

    def close(self) -> None:
        self._db.close()


def packed(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))
