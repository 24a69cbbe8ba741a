"""What a job's `environment:` asks for, resolved to exact versions for one Python: a lock.

cache/locks/<key>.json    an answer of the resolver, for as long as a registry's own lasts
"""

import hashlib
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dromon.errors import EnvironmentFailed
from dromon.packaging import uv

RESOLUTION_SECONDS = 600.0  # as long as a package registry lets its own answers be kept
OPTION = re.compile(r"^\s*(-i|-f|--index-url|--extra-index-url|--find-links|--index)\b")
INCLUDES = re.compile(r"^\s*(-r|-c|-e|--requirement|--constraint|--editable)\b|^\s*\.{0,2}/", re.M)
EDITABLE = re.compile(r"^\s*(-e|--editable)\b.*", re.M)
LOCK_HINT = "`lock:` takes a uv.lock, a pylock.toml or a requirements file with exact versions."

_pythons: dict[tuple[str, str], tuple[str, str, int]] = {}  # -> version, path, its mtime


@dataclass(frozen=True, slots=True)
class Lock:
    """Exact versions for one Python on one platform."""

    text: str
    digest: str
    python: str  # "3.11.7"
    interpreter: str = ""  # where that Python is on this machine
    directory: str = ""  # whose uv settings (indexes) hold
    platform: str = ""  # as uv calls it; empty: this machine's

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def resolve(
    request: Mapping[str, Any],
    workdir: str,
    cache_dir: str,
    python_hint: str,
    *,
    environ: Mapping[str, str] | None = None,
    target: str = "",
    target_python: str = "",
) -> Lock:
    """Exact versions for `request`, the job file's `environment:`.

    `python_hint` is the Python to take when none is asked for: a version or a path. `environ` is
    the caller's, where uv's settings may stand. `target` is the platform of other machines, as uv
    calls it, and `target_python` the version that is there, where it is not one of ours.
    """
    if target_python:
        python, interpreter = target_python, ""
    else:
        python, interpreter = _python(str(request.get("python") or python_hint), workdir, environ)
    if request.get("lock"):
        text = _from_lock(_inside(workdir, request["lock"], "lock"), workdir, environ)
    else:
        text = _compile(request, workdir, cache_dir, interpreter, python, environ, target)
    editable = EDITABLE.search(text)
    if editable:
        raise EnvironmentFailed(
            f"The environment asks for an editable package: {editable[0].strip()}.",
            hint="The code of the working directory travels with the job; leave it out of the "
            "requirements, or build a wheel of it.",
        )
    here = f"{platform.system()}-{platform.machine()}-{''.join(platform.libc_ver())}"
    tag = target or here
    digest = hashlib.sha256("\0".join([text, python, tag]).encode()).hexdigest()
    return Lock(text, digest, python, interpreter, os.path.abspath(workdir), target)


def for_target(target: str, python: str) -> list[str]:
    """uv's flags for other machines: what would have to be built could only be built there."""
    if not target:
        return []
    return ["--python-platform", target, "--python-version", python, "--only-binary", ":all:"]


def _python(wanted: str, workdir: str, environ: Mapping[str, str] | None) -> tuple[str, str]:
    """(version, path) of the interpreter to use. uv may fetch one, if its settings let it."""
    key = (wanted, (os.environ if environ is None else environ).get("PATH", ""))
    if key in _pythons:
        version, path, mtime = _pythons[key]
        if _mtime(path) == mtime:
            return version, path
    find = ["python", "find", "--no-project", wanted]
    what = f"There is no Python {wanted} here"
    try:
        path = uv.run(find, cwd=workdir, what=what, environ=environ).strip()
    except EnvironmentFailed as missing:
        try:
            install = ["python", "install", "--no-bin", wanted]
            uv.run(install, cwd=workdir, what=what, environ=environ)
            path = uv.run(find, cwd=workdir, what=what, environ=environ).strip()
        except EnvironmentFailed:
            found = ", ".join(_versions(workdir, environ)) or "none"
            raise EnvironmentFailed(
                missing.message, hint=f"Set `environment.python` to one that is here: {found}."
            ) from None
    version = uv.run(
        ["python", "find", "--no-project", "--show-version", path],
        cwd=workdir, what=what, environ=environ,
    ).strip()  # fmt: skip
    _pythons[key] = (version, path, _mtime(path))
    return version, path


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _versions(workdir: str, environ: Mapping[str, str] | None) -> list[str]:
    try:
        text = uv.run(
            ["python", "list", "--only-installed", "--output-format", "json"],
            cwd=workdir, what="", environ=environ,
        )  # fmt: skip
        found = {str(item["version"]) for item in json.loads(text)}
    except (EnvironmentFailed, ValueError, KeyError, TypeError):
        return []
    return sorted(found, key=lambda v: [int(n) for n in re.findall(r"\d+", v)])


