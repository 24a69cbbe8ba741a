"""From the member's pipes to its log, without ever making the member wait for a disk.

The agent's loop calls `read` when a pipe has something; whole chunks go to a thread that writes
them. While the disk does not keep up the chunks wait in memory, up to `limit` bytes. Then, if the
disk moves at all, the member is read no faster than the disk writes, as with any file it might
print into; if the disk stands still, chunks are dropped and counted; when it refuses (full),
likewise. Nothing is done per line. The thread starts with the
first output. How the log looks on disk is `logfile`'s.
"""

import _thread
import fcntl
import os
import time
from _queue import SimpleQueue
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from dromon.agent.logfile import Segment

QUIET = 0.05  # an unfinished line (a prompt, a progress bar) is written after this much silence
HELD = 64 * 1024  # or when it has grown to this
KEPT = 32 * 1024  # the end of the output is kept in memory for the exit record
BATCH = 1024 * 1024
STILL = 1.0  # a disk that has written nothing for so long stands still
SMALL_PIPE = 64 * 1024  # what Linux gives
LARGE_PIPE = 1024 * 1024
F_SETPIPE_SZ = 1031  # in fcntl only since Python 3.10
MASK = b"***"
_NEVER = float("inf")

Append = Callable[[Sequence[Segment]], None]


class _Stream:
    """One pipe: what is held of its unfinished line, and when that is due."""

    __slots__ = ("due", "held", "number", "size")

    def __init__(self, number: int) -> None:
        self.number = number
        self.held = b""
        self.due = _NEVER
        self.size = SMALL_PIPE


