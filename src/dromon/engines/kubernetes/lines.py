"""The lines of a job: from its record in the store, or from Kubernetes, which has what pods print.

What a pod prints is its member's output and nothing else; where a run is not the first, the pod
says so in a line of its own, which is taken out again here. Which of the two streams a line was
printed to is not kept there.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dromon.agent.record import Record
from dromon.engines.base import LogLine
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.pod.echo import MARK
from dromon.engines.kubernetes.pods import when
from dromon.engines.kubernetes.refusals import ApiError, Unreachable
from dromon.observe.logs import RecordLogs, Source

POLL = 0.1
AWAY = 600.0  # seconds that whoever follows waits for an API server
LAST = 10.0  # seconds for the last lines of a pod


class Wanted(NamedTuple):
    """Which lines."""

    ranks: frozenset[int] | None = None
    members: frozenset[str] | None = None
    since: float | None = None
    tail: int | None = None
    every_run: bool = True

    def chosen(self, runs: list[Source]) -> list[Source]:
        latest: dict[str, int] = {}
        for source in runs:
            latest[source.member] = max(source.run, latest.get(source.member, 0))
        return [
            source
            for source in runs
            if (self.members is None or source.member in self.members)
            and (self.ranks is None or source.rank in self.ranks)
            and (self.every_run or source.run == latest[source.member])
        ]


def from_record(
    record: Record,
    look: Callable[[], tuple[bool, list[Source]]],
    wanted: Wanted,
    *,
    follow: bool,
) -> Iterator[LogLine]:
    """`look`: whether it is over, and every run there is."""
    with RecordLogs(record.root, since=wanted.since, tail=wanted.tail) as logs:
        while True:
            over, runs = look()
            logs.add(wanted.chosen(runs))
            is_last = over or not follow
            for line in logs.finish() if is_last else logs.read():
                yield LogLine(*line)
            if is_last:
                return
            time.sleep(POLL)


class Told:
    """Up to which moment the lines of a pod are told, and of which run the last one was."""

    def __init__(self) -> None:
        self.until = ""  # as the kubelet writes it, to the nanosecond
        self.run = 1


class PodLines:
    """`pods`: name of each pod, its member and rank, and whether it has ended; asked anew."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        look: Callable[[], tuple[bool, dict[str, tuple[str, int | None]]]],
        wanted: Wanted,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._look = look
        self._wanted = wanted

    def lines(self, *, follow: bool) -> Iterator[LogLine]:
        return self._followed() if follow else self._now()

    def _now(self) -> Iterator[LogLine]:
        _, pods = self._look()
        found: list[LogLine] = []
        for pod, (member, rank) in pods.items():
            if self._wants(member, rank):
                found += self._read(pod, member, rank, follow=False)
        found.sort(key=lambda line: line.time)
        return iter(found if self._wanted.tail is None else found[-self._wanted.tail :])

    def _wants(self, member: str, rank: int | None) -> bool:
        wanted = self._wanted
        in_members = wanted.members is None or member in wanted.members
        return in_members and (wanted.ranks is None or rank in wanted.ranks)

    def _followed(self) -> Iterator[LogLine]:
        """A thread for each pod; a job that gets new pods is followed into those."""
        heard: queue.SimpleQueue[LogLine] = queue.SimpleQueue()
        reading: dict[str, threading.Thread] = {}
        told: dict[str, Told] = {}

        def read(pod: str, member: str, rank: int | None, follow: bool) -> None:
            try:
                known = told.setdefault(pod, Told())
                for line in self._read(pod, member, rank, follow=follow, known=known):
                    heard.put(line)
            except ApiError:
                pass  # the pod is gone, or the line was cut: it is read on from there

        while True:
            over, pods = self._looked()
            for pod, (member, rank) in pods.items():
                thread = reading.get(pod)
                if over and thread is not None:
                    thread.join(LAST)
                if self._wants(member, rank) and (thread is None or not thread.is_alive()):
                    reading[pod] = threading.Thread(
                        target=read, args=(pod, member, rank, not over), daemon=True
                    )
                    reading[pod].start()
            if over:
                for thread in reading.values():
                    thread.join(LAST)
            deadline = time.monotonic() + POLL * 5
            while not (over and heard.empty()):
                try:
                    yield heard.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    break
            if over:
                return

    def _looked(self) -> tuple[bool, dict[str, tuple[str, int | None]]]:
        """Whoever follows waits for an API server that is away."""
        until = time.monotonic() + AWAY
        while True:
            try:
                return self._look()
            except Unreachable:
                if time.monotonic() > until:
                    raise
                time.sleep(1.0)

    def _read(
        self, pod: str, member: str, rank: int | None, *, follow: bool, known: Told | None = None
    ) -> Iterator[LogLine]:
        """What was not told yet."""
        known = known or Told()
        before = known.until
        try:
            stream = self._api.logs(
                self._namespace, pod, "main", follow=follow,
                since=when(before) if before else self._wanted.since,
                tail=None if before else self._wanted.tail, timestamps=True,
            )  # fmt: skip
        except ApiError:  # not started yet, or gone
            return
        held = b""
        for piece in stream:
            *whole, held = (held + piece).split(b"\n")
            for data in whole:
                moment, _, text = data.decode("utf-8", "replace").partition(" ")
                if moment <= before:
                    continue
                stamp, known.until = when(moment) or 0.0, moment
                if text.startswith(MARK) and text[len(MARK) :].isdecimal():
                    known.run = int(text[len(MARK) :])
                elif self._wanted.since is None or stamp >= self._wanted.since:
                    yield LogLine(stamp, member, rank, "out", text, known.run)
