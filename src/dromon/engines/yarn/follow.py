"""The lines of a job on YARN: from its agents while it runs, from HDFS once it is over.

While it runs the growing logs are copied here piece by piece, and read as any record's are. YARN
collects a container's logs only when the application is over, so the end of a followed job waits
for that, and then goes on where the copies stop.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dromon.agent.record import Record
from dromon.engines.base import LogLine
from dromon.engines.yarn.aggregated import AggregatedLogs, NoLogs
from dromon.engines.yarn.live import Live, Silent
from dromon.observe.logs import RecordLogs, Source

POLL = 0.3
COLLECTING = 60.0  # seconds that YARN may take to collect the logs of an application


class Wanted(NamedTuple):
    """Which lines."""

    ranks: frozenset[int] | None = None
    members: frozenset[str] | None = None
    since: float | None = None
    tail: int | None = None
    every_run: bool = True


class Seen(NamedTuple):
    """How a job stands, as far as its lines go. `ending`: its master has done all it had to, so
    agents leave one after the other; YARN, which collects then, does not call it over yet."""

    over: bool
    runs: list[tuple[str, int, int | None]]  # all that are known: member, run, rank
    live: Live | None = None
    ending: bool = False


class Follower:
    """`look` asks anew each time."""

    def __init__(
        self,
        look: Callable[[], Seen],
        collected: Callable[[], AggregatedLogs | None],
        wanted: Wanted,
    ) -> None:
        self._look = look
        self._collected = collected
        self._wanted = wanted

    def lines(self, *, follow: bool) -> Iterator[LogLine]:
        """Not to `follow`: what there is. Of a job that is just ending that is all of it, a moment
        later, and not what the agents that are still there happen to have."""
        seen = self._look() if follow else self._settled()
        if seen.over:
            yield from self._finished(seen.runs)
            return
        with tempfile.TemporaryDirectory(prefix="dromon-logs-") as root:
            wanted = self._wanted
            with RecordLogs(root, since=wanted.since, tail=wanted.tail) as logs:
                while True:
                    chosen = self._chosen(seen.runs)
                    is_whole = self._mirror(root, chosen, seen.live)
                    if seen.over:
                        self._complete(root, chosen)
                    elif not follow and not is_whole and (later := self._settled()).over:
                        # It came to its end since we looked, and somebody was not there any more.
                        yield from self._finished(later.runs)
                        return
                    logs.add(Source(*run) for run in chosen)
                    is_last = seen.over or not follow
                    for line in logs.finish() if is_last else logs.read():
                        yield LogLine(*line)
                    if is_last:
                        return
                    time.sleep(POLL)
                    seen = self._look()

    def _settled(self) -> Seen:
        """As it stands, but not in the middle of its end."""
        deadline = time.monotonic() + COLLECTING
        while (seen := self._look()).ending and time.monotonic() < deadline:
            time.sleep(POLL)
        return seen

    def _chosen(self, runs: list[tuple[str, int, int | None]]) -> list[tuple[str, int, int | None]]:
        wanted = self._wanted
        latest: dict[str, int] = {}
        for member, run, _ in runs:
            latest[member] = max(run, latest.get(member, 0))
        return [
            (member, run, rank)
            for member, run, rank in runs
            if (wanted.members is None or member in wanted.members)
            and (wanted.ranks is None or rank in wanted.ranks)
            and (wanted.every_run or run == latest[member])
        ]

    def _finished(self, runs: list[tuple[str, int, int | None]]) -> Iterator[LogLine]:
        logs = self._collected()
        if logs is None:
            return iter(())
        try:
            known = {(member, run) for member, run, _ in runs}
            more = [
                (member, run, None) for member, run in logs.runs() if (member, run) not in known
            ]
        except NoLogs:
            return iter(())
        sources = [Source(*run) for run in self._chosen([*runs, *more])]
        return logs.lines(sources, since=self._wanted.since, tail=self._wanted.tail)

    # ---- copies ---------------------------------------------------------------------------------

    def _mirror(
        self, root: str, runs: list[tuple[str, int, int | None]], live: Live | None
    ) -> bool:
        """The index first: a log always holds all that its index speaks of. Has everyone who may
        know more been heard?"""
        if live is None:
            return False
        record, is_whole = Record(root), True
        for member, run, _ in runs:
            path = record.log(member, run)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                index, _ = _pull(live, f"{member}.{run}.log.index", f"{path}.index.new")
                _, is_heard = _pull(live, f"{member}.{run}.log", path)
            except Silent:
                return False
            is_whole = is_whole and is_heard
            _append(f"{path}.index", index, f"{path}.index.new")
        return is_whole

    def _complete(self, root: str, runs: list[tuple[str, int, int | None]]) -> None:
        """What was printed after the last look, from what YARN collected."""
        logs = self._collected()
        if logs is None:
            return
        record = Record(root)
        try:
            files = {file.file: file for file in logs.files()}
        except NoLogs:
            return
        for member, run, _ in runs:
            path = record.log(member, run)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            for name, here in ((".log", path), (".log.index", f"{path}.index")):
                file = files.get(f"{member}.{run}{name}")
                if file is None:
                    continue
                with open(here, "ab") as out:
                    while data := file.body.read_at(out.tell(), 1 << 20):
                        out.write(data)


def _pull(live: Live, name: str, path: str) -> tuple[int, bool]:
    """Append what is new; how long the copy is then, and whether that was all there is."""
    with open(path, "ab") as out:
        while data := live.piece(name, out.tell()):
            out.write(data)
        return out.tell(), data is not None


def _append(path: str, size: int, source: str) -> None:
    """Show as much of the index as the log is known to cover."""
    with open(source, "rb") as file, open(path, "ab") as out:
        file.seek(out.tell())
        out.write(file.read(max(0, size - out.tell())))


def runs_of(standing: dict[str, Any]) -> list[tuple[str, int, int | None]]:
    """Every run a master's status knows, with the rank its member has now."""
    ranks = {m["member"]: m["rank"] for m in standing["members"]}
    return [(member, run, ranks.get(member)) for member, run in standing["runs"]]
