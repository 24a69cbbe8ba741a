"""A function shipped to a job, and what comes back of it.

A payload is one line of JSON, readable without unpickling anything, then a pickle of
(function, args, kwargs). Pickles are made of, and loaded from, the user's own job alone.

A function of the working directory goes by name: the snapshot carries its module. One of the main
script, or of a module neither there nor installed, goes by value, with its source on record.
"""

import hashlib
import json
import os
import pickle
import shutil
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from dromon.errors import PackagingError

INSTALLED = ("site-packages", "dist-packages")
OWN = ("dromon", "cloudpickle")
# Registering a module for pickling by value is global to the process.
_registry = threading.RLock()


@dataclass(frozen=True, slots=True)
class Raised:
    """What a shipped function raised. `exception` is None where it cannot be rebuilt here."""

    type: str
    message: str
    traceback: str
    exception: BaseException | None


def dump(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    workdir: str | None = None,
    by_name: Collection[str] = (),
) -> bytes:
    """The payload. Raises PackagingError where something in it cannot be shipped.

    `by_name`: modules that the member will be able to import though they lie elsewhere here.
    """
    import cloudpickle  # type: ignore[import-untyped]

    name = getattr(function, "__qualname__", type(function).__qualname__)
    root = os.path.realpath(workdir) if workdir else None
    with _by_value(root, by_name) as modules:
        try:
            body: bytes = cloudpickle.dumps((function, tuple(args), dict(kwargs or {})))
        except Exception as error:
            raise PackagingError(
                f"The function {name} cannot be shipped: {type(error).__name__}: {error}",
                hint="Open files, locks, sockets and the like inside the function.",
            ) from error
    header = {
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "cloudpickle": cloudpickle.__version__,
        "name": name,
        "module": getattr(function, "__module__", None),
        "path": _path(root),
        "sources": {m: _source(file) for m, file in modules.items() if _named(m, body)},
    }
    return json.dumps(header).encode() + b"\n" + body


def header(payload: bytes) -> dict[str, Any]:
    """What a payload says of itself, without unpickling it."""
    found: dict[str, Any] = json.loads(payload.partition(b"\n")[0])
    return found


def runner(out_dir: str) -> str:
    """A directory holding `run.py` and cloudpickle: `python DIR/run.py PAYLOAD` in any Python."""
    files = dict(_runner_files())
    hasher = hashlib.sha256()
    for name, data in sorted(files.items()):
        hasher.update(f"{name}\0{len(data)}\0".encode() + data)
    home = os.path.join(out_dir, f"dromon-runner-{hasher.hexdigest()[:12]}")
    if os.path.isdir(home):
        return home
    os.makedirs(out_dir, exist_ok=True)
    fresh = tempfile.mkdtemp(dir=out_dir)
    try:
        for name, data in files.items():
            path = os.path.join(fresh, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
        os.chmod(fresh, 0o755)
        os.rename(fresh, home)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        if not os.path.isdir(home):  # else another process was quicker
            raise
    return home


def load_result(path: str) -> Any:
    """What the function returned, from the user's own job record."""
    with open(path, "rb") as file:
        return _unpickled(file.read(), "The result")


def load_error(path: str) -> Raised:
    """What the function raised, from the user's own job record."""
    with open(path, "rb") as file:
        kind, message, traceback, pickled = pickle.loads(file.read())
    exception = None
    if pickled is not None:
        try:
            exception = pickle.loads(pickled)
        except Exception:  # of a class this process does not have
            pass
    if not isinstance(exception, BaseException):
        exception = None
    return Raised(kind, message, traceback, exception)


def _unpickled(data: bytes, what: str) -> Any:
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError) as error:
        raise PackagingError(
            f"{what} cannot be read here: {error}.",
            hint="Install here what the job's environment has, or return plain values.",
        ) from error


def _runner_files() -> Iterator[tuple[str, bytes]]:
    import cloudpickle

    from dromon.packaging import runner as script

    with open(str(script.__file__), "rb") as file:
        yield "run.py", file.read()
    package = os.path.dirname(cloudpickle.__file__)
    for name in sorted(os.listdir(package)):
        if name.endswith(".py"):
            with open(os.path.join(package, name), "rb") as file:
                yield f"cloudpickle/{name}", file.read()


@contextmanager
def _by_value(root: str | None, by_name: Collection[str]) -> Iterator[dict[str, str]]:
    """While held, modules that will not be there in the member are pickled by value."""
    import cloudpickle

    with _registry:
        modules: dict[str, str] = {}
        already = cloudpickle.list_registry_pickle_by_value()
        for name, module in list(sys.modules.items()):
            file = _stays_behind(name, module, root)
            if file is not None and name not in already and name not in by_name:
                cloudpickle.register_pickle_by_value(module)
                modules[name] = file
        try:
            yield modules
        finally:
            for name in modules:
                if name in sys.modules:
                    cloudpickle.unregister_pickle_by_value(sys.modules[name])


def _stays_behind(name: str, module: ModuleType, root: str | None) -> str | None:
    """The file of a module that neither the snapshot nor an environment brings to the member."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py") or name == "__main__":
        return None
    if name.partition(".")[0] in OWN or getattr(module, "__name__", None) != name:
        return None
    file = os.path.realpath(file)
    if root is not None and file.startswith(root + os.sep):
        return None
    if any(f"{os.sep}{part}{os.sep}" in file for part in INSTALLED):
        return None
    for key in ("stdlib", "platstdlib"):
        if file.startswith(os.path.realpath(sysconfig.get_path(key)) + os.sep):
            return None
    return file


def _path(root: str | None) -> list[str]:
    """Where the member finds modules, relative to its working directory."""
    out = ["."]
    for entry in sys.path:
        full = os.path.realpath(entry or ".")
        if root is not None and full.startswith(root + os.sep):
            inside = os.path.relpath(full, root)
            if not any(f"{os.sep}{p}" in f"{os.sep}{inside}" for p in INSTALLED):
                out.append(inside)
    return list(dict.fromkeys(out))


def _named(module: str, body: bytes) -> bool:
    return module.encode() in body


def _source(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""
