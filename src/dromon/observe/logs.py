"""The log lines of a job: all members merged by time, as they come from its record while it runs,
or from logs nobody writes to any more, wherever these are kept."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from dromon.agent.logfile import LogReader, Stretch
from dromon.agent.record import Record, runs_among


class Source(NamedTuple):
    """One run of one member, whose output is wanted."""

    member: str
    run: int
    rank: int | None


# time, member, rank, stream, text, run
Line = tuple[float, str, int | None, str, str, int]


class Text(NamedTuple):
    """Whole lines of one member that came at the same time, each with its newline, as bytes."""

    time: float
    member: str
    rank: int | None
    stream: str
    data: bytes
    run: int


MOST = 8 * 1024 * 1024  # of all logs together are held at once while they are merged
FEW = 100_000  # segments: so many are merged one by one
# Of more, as many lines of one member as came within a moment stay together where nobody looks at
# the time: about so many bytes, and not those of a longer moment than this, in seconds.
TOGETHER, MOMENT = 4096, 2.0


def texts(
    logs: Iterable[tuple[Source, LogReader]],
    *,
    since: float | None = None,
    tail: int | None = None,
    plain: bool = False,
) -> Iterator[Text]:
    """Logs nobody writes to any more, merged by time, in memory that does not grow with them.

    `plain` for whoever looks at neither time nor stream: more lines at once, under the first's.
    Of one log as many as there are, of several large ones those that came within a moment.
    """
    logs = list(logs)
    for _, reader in logs:
        if tail is not None:
            reader.seek_tail(tail)
        elif since is not None:
            reader.seek_time(since)
    limit = max(64 * 1024, MOST // max(1, len(logs)))
    if len(logs) == 1:
        ((source, reader),) = logs
        joined = plain and (since is None or tail is None)
        for batch in reader.drain(limit, joined=joined):
            for time, stream, data in batch:
                if since is None or time >= since:
                    yield Text(time, source.member, source.rank, stream, data, source.run)
        return
    if plain and tail is None and sum(reader.left for _, reader in logs) > FEW:
        yield from _by_moments([_Moments(source, reader, limit) for source, reader in logs])
        return
    merging = [_Merging(source, reader.drain(limit), since) for source, reader in logs]
    while merging:
        merging = [each for each in merging if each.fill()]
        # Nothing older than this can come any more.
        sure = min((each.times[-1] for each in merging if not each.ended), default=float("inf"))
        found: list[Text] = []
        for each in merging:
            found += each.take(sure)
        found.sort(key=itemgetter(0))  # stable: a member's own order stays
        yield from found


class _Merging:
    """What was read of one log and not yet told."""

    def __init__(
        self,
        source: Source,
        batches: Iterator[list[tuple[float, str, bytes]]],
        since: float | None,
    ) -> None:
        self._source = source
        self._batches = batches
        self._since = since
        self._texts: list[Text] = []
        self.times: list[float] = []
        self._last = float("-inf")
        self.ended = False

    def fill(self) -> bool:
        """Is there anything left to tell?"""
        member, run, rank = self._source
        while not self._texts and not self.ended:
            batch = next(self._batches, None)
            if batch is None:
                self.ended = True
                break
            if self._since is not None:
                batch = [text for text in batch if text[0] >= self._since]
            # A clock that was set back must not stop the merge.
            self.times = list(accumulate([text[0] for text in batch], max, initial=self._last))
            self._last = self.times[-1]
            del self.times[0]
            self._texts = [
                Text(time, member, rank, stream, data, run)
                for time, (_, stream, data) in zip(self.times, batch, strict=True)
            ]
        return bool(self._texts)

    def take(self, until: float) -> list[Text]:
        count = bisect_right(self.times, until)
        taken = self._texts[:count]
        del self._texts[:count], self.times[:count]
        return taken


def _by_moments(logs: list["_Moments"]) -> Iterator[Text]:
    while logs:
        first = min([each.next for each in logs])
        # A moment in which there are so many of each, on average.
        until = first + min(MOMENT, TOGETHER * len(logs) / sum([each.pace for each in logs]))
        found: list[Text] = []
        for each in logs:
            if each.next < until:
                each.take(until, found)
        if len(found) > 1:
            found.sort(key=itemgetter(0))  # stable: a member's own order stays
        yield from found
        if any(each.ended for each in logs):
            logs = [each for each in logs if not each.ended]


class _Moments:
    """One log, taken moment by moment.

    `next` is when its next segment was written, and about there `pace` bytes came in a second.
    """

    def __init__(self, source: Source, reader: LogReader, limit: int) -> None:
        self._source = source
        self._reader = reader
        self._limit = limit
        self._stretch: Stretch | None = None
        self._times: Sequence[float] = ()
        self._at = 0
        self.next = float("-inf")
        self.pace = 0.0
        self.ended = False
        self._fill()

    def _fill(self) -> None:
        self._stretch = self._reader.stretch(self._limit)
        if self._stretch is not None:
            self._times = self._stretch.times
            times = list(self._times)
            if times[0] < self.next or times != sorted(times):
                # A clock that was set back must not stop the merge.
                self._times = list(accumulate(times, max, initial=self.next))[1:]
            self._at, self.next = 0, self._times[0]
            self.pace = len(self._stretch.data) / max(1e-3, self._times[-1] - self.next)

    def take(self, until: float, found: list[Text]) -> None:
        member, run, rank = self._source
        while (stretch := self._stretch) is not None and self.next < until:
            time, begin = self.next, self._at
            end = bisect_left(self._times, until, begin)
            if stretch.is_tidy:  # by far the most
                data = stretch.text(begin, end)
                found.append(Text(time, member, rank, "out", data, run))
            else:
                for _, stream, data in self._reader.texts(stretch.joined(begin, end)):
                    found.append(Text(time, member, rank, stream, data, run))
            if end < len(self._times):
                self._at, self.next = end, self._times[end]
            else:
                self._fill()
        if self._stretch is None:
            for _, stream, data in self._reader.leftovers():
                found.append(Text(self.next, member, rank, stream, data, run))
            self.ended = True


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
