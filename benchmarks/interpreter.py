"""Which Python the bars of processor time are measured on: an optimised build, as users have.

One built without profile-guided optimisation, as version managers do by default, takes about half
as long again as a distribution's. Where the present one is such, pure benchmarks run in a child of
a better one, if this machine has any: they need the standard library alone. Each bar says which.
"""

import glob
import importlib
import json
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType

from benchmarks.measure import Bar

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 11)


@dataclass(frozen=True)
class Build:
    path: str
    version: tuple[int, ...]
    is_optimised: bool

    def __str__(self) -> str:
        version = ".".join(map(str, self.version))
        return f"CPython {version}, {'optimised' if self.is_optimised else 'not optimised'}"


def present() -> Build:
    return Build(sys.executable, sys.version_info[:3], _is_optimised())


def _is_optimised() -> bool:
    """Built with a profile. Debian and Ubuntu do that in rules of their own, and then take the
    flag out of what the build says of itself."""
    if platform.python_implementation() != "CPython":
        return False
    asked = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return "--enable-optimizations" in asked or sysconfig.get_config_var("PGO_PROF_USE_FLAG") == ""


@cache
def best() -> Build:
    """The present one, if it is optimised or nobody else is."""
    here = present()
    if not here.is_optimised:
        for found in map(_ask, _candidates()):
            if found is not None and found.is_optimised and found.version >= OLDEST:
                return found
    return here


def _candidates() -> list[str]:
    """Those of the present version first, so that only the build differs; and the system's own,
    since a version manager's may be many and slow to answer."""
    folders = dict.fromkeys(["/usr/bin", *os.environ.get("PATH", "").split(os.pathsep)])
    paths = [path for folder in folders for path in glob.glob(f"{folder}/python3.*[0-9]")]
    return sorted(paths, key=lambda path: Path(path).name != f"python3.{sys.version_info.minor}")


def _ask(path: str) -> Build | None:
    try:
        done = subprocess.run(
            [path, "-m", "benchmarks.interpreter"], capture_output=True, text=True, timeout=60,
            env=_environment(),
        )  # fmt: skip
        said = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None  # no Python, or one too old to read this file
    return Build(path, tuple(said["version"]), said["is_optimised"])


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}


def pure(*modules: ModuleType) -> dict[str, Callable[[str], Iterator[Bar]]]:
    """What they measure, in the best build."""
    return {name: partial(_measured, m.__name__, name) for m in modules for name in m.ALL}


def _measured(module: str, name: str, folder: str) -> Iterator[Bar]:
    build = best()
    for bar in _here(module, name, folder) if build == present() else _there(module, name, folder):
        bar.detail["Python"] = str(build)
        yield bar


def _here(module: str, name: str, folder: str) -> Iterator[Bar]:
    measure: Callable[[str], Iterator[Bar]] = importlib.import_module(module).ALL[name]
    return measure(folder)


def _there(module: str, name: str, folder: str) -> Iterator[Bar]:
    command = [best().path, "-m", "benchmarks.interpreter", module, name, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment()) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield Bar(**json.loads(line))
    if child.returncode:
        raise RuntimeError(f"{name} failed in {command[0]}")


def main() -> None:
    """What this build is; or, in the child, the bars of one benchmark, a line each."""
    if len(sys.argv) == 1:
        print(json.dumps(vars(present())))
        return
    for bar in _here(*sys.argv[1:]):
        print(json.dumps(vars(bar)), flush=True)


if __name__ == "__main__":
    main()
