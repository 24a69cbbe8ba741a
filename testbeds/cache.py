"""Where finished things are kept outside the checkout, each made once however many ask for it."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("DROMON_CACHE") or f"{base}/dromon", "testbeds")


def made(name: str, make: Callable[[Path], Path]) -> Path:
    """The entry `name`; `make` gets an empty scratch directory and says what in it is the entry."""
    root = folder()
    place = root / name
    if place.exists():
        return place
    root.mkdir(parents=True, exist_ok=True)
    with open(root / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second bed waits instead of making it twice
        if not place.exists():
            with tempfile.TemporaryDirectory(prefix=".making-", dir=root) as scratch:
                make(Path(scratch)).rename(place)
    return place
