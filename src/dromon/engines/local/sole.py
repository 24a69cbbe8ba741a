"""That one process, and no other, serves a socket. What it serves is not known here."""

import fcntl
import os
import time

from dromon.engines.local import server
from dromon.engines.local.client import START_LIMIT


def take_lock(path: str, serving: str) -> int | None:
    """The descriptor that makes this the one that serves that socket, or None when there is
    another. One that no longer answers is on its way out, or on its way in; which, a moment will
    show."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + START_LIMIT
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if server.answers(serving) or time.monotonic() > deadline:
                os.close(fd)
                return None
            time.sleep(0.01)
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
