"""Environments built by uv: once for each lock, then shared by every job that asks for it.

    cache/environments/<digest>/       a virtual environment; good once `complete` is in it
    cache/environments/<digest>.lock   held while it is built or taken away

How a request becomes a lock is in `lock`; what the caller already has is in `interpreter`.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dromon.packaging import uv
from dromon.packaging.interpreter import host_environment
from dromon.packaging.lock import Lock, for_target, is_pylock, resolve

__all__ = [
    "Lock", "alone", "build", "build_for_others", "gc", "host_environment", "is_built", "kept",
    "python_of", "resolve",
]  # fmt: skip

COMPLETE = "complete"


def build(
    lock: Lock,
    cache_dir: str,
    progress: uv.Progress = lambda _: None,
    *,
    environ: Mapping[str, str] | None = None,
) -> str:
    """The path of the environment's Python. Whoever asks while another builds waits for it."""
    home = _home(cache_dir, lock.digest)
    if is_built(lock.digest, cache_dir):
        return python_of(lock.digest, cache_dir)
    with alone(home + ".lock", progress) as fd:
        if is_built(lock.digest, cache_dir):
            return python_of(lock.digest, cache_dir)
        shutil.rmtree(home, ignore_errors=True)  # what an interrupted build left
        cwd = lock.directory if os.path.isdir(lock.directory) else cache_dir
        interpreter = lock.interpreter if os.path.exists(lock.interpreter) else lock.python
        # uv holds our lock too: should we be killed, nobody builds beside an orphan.
        progress(f"Making an environment with Python {lock.python}")
        uv.run(
            ["venv", "--no-project", "--python", interpreter, home],
            cwd=cwd, what="The environment could not be made", environ=environ, pass_fds=(fd,),
        )  # fmt: skip

        def told(text: str) -> None:
            progress(text)
            if text.startswith("Installed"):  # uv compiles next and says so when it is done
                progress("Compiling bytecode")

        listing = _listing(lock, home)
        uv.run(
            ["pip", "sync", "--allow-empty-requirements", "--compile-bytecode",
             "--link-mode", "hardlink", "--python", python_of(lock.digest, cache_dir), listing],
            cwd=cwd, what="The environment could not be built", progress=told,
            environ=environ, pass_fds=(fd,),
        )  # fmt: skip
        with open(os.path.join(home, COMPLETE), "w") as file:
            file.write(f"{time.time():.0f}\n")
    return python_of(lock.digest, cache_dir)


def build_for_others(
    lock: Lock,
    cache_dir: str,
    progress: uv.Progress = lambda _: None,
    *,
    environ: Mapping[str, str] | None = None,
) -> str:
    """The directory of the packages of a lock for another platform, which no Python here runs."""
    home = _home(cache_dir, lock.digest)
    packages = os.path.join(home, "packages")
    with alone(home + ".lock", progress) as fd:
        if os.path.exists(os.path.join(home, COMPLETE)):
            return packages
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(packages, mode=0o700)
        cwd = lock.directory if os.path.isdir(lock.directory) else cache_dir
        if lock.text.strip():
            uv.run(
                ["pip", "sync", "--link-mode", "hardlink", "--target", packages,
                 *for_target(lock.platform, lock.python), _listing(lock, home)],
                cwd=cwd, what="The environment could not be built", progress=progress,
                environ=environ, pass_fds=(fd,),
            )  # fmt: skip
        with open(os.path.join(home, COMPLETE), "w") as file:
            file.write(f"{time.time():.0f}\n")
    return packages


def _listing(lock: Lock, home: str) -> str:
    """The lock as a file, named as uv expects it."""
    path = os.path.join(home, "pylock.toml" if is_pylock(lock.text) else "requirements.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(lock.text)
    return path


def is_built(digest: str, cache_dir: str) -> bool:
    """Whole, and the Python it was made from is still on this machine."""
    home = _home(cache_dir, digest)
    return os.path.exists(os.path.join(home, COMPLETE)) and os.path.exists(
        os.path.join(home, "bin", "python")
    )


def python_of(digest: str, cache_dir: str) -> str:
    return os.path.join(_home(cache_dir, digest), "bin", "python")


@contextmanager
def kept(digest: str, cache_dir: str) -> Iterator[None]:
    """`gc` leaves that environment alone meanwhile."""
    with alone(_home(cache_dir, digest) + ".lock", lambda _: None):
        yield


def gc(cache_dir: str, keep: set[str]) -> int:
    """Take away every environment not in `keep` and not being built. Returns the bytes freed."""
    root = os.path.join(cache_dir, "environments")
    freed = 0
    names = os.listdir(root) if os.path.isdir(root) else []
    for digest in sorted({n.removesuffix(".lock") for n in names} - keep):
        home = _home(cache_dir, digest)
        try:
            with alone(home + ".lock", None):
                for directory, _, files in os.walk(home):
                    for name in files:
                        st = os.lstat(os.path.join(directory, name))
                        # Hard links of uv's cache stay there.
                        freed += st.st_size if st.st_nlink == 1 else 0
                _unmark(home)
                shutil.rmtree(home, ignore_errors=True)
                os.unlink(home + ".lock")
        except BlockingIOError:
            continue
    return freed


def _unmark(home: str) -> None:
    """First of all: half an environment must never look whole."""
    try:
        os.unlink(os.path.join(home, COMPLETE))
    except FileNotFoundError:
        pass


def _home(cache_dir: str, digest: str) -> str:
    return os.path.join(os.path.abspath(cache_dir), "environments", digest)


@contextmanager
def alone(path: str, progress: uv.Progress | None) -> Iterator[int]:
    """Alone among threads and processes. Without `progress`: now, or BlockingIOError."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if progress is None:
                    raise
                progress("Waiting for another build of the same environment")
                fcntl.flock(fd, fcntl.LOCK_EX)
            if not _is_still(path, fd):
                continue  # `gc` took the file away while we waited
            yield fd
            return
        finally:
            os.close(fd)


def _is_still(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False
