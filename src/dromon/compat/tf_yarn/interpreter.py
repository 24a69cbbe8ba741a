"""Which Python the members get: packages, an archive, or the one that runs the program."""

import importlib.metadata
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dromon.compat.tf_yarn.shipping import OURS, local_path
from dromon.compat.tf_yarn.topologies import NodeLabel
from dromon.errors import Refused

TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tf-nightly")


def environment(python: str | None, pip_packages: Sequence[str] | None) -> dict[str, Any]:
    """As the job file has it; empty for the Python that runs this program, with all it has."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if python and ".".join(python.split(".")[:2]) != here:
        raise Refused(
            f"run_on_yarn: python={python!r} cannot read a function made by Python {here}",
            hint=f"Leave python= out, or run this program with Python {python}.",
        )
    made: dict[str, Any] = {"python": python} if python else {}
    packages = list(pip_packages or ())
    if not packages and (not python or _is_this(python)):
        return {}
    names = {re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0].lower() for each in packages}
    if names.isdisjoint(TENSORFLOWS):
        packages.insert(0, _tensorflow_here())
    return {**made, "packages": packages}


def _is_this(python: str) -> bool:
    exact = ".".join(map(str, sys.version_info[:3]))
    return exact == python or exact.startswith(python + ".")


def _tensorflow_here() -> str:
    """tf-yarn gave its members the version its caller had."""
    for name in TENSORFLOWS:
        try:
            return f"{name}=={importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    raise Refused(
        "run_on_yarn: pip_packages= names no TensorFlow, and none is installed here",
        hint='Add it: pip_packages=["tensorflow==2.15.1", …].',
    )


@dataclass
class Pyenvs:
    """How archives of `pyenv_zip_path=` come to the members: as volumes, or among the files."""

    volumes: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)  # by node label, as a member sees them


def pyenvs(given: str | Mapping[NodeLabel, str] | None, on: str) -> Pyenvs:
    found = Pyenvs()
    if not given:
        return found
    found.volumes["pyenv-room"] = {"source": "node"}
    by_label = {NodeLabel.CPU: given} if isinstance(given, str) else dict(given)
    for label, path in by_label.items():
        label = label if isinstance(label, NodeLabel) else NodeLabel(label)
        name = f"pyenv-{label.name.lower()}"
        is_far = "://" in path and not path.startswith("file://")
        source = path if is_far else local_path(path)
        if not is_far:
            _check_archive(source, on)
        if is_far or on == "local":
            found.volumes[name] = {"source": source}
            found.paths[label.value] = f"${{volumes.{name}}}"
        else:
            found.paths[label.value] = f"{OURS}-{name}"
            found.files[f"{OURS}-{name}"] = source
    return found


def _check_archive(source: str, on: str) -> None:
    from dromon.packaging.snapshot import LIMIT

    if not os.path.isfile(source):
        raise Refused(
            f"run_on_yarn: pyenv_zip_path= names {source}, which is not a file",
            hint="Give a pex, or a zipped or tarred environment; or leave it out: the Python that "
            "runs this program is shipped.",
        )
    if on != "local" and os.path.getsize(source) > LIMIT:
        raise Refused(
            f"run_on_yarn: pyenv_zip_path= names {source}, which has more than {LIMIT >> 20} MiB",
            hint="Put it on HDFS and give its address, or leave it out: the Python that runs this "
            "program is shipped.",
        )