class Capture:
    """All output of one run. `wake` is called, from the writing thread, when all is written."""

    def __init__(
        self,
        append: Append,
        limit: int,
        secrets: Iterable[str] = (),
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._append = append
        self._limit = limit
        self._masks = masks_of(secrets)
        self._wake = wake
        self._streams: Dict[int, _Stream] = {}
        self._queue: SimpleQueue[Optional[Segment]] = SimpleQueue()
        self._running = False
        self._tail: List[bytes] = []
        self._tail_size = 0
        self._time = 0.0
        # Each counter is written by one thread only, so no lock is needed.
        self._queued = 0  # bytes, by the loop
        self._written = 0  # bytes, by the writer
        self._moved = 0.0  # when the writer last got something done
        self._too_slow = 0  # lines, by the loop
        self._owed = 0  # of these, lines not yet owned up to in the log
        self._refused = 0  # lines, by the writer
        self.trouble = ""  # what the disk last said when it refused
        self._working = _thread.allocate_lock()  # held by the writer until its very last step
        self._ending = False  # set by the writer
        self._done = False
        self.has_unfinished = False  # a line is held until it goes on or `flush_quiet` writes it

    # ---- the loop's side ------------------------------------------------------------------------

    def add(self, fd: int, stream: int) -> None:
        os.set_blocking(fd, False)
        self._streams[fd] = _Stream(stream)

    @property
    def open_fds(self) -> List[int]:
        return list(self._streams)

    @property
    def dropped(self) -> int:
        return self._too_slow + self._refused

    @property
    def backlog(self) -> int:
        """Bytes read but not yet written."""
        return self._queued - self._written

    @property
    def done(self) -> bool:
        """After `finish`: all is written, and the writer will not touch anything any more."""
        if self._ending and not self._done:
            self._working.acquire()  # it has but to wake the loop
            self._done = True
        return self._done

    @property
    def must_wait(self) -> bool:
        """The buffer is full, but the disk moves: read no more for the moment."""
        room = self._limit - (self._queued - self._written)
        return room < min(LARGE_PIPE, self._limit // 2) and (time.monotonic() - self._moved < STILL)

    def read(self, fd: int) -> int:
        """Take what the pipe has: bytes taken, 0 at its end (then it is closed), -1 for nothing."""
        stream = self._streams[fd]
        try:
            data = os.read(fd, stream.size)
        except BlockingIOError:
            return -1
        if not data:
            self.drop_stream(fd)
            return 0
        size = len(data)
        if size == SMALL_PIPE == stream.size:
            # A pipe that runs full belongs to somebody who prints a lot. Only then is it made
            # larger: the pages a user's pipes may have together are limited.
            stream.size = LARGE_PIPE
            try:
                fcntl.fcntl(fd, F_SETPIPE_SZ, LARGE_PIPE)
            except OSError:
                pass
        now = time.time()
        cut = data.rfind(b"\n") + 1
        if cut:
            whole = data if cut == size else data[:cut]
            if stream.held:
                whole = stream.held + whole
            stream.held = data[cut:] if cut < size else b""
            self._put(now, stream.number, self._masked(whole))
        else:
            stream.held += data
        if stream.held:
            self.has_unfinished = True
            stream.due = time.monotonic() + QUIET
            if len(stream.held) > HELD:
                self._put_held(now, stream)
        return size

    def drop_stream(self, fd: int) -> None:
        """Read no more from this pipe."""
        stream = self._streams.pop(fd)
        os.close(fd)
        if stream.held:
            self._put(time.time(), stream.number, self._masked(stream.held))
            stream.held = b""

    def flush_quiet(self) -> Optional[float]:
        """Write unfinished lines that were left alone; seconds until the next may be due."""
        wait: Optional[float] = None
        now = time.monotonic()
        for stream in self._streams.values():
            if not stream.held:
                continue
            if stream.due <= now:
                self._put_held(time.time(), stream)
                # What may be the start of a secret stays until more comes or the pipe ends.
                stream.due = _NEVER
            elif stream.due != _NEVER:
                left = stream.due - now
                wait = left if wait is None else min(wait, left)
        self.has_unfinished = wait is not None
        return wait

    def finish(self) -> None:
        """No more will be read: write what is left. `done` when that has happened."""
        for fd in list(self._streams):
            self.drop_stream(fd)
        self._own_up(time.time())
        if self._running:
            self._queue.put(None)
        else:
            self._done = True

    def last_lines(self, count: int) -> List[str]:
        data = b"".join(self._tail)
        lines = data[-KEPT:].decode("utf-8", "replace").split("\n")
        if lines and not lines[-1]:
            lines.pop()
        if len(data) > KEPT and len(lines) > 1:
            lines = lines[1:]  # cut somewhere in its middle
        return [line[-2000:] for line in lines[-count:]]

    def _masked(self, data: bytes) -> bytes:
        for secret in self._masks:
            if secret in data:
                data = data.replace(secret, MASK)
        return data

    def _put_held(self, now: float, stream: _Stream) -> None:
        """Write an unfinished line, but never half a secret."""
        data = self._masked(stream.held)
        keep = self._secret_begins(data)
        stream.held = data[len(data) - keep :] if keep else b""
        if len(data) > keep:
            self._put(now, stream.number, data[: len(data) - keep])

    def _secret_begins(self, data: bytes) -> int:
        """How many bytes at the end of `data` may be the beginning of a secret."""
        longest = 0
        for secret in self._masks:
            for size in range(min(len(secret) - 1, len(data)), longest, -1):
                if data.endswith(secret[:size]):
                    longest = size
                    break
        return longest

    def _put(self, now: float, stream: int, data: bytes) -> None:
        # A log's times never run backwards, even when the clock does: readers search by time.
        self._time = now = max(now, self._time)
        size = len(data)
        self._tail.append(data[-KEPT:] if size > KEPT else data)
        self._tail_size += min(size, KEPT)
        if self._tail_size > 8 * KEPT:
            self._tail = [b"".join(self._tail)[-2 * KEPT :]]
            self._tail_size = len(self._tail[0])
        if self._queued - self._written + size > self._limit:
            lines = data.count(b"\n")
            self._too_slow += lines
            self._owed += lines
            return
        if self._owed:
            self._own_up(now)
        self._queued += size
        self._queue.put((now, stream, data))
        if not self._running:
            self._running = True
            self._working.acquire()
            _thread.start_new_thread(self._write, ())

    def _own_up(self, now: float) -> None:
        if self._owed:
            note, self._owed = _note(self._owed, "the disk was too slow"), 0
            self._queued += len(note)
            self._queue.put((max(now, self._time), 1, note))

    # ---- the writer's side ----------------------------------------------------------------------

    def _write(self) -> None:
        queue = self._queue
        owed = 0
        last = False
        while not last:
            batch: List[Segment] = []
            size = 0
            segment = queue.get()
            while True:
                if segment is None:
                    last = True
                    break
                batch.append(segment)
                size += len(segment[2])
                if size > BATCH or queue.empty():
                    break
                segment = queue.get()  # the only reader: what is not empty stays so
            if batch or owed:
                owed = self._write_batch(batch, owed)
            self._written += size
            self._moved = time.monotonic()
        self._ending = True
        self._wake()
        self._working.release()

    def _write_batch(self, batch: List[Segment], owed: int) -> int:
        """Lines that are still to be owned up to after this batch."""
        try:
            if owed:
                moment = batch[0][0] if batch else self._time
                self._append([(moment, 1, _note(owed, self.trouble)), *batch])
            else:
                self._append(batch)
            return 0
        except Exception as error:  # whatever the disk does, the pipes must be drained
            self.trouble = getattr(error, "strerror", None) or str(error)
            lines = sum(data.count(b"\n") for _, _, data in batch)
            self._refused += lines
            return owed + lines


def _note(lines: int, why: str) -> bytes:
    return f"[dromon] dropped {lines} lines: {why}\n".encode()


def masks_of(secrets: Iterable[str]) -> Tuple[bytes, ...]:
    """What is masked, the longest first. A value of several lines is masked line by line: that is
    how it would be printed; very short ones would mask ordinary words."""
    found = set()
    for value in secrets:
        lines = value.strip().splitlines()
        for line in lines:
            data = line.strip().encode("utf-8", "surrogateescape")
            if len(data) >= (4 if len(lines) == 1 else 8):
                found.add(data)
    return tuple(sorted(found, key=len, reverse=True))
