"""The agent's loop: descriptors, named timers, signals. One thread, poll(2), nothing else.

asyncio would do, but its import and its set-up cost more than a whole short member.
"""

import os
import select
import signal
import time
from typing import Callable, Dict, Iterable, List, Tuple

READ = select.POLLIN | select.POLLHUP | select.POLLERR
WRITE = select.POLLOUT

Handler = Callable[[int], None]  # called with the poll events of its descriptor


def _ignore(number: int) -> None:
    """Nobody has asked for signals yet."""


class Loop:
    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: Dict[int, Handler] = {}
        self._timers: Dict[str, Tuple[float, Callable[[], None]]] = {}
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._on_signal: Callable[[int], None] = _ignore
        self._signals: Tuple[int, ...] = ()
        self._rests = False
        self.watch(self._wake_read, READ, self._woken)

    # ---- descriptors ----------------------------------------------------------------------------

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        self._poll.register(fd, events)
        self._handlers[fd] = handler

    def forget(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    # ---- timers ---------------------------------------------------------------------------------

    def at(self, name: str, moment: float, call: Callable[[], None]) -> None:
        """Call it at this moment of time.monotonic; the same name again replaces it."""
        self._timers[name] = (moment, call)

    def after(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        self._timers[name] = (time.monotonic() + seconds, call)

    def cancel(self, *names: str) -> None:
        for name in names:
            self._timers.pop(name, None)

    def has(self, name: str) -> bool:
        return name in self._timers

    # ---- signals --------------------------------------------------------------------------------

    def on_signals(self, numbers: Iterable[int], call: Callable[[int], None]) -> None:
        self._on_signal = call
        self._rests = False
        if self._signals:
            return
        self._signals = tuple(numbers)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in self._signals:
            signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: object) -> None:
        """A handler must exist for the wake-up pipe to be written; the loop does the work. While
        it rests, SIGTERM does what it does by default."""
        if self._rests and number == signal.SIGTERM:
            os._exit(128 + number)

    def wake(self) -> None:
        """Make the loop turn once more; from any thread."""
        try:
            os.write(self._wake_write, b"\0")
        except OSError:  # full: it will turn anyway
            pass

    def _woken(self, events: int) -> None:
        for number in sorted(set(os.read(self._wake_read, 4096))):
            self._on_signal(number)

    def rest(self) -> None:
        """Let go of everything but the signals, until somebody asks for them again: a later life
        of this process need not pay for a loop."""
        for fd in [fd for fd in self._handlers if fd != self._wake_read]:
            self.forget(fd)
        self._timers.clear()
        self._rests = True
        try:
            missed = os.read(self._wake_read, 4096)
        except BlockingIOError:
            return
        if signal.SIGTERM in missed:
            self._signalled(signal.SIGTERM, None)

    def close(self) -> None:
        """Let go of everything; signals do again what they do by default."""
        signal.set_wakeup_fd(-1)
        for number in self._signals:
            signal.signal(number, signal.SIG_DFL)
        self._handlers.clear()
        self._timers.clear()
        os.close(self._wake_read)
        os.close(self._wake_write)

    # ---- turning --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Wait for the next thing and handle it."""
        for fd, events in self._poll.poll(self._patience()):
            handler = self._handlers.get(fd)
            if handler is not None:  # may have been forgotten by the one before it
                handler(events)
        if self._timers:
            now = time.monotonic()
            due: List[str] = [name for name, (moment, _) in self._timers.items() if moment <= now]
            for name in due:
                timer = self._timers.pop(name, None)
                if timer is not None:
                    timer[1]()

    def _patience(self) -> "float | None":
        """Milliseconds until the first timer; rounded up, so as not to turn for nothing."""
        if not self._timers:
            return None
        first = min([moment for moment, _ in self._timers.values()])
        return max(0.0, (first - time.monotonic()) * 1000 + 0.999)
