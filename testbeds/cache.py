"""Where finished things are kept outside the checkout, each made once however many ask for it."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("DROMON_CACHE") or f"{base}/dromon", "testbeds")


@contextmanager
def lock(name: str) -> Iterator[None]:
    root = folder()
    root.mkdir(parents=True, exist_ok=True)
    with open(root / f".{name}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def made(name: str, make: Callable[[Path], Path]) -> Path:
    """The entry `name`; `make` gets an empty scratch directory and says what in it is the entry."""
    place = folder() / name
    if place.exists():
        return place
    with lock(name):  # a second bed waits instead of making it twice
        if not place.exists():
            with tempfile.TemporaryDirectory(prefix=".making-", dir=folder()) as scratch:
                make(Path(scratch)).rename(place)
    return place
