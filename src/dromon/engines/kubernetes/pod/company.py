"""Whether the first member has a pod with an address: there is no gang without it.

Of a gang that may be smaller than asked Volcano places whichever members it sees first, and the
room may be theirs before the pod of the first one is made, which holds the coordinator. Who is
there without it gives the room back after a while, and Volcano makes all pods anew.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Mapping
from typing import Any

PATIENCE = 15.0  # seconds; doubled with each restart, for a first pod that is only slow
LONGEST = 240.0
POLL = 0.5


def is_sure(request: Mapping[str, Any]) -> bool:
    """Nobody is placed without the first member."""
    first = next(iter(request["roles"].values()))
    return bool(first["min"] >= first["replicas"])


def patience(restarts: int) -> float:
    return min(PATIENCE * 2.0 ** min(restarts, 10), LONGEST)


def comes(host: str, seconds: float) -> bool:
    """Waits until that name has an address. False: it was in vain, or this pod is to end; SIGTERM
    must be blocked."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.getaddrinfo(host, None)
            return True
        except OSError:
            pass
        if signal.sigtimedwait((signal.SIGTERM,), POLL) or time.monotonic() > end:
            return False
