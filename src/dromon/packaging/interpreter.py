"""The caller's own interpreter, for jobs that ask for no environment: found and recorded."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping

_versions: dict[tuple[str, int, str], str] = {}
_lock = threading.Lock()


def host_environment(environ: Mapping[str, str], python: str = "") -> dict[str, str]:
    """{"kind": "host", "python": path, "version": "3.11.7"} for the caller's variables, or for
    the interpreter the caller names.

    No process is started, but for a wrapper script that nothing else tells the version of, once.
    """
    python = python or _find(environ)
    return {"kind": "host", "python": python, "version": _version(python, environ)}


def _find(environ: Mapping[str, str]) -> str:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            python = os.path.join(environ[name], "bin", "python")
            if os.access(python, os.X_OK):
                return python
    for name in ("python3", "python"):
        found = shutil.which(name, path=environ.get("PATH", os.defpath))
        if found:
            return os.path.abspath(found)
    return sys.executable


def _version(python: str, environ: Mapping[str, str]) -> str:
    try:
        key = (python, os.stat(python).st_mtime_ns, environ.get("PYENV_VERSION", ""))
    except OSError:
        return ""
    with _lock:
        known = _versions.get(key)
    if known is None:
        known = _from_environment(python) or _from_name(python) or _asked(python, environ)
        with _lock:
            _versions[key] = known
    return known


def _from_environment(python: str) -> str:
    home = os.path.dirname(os.path.dirname(python))
    try:
        with open(os.path.join(home, "pyvenv.cfg"), encoding="utf-8") as file:
            found = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+)", file.read(), re.M)
            return found[1] if found else ""
    except (OSError, UnicodeDecodeError):
        pass
    try:
        names = "\n".join(os.listdir(os.path.join(home, "conda-meta")))
    except OSError:
        return ""
    found = re.search(r"^python-(\d+\.\d+\.\d+)-", names, re.M)
    return found[1] if found else ""


def _from_name(python: str) -> str:
    """/opt/python/3.11.7/bin/python3.11, or at least python3.11."""
    real = os.path.realpath(python)
    short = re.search(r"/python(\d+\.\d+)$", real)
    if not short:
        return ""
    exact = re.search(rf"[/-]({re.escape(short[1])}\.\d+)(?=[/-])", real)
    return exact[1] if exact else short[1]


def _asked(python: str, environ: Mapping[str, str]) -> str:
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", code], env=dict(environ), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
