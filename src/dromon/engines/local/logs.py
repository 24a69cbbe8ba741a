"""Following a job's logs on this machine: files from its record, its end from the daemon.

The record is looked at every millisecond while it grows and every 20 ms when it is quiet; the
daemon's word that the job has ended cuts the wait short.
"""

import select
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dromon.engines.base import LogLine
from dromon.engines.local.client import Client, WentAway
from dromon.observe.logs import RecordLogs, Source

SOONEST, LATEST = 0.001, 0.02


def lines(
    client: Client,
    id: str,
    *,
    follow: bool,
    ranks: frozenset[int] | None = None,
    members: frozenset[str] | None = None,
    since: float | None = None,
    tail: int | None = None,
    every_run: bool = True,
) -> Iterator[LogLine]:
    quiet = time.monotonic()
    seen: dict[str, Any] | None = None
    with (
        RecordLogs(client.home.record(id), since=since, tail=tail) as logs,
        Watch(client, id) as watch,
    ):
        while True:
            status = watch.status
            if status is not seen:
                seen = status
                known = logs.runs() if every_run else []
                logs.add(_sources(known, status, ranks, members))
            over = status["ended"] is not None or not follow
            found = logs.read()
            for line in found:
                yield LogLine(*line)
            if over and not found:
                for line in logs.finish():
                    yield LogLine(*line)
                return
            if over:
                continue
            if found:
                quiet = time.monotonic()
            # After a quiet time t look again in t/50: lines are seen soon, idle jobs cost little.
            watch.wait(min(LATEST, max(SOONEST, (time.monotonic() - quiet) / 50)))


def _sources(
    known: Sequence[tuple[str, int]],
    status: dict[str, Any],
    ranks: frozenset[int] | None,
    members: frozenset[str] | None,
) -> Iterator[Source]:
    """The known runs, and those of the present attempt, which may have left no trace yet. Whoever
    is not in the present attempt has no rank."""
    now = {m["member"]: m["rank"] for m in status["members"]}
    present = [(m["member"], m["run"]) for m in status["members"]]
    for member, run in (*known, *present):
        rank = now.get(member)
        if (members is None or member in members) and (ranks is None or rank in ranks):
            yield Source(member, run, rank)


class Watch:
    """The job's status as last told, without ever blocking longer than asked."""

    def __init__(self, client: Client, id: str) -> None:
        self._client = client
        self._id = id
        self._open()

    def _open(self) -> None:
        self._talk, answer = self._client.begin("watch", ref=self._id)
        self.status: dict[str, Any] = answer["status"]

    def wait(self, seconds: float | None) -> None:
        try:
            if self._talk.pending() or select.select([self._talk], [], [], seconds)[0]:
                self.status = self._talk.answer()["status"]
        except WentAway:
            # It was killed or restarted. The members and their logs go on meanwhile.
            self._talk.close()
            self._open()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self._talk.close()