def _inside(workdir: str, name: str, key: str) -> str:
    path = os.path.join(workdir, os.path.expanduser(name))
    if not os.path.isfile(path):
        raise EnvironmentFailed(
            f"environment.{key}: {name} does not exist.",
            hint="The path is relative to the working directory.",
        )
    return path


def _read(path: str, key: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise EnvironmentFailed(f"environment.{key}: {path} cannot be read: {why}.") from None


def _from_lock(path: str, workdir: str, environ: Mapping[str, str] | None) -> str:
    name = os.path.basename(path)
    if name == "uv.lock":
        return uv.run(
            ["export", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "--no-annotate",
             "--project", os.path.dirname(path) or workdir],
            cwd=workdir, what="uv.lock cannot be used", environ=environ,
        )  # fmt: skip
    text = _read(path, "lock")
    if name.endswith((".lock", ".toml", ".json", ".yml", ".yaml")) and not is_pylock(text):
        foreign = text.lstrip().startswith(("{", "[", "version:", "# This file is automatically"))
        if foreign:
            raise EnvironmentFailed(
                f"environment.lock: {name} is of no known kind.", hint=LOCK_HINT
            )
    return text


def is_pylock(text: str) -> bool:
    return re.search(r"^lock-version\s*=", text, re.M) is not None


def _compile(
    request: Mapping[str, Any],
    workdir: str,
    cache_dir: str,
    interpreter: str,
    python: str,
    environ: Mapping[str, str] | None,
    target: str,
) -> str:
    packages = "".join(f"{p}\n" for p in request.get("packages") or ())
    inputs: list[tuple[str, str]] = []  # (path, text)
    for key in ("requirements", "pyproject"):
        if request.get(key):
            path = _inside(workdir, request[key], key)
            inputs.append((path, _read(path, key)))
    if not packages and not inputs:
        return ""
    options = "".join(
        line + "\n" for _, text in inputs for line in text.splitlines() if OPTION.match(line)
    )
    key = hashlib.sha256(
        json.dumps([packages, inputs, python, os.path.abspath(workdir), target]).encode()
    ).hexdigest()
    place = os.path.join(cache_dir, "locks", f"{key}.json")
    # A file that names others may have changed without changing itself.
    keeps = not any(INCLUDES.search(text) for _, text in inputs)
    if keeps and (known := _known(place)) is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="dromon-") as scratch:
        listing = os.path.join(scratch, "packages.in")
        with open(listing, "w", encoding="utf-8") as file:
            file.write(packages)
        text = options + uv.run(
            ["pip", "compile", "--no-header", "--no-annotate",
             *(["--python", interpreter] if interpreter else []), *for_target(target, python),
             *([listing] if packages else []), *(path for path, _ in inputs)],
            cwd=workdir, what="The environment could not be resolved", environ=environ,
        )  # fmt: skip
    if keeps:
        _remember(place, text)
    return text


def _known(place: str) -> str | None:
    try:
        with open(place, encoding="utf-8") as file:
            data = json.load(file)
        age = time.time() - data["time"]
        return str(data["text"]) if 0 <= age < RESOLUTION_SECONDS else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(place: str, text: str) -> None:
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    fd, fresh = tempfile.mkstemp(dir=os.path.dirname(place))
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump({"time": time.time(), "text": text}, file)
    os.replace(fresh, place)
