"""The log lines of a job, from its record: all members merged by time, as they come."""

import os
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import NamedTuple

from dromon.agent.logfile import LogReader
from dromon.agent.record import Record, runs_among


class Source(NamedTuple):
    """One run of one member, whose output is wanted."""

    member: str
    run: int
    rank: int | None


# time, member, rank, stream, text, run
Line = tuple[float, str, int | None, str, str, int]


class RecordLogs:
    """Reads the logs of one record while they grow. Sources may be added at any time."""

    def __init__(self, root: str, *, since: float | None = None, tail: int | None = None) -> None:
        self._record = Record(root)
        self._since = since
        self._tail = tail
        self._readers: dict[tuple[str, int], tuple[LogReader, Source]] = {}

    def runs(self) -> list[tuple[str, int]]:
        """Every (member, run) the record knows, also of members that take part no longer."""
        try:
            return runs_among(os.listdir(self._record.root))
        except FileNotFoundError:  # no member was started yet
            return []

    def add(self, sources: Iterable[Source]) -> None:
        for source in sources:
            key = (source.member, source.run)
            known = self._readers.get(key)
            if known is None:
                reader = LogReader(self._record.log(*key))
                if self._tail is not None:
                    reader.seek_tail(self._tail)
                elif self._since is not None:
                    reader.seek_time(self._since)
                self._readers[key] = (reader, source)
            elif known[1].rank != source.rank:
                self._readers[key] = (known[0], source)

    def __enter__(self) -> "RecordLogs":
        return self

    def __exit__(self, *_: object) -> None:
        for reader, _ in self._readers.values():
            reader.close()

    def read(self) -> list[Line]:
        """What is new, oldest first."""
        return self._gather(LogReader.read_new)

    def finish(self) -> list[Line]:
        """The rest, once the job has ended."""
        return self._gather(LogReader.finish)

    def _gather(self, read: Callable[[LogReader], list[tuple[float, str, bytes]]]) -> list[Line]:
        lines: list[Line] = []
        busy = 0
        for reader, source in self._readers.values():
            found = read(reader)
            if self._tail is not None and self._since is not None:
                found = [line for line in found if line[0] >= self._since]
            busy += bool(found)
            member, run, rank = source
            lines += [
                (time, member, rank, stream, text.decode("utf-8", "replace"), run)
                for time, stream, text in found
            ]
        if busy > 1:
            lines.sort(key=itemgetter(0))  # stable: a member's own order stays
        return lines
