"""What travels with a job: files, the experiment as a payload, and this package to run it."""

import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Mapping
from typing import Any

from dromon.compat.tf_yarn import start
from dromon.errors import Refused

OURS = "_tf_yarn"  # a directory in the members' working directory
PACKAGE = os.path.dirname(os.path.abspath(__file__))
SHIPPED = ("__init__.py", "errors.py", "units.py", "compat/__init__.py", "compat/cores.py")
ARCHIVES = (".zip", ".tar.gz", ".tgz")  # these were unpacked where they arrived


def local_path(source: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.path.expanduser(os.fspath(source).removeprefix("file://")))


def check_source(name: str, source: Any) -> None:
    if not isinstance(source, (str, os.PathLike)):
        raise Refused(
            f"run_on_yarn: files[{name!r}] is a {type(source).__name__}",
            hint="Give the path of a local file or directory.",
        )
    if "://" in str(source) and not str(source).startswith("file://"):
        raise Refused(
            f"run_on_yarn: files[{name!r}] is not local: {source}",
            hint="Give a local path, or read it in experiment_fn from where it is.",
        )


def unpacked(files: Mapping[str, str], stage: str) -> dict[str, str]:
    plain = {}
    for target, source in files.items():
        if not source.endswith(ARCHIVES) or not os.path.isfile(source):
            plain[target] = source
            continue
        room = os.path.join(stage, target)
        os.makedirs(room)
        if source.endswith(".zip"):
            start.unzip(source, room)
        else:
            with tarfile.open(source) as archive:
                archive.extractall(room, filter="tar")
    return plain


def ship(
    experiment_fn: Callable[[], Any], asked: Mapping[str, Any], files: Mapping[str, str], room: str
) -> None:
    """The payload, what runs it, and this package for it to import."""
    from dromon.compat.tf_yarn import member
    from dromon.packaging import payload

    function = payload.dump(member.run, (experiment_fn, asked), by_name=_importable(files))
    os.rename(payload.runner(room + ".runner"), room)
    os.rmdir(room + ".runner")
    with open(os.path.join(room, start.PAYLOAD), "wb") as file:
        file.write(function)
    shutil.copyfile(start.__file__, os.path.join(room, "start.py"))
    source = os.path.dirname(os.path.dirname(PACKAGE))
    copy = os.path.join(room, "dromon")
    shutil.copytree(
        PACKAGE,
        os.path.join(copy, "compat", "tf_yarn"),
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in SHIPPED:
        shutil.copyfile(os.path.join(source, name), os.path.join(copy, name))


def _importable(files: Mapping[str, str]) -> set[str]:
    """Modules of this process that `files` puts where the members can import them."""
    sources = {os.path.realpath(source): target for target, source in files.items()}
    found = set()
    for name, module in sys.modules.copy().items():  # anything may import something meanwhile
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        file = os.path.realpath(file)
        for source, target in sources.items():
            if file == source:
                path = target
            elif file.startswith(source + os.sep):
                path = os.path.join(target, os.path.relpath(file, source))
            else:
                continue
            dotted = os.path.splitext(os.path.normpath(path))[0].replace(os.sep, ".")
            if dotted in (name, f"{name}.__init__"):
                found.add(name)
    return found
