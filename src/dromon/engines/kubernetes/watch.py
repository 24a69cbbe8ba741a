"""Objects of a kind, and what becomes of them: one list, then a watch that goes on from it.

A watch that is cut goes on where it was; where the server no longer keeps that, everything is
listed again and the difference told. Nobody who reads sees any of that.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dromon.engines.kubernetes.asking import AGAIN, Stream, between
from dromon.engines.kubernetes.http import PAGE, Api, Object, target_of, trimmed
from dromon.engines.kubernetes.refusals import ApiError, Gone, Unreachable, refusal
from dromon.engines.kubernetes.volcano import Kind

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
LASTS = 300  # seconds that the server keeps one watch open
LONG = 200  # characters of a text that hardly comes twice
LEAVE = (
    2.0  # seconds that a thread may take to see that it is over; one that waits for a server more
)
PAUSE = 1.0  # seconds before the next one, where one brought nothing at all


class Change(NamedTuple):
    type: str  # ADDED, MODIFIED or DELETED
    object: Object


class Watch:
    """``namespace``: empty for all. ``keep`` trims each object as it comes; who manages which field
    is never kept. ``patience``: seconds that the server may be away, besides what is asked again
    anyway. ``objects``: what there is now, by namespace and name; another thread takes a
    copy of it before it goes through it.
    """

    def __init__(
        self,
        api: Api,
        kind: Kind,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        keep: Callable[[Object], Object] | None = None,
        limit: int = PAGE,
        patience: float = 0.0,
    ) -> None:
        self.kind = kind
        self._patience = patience
        self.objects: dict[tuple[str, str], Object] = {}
        self._api = api
        self._namespace, self._labels, self._fields = namespace, labels, fields
        self._keep = keep
        self._limit = limit
        self._version = ""  # up to which everything is told; empty: nothing is listed yet
        self._stream: Stream | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def is_loaded(self) -> bool:
        """`objects` is all there is; what is not in it is not there."""
        return bool(self._version)

    def load(self) -> None:
        """Lists, if that was not done: `objects` is full then, and `events` begins after it."""
        if not self._version:
            for _ in self._listed():
                pass

    def events(self) -> Iterator[Change]:
        """What differs from `objects` as it is now: first all there is, where nothing was loaded.
        Without an end but `close`; errors come out of it when the server is gone for too long.
        """
        away = 0.0  # since when
        while not self._closed.is_set():
            try:
                if not self._version:
                    yield from self._listed()
                yield from self._watched()
                away = 0.0
            except Unreachable:
                now = time.monotonic()
                away = away or now
                if now - away >= self._patience or self._closed.wait(PAUSE):
                    raise

    def close(self) -> None:
        """Ends `events`, wherever it waits."""
        self._closed.set()
        with self._lock:
            if self._stream is not None:
                self._stream.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- a list ---------------------------------------------------------------------------------

    def _listed(self) -> Iterator[Change]:
        found: dict[tuple[str, str], Object] = {}
        version = ""
        for number, page in self._api.pages(
            self.kind, self._namespace, self._labels, self._fields, self._limit
        ):
            if number == 0:
                found = {}
            for item in trimmed(page, None):
                found[_key(item)] = self._kept(item)
            version = str(page["metadata"]["resourceVersion"])
        before, self.objects = self.objects, found
        self._version = version
        for key in before.keys() - found.keys():
            yield Change(DELETED, before[key])
        for key, item in found.items():
            if key not in before:
                yield Change(ADDED, item)
            elif before[key] != item:
                yield Change(MODIFIED, item)

    # ---- a watch --------------------------------------------------------------------------------

    def _watched(self) -> Iterator[Change]:
        """One watch, until it ends: by itself after a while, or cut."""
        try:
            stream = self._open()
        except Gone:
            self._version = ""
            return
        told = False
        try:
            with stream:
                for line in _lines(stream):
                    change = self._taken(json.loads(line))
                    told = True
                    if change is not None:
                        yield change
        except Gone:
            self._version = ""
        except (Unreachable, ValueError):
            pass  # cut, or garbled: the next one goes on from the last that was understood
        except ApiError as error:
            if error.code not in AGAIN:
                raise
        finally:
            with self._lock:
                self._stream = None
        if not told:
            self._closed.wait(PAUSE)

    def _open(self) -> Stream:
        query = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": self._version,
            "timeoutSeconds": int(LASTS * between(1.0, 1.2)),  # not all at once
            "labelSelector": self._labels,
            "fieldSelector": self._fields,
        }
        path = target_of(self.kind.path(self._namespace), query)
        stream = self._api.stream("watch", path, self.kind)
        stream.patience(LASTS * 2.0)
        with self._lock:
            self._stream = stream
        if self._closed.is_set():  # meanwhile
            stream.close()
        return stream

    def _taken(self, event: Any) -> Change | None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            raise refusal(int(item.get("code") or 0), item, kind=self.kind)
        self._version = str(item["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            return None
        item["metadata"].pop("managedFields", None)
        key, item = _key(item), self._kept(item)
        if kind == DELETED:
            self.objects.pop(key, None)
        else:
            self.objects[key] = item
        return Change(kind, item)

    def _kept(self, item: Object) -> Object:
        found: Object = shared(item if self._keep is None else self._keep(item))
        return found


class Following:
    """Several watches in one loop: a thread each, one queue."""

    def __init__(self, *watches: Watch) -> None:
        import queue  # here: most commands follow nothing

        self._empty = queue.Empty
        self._watches = watches
        self._queue: queue.SimpleQueue[tuple[Watch, Change | BaseException]] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._feed, args=(watch,), daemon=True) for watch in watches
        ]
        for thread in self._threads:
            thread.start()

    def next(self, timeout: float | None = None) -> tuple[Watch, Change] | None:
        """The next change of any of them; None where there was none in that time. The error of one
        comes out here.
        """
        try:
            watch, change = self._queue.get(timeout=timeout)
        except self._empty:
            return None
        if isinstance(change, BaseException):
            raise change
        return watch, change

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        for thread in self._threads:
            thread.join(LEAVE)

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _feed(self, watch: Watch) -> None:
        try:
            for change in watch.events():
                self._queue.put((watch, change))
        except BaseException as error:
            self._queue.put((watch, error))


# --- objects and lines


def shared(value: Any) -> Any:
    """The same, with every text once in memory: ten thousand pods say the same few hundred."""
    if isinstance(value, dict):
        return {sys.intern(key): shared(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shared(inner) for inner in value]
    return sys.intern(value) if type(value) is str and len(value) < LONG else value


def _key(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])


def _lines(stream: Stream) -> Iterator[bytes]:
    """Whole lines; what was cut in the middle is not told."""
    rest: list[bytes] = []
    for piece in stream:
        if b"\n" not in piece:
            rest.append(piece)
            continue
        *whole, last = piece.split(b"\n")
        yield b"".join([*rest, whole[0]])
        yield from whole[1:]
        rest = [last] if last else []
