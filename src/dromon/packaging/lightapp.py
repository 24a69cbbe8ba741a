"""The light rooms as one file that any Python from 3.9 on runs: `python dromon-light-….pyz`.

The same rooms make the same bytes, so the file is named by its digest and shipped once.
"""

import hashlib
import io
import os
import py_compile
import sys
import tempfile
import zipfile
from dataclasses import dataclass

import dromon

MODULES = ("__init__.py", "errors.py", "units.py", "engines/__init__.py")
ROOMS = ("frameworks", "agent", "lifecycle", "coordinator")
# What an engine has beside: single files, and rooms.
OF_ENGINES = {
    "local": ((), ()),
    "yarn": (("engines/yarn/__init__.py",), ("hadoop", "engines/yarn/am")),
    "kubernetes": (("engines/kubernetes/__init__.py",), ("engines/kubernetes/pod",)),
}
MAIN = b"""\
import sys

what = sys.argv[1] if len(sys.argv) > 1 else ""
if what == "yarn-master":
    from dromon.engines.yarn.am.main import main

    sys.exit(main())
if what == "yarn-member":
    from dromon.engines.yarn.am.member import main as serve

    sys.exit(serve(sys.argv[2]))
if what == "yarn-tensorboard":
    from dromon.engines.yarn.am.tensorboard import main as show

    sys.exit(show())
if what == "kubernetes-member":
    from dromon.engines.kubernetes.pod.main import main as stand

    sys.exit(stand(sys.argv[2]))
if what == "kubernetes-fetch":
    from dromon.engines.kubernetes.pod.member import fetch

    sys.exit(fetch())
from dromon.agent.main import main as live

sys.exit(live())
"""
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip file can tell


@dataclass(frozen=True, slots=True)
class LightApp:
    path: str
    digest: str
    size: int


def build(out_dir: str, *, engine: str, compiled: bool = False) -> LightApp:
    """Write the zipapp for an engine to `out_dir`, unless this very one is there already.

    `compiled`: with bytecode for this version of Python beside the sources, which any other
    version ignores. A container starts in a third of the time.
    """
    sources = {**_sources(*OF_ENGINES[engine]), "__main__.py": MAIN}
    # Through an API server small files go best. Elsewhere not: compressors of different versions
    # make different bytes of the same files.
    method = zipfile.ZIP_DEFLATED if engine == "kubernetes" else zipfile.ZIP_STORED
    data = _zip(sources, method)
    digest = hashlib.sha256(data).hexdigest()
    path = os.path.join(out_dir, f"dromon-light-{digest[:12]}.pyz")
    if compiled:
        path = f"{path.removesuffix('.pyz')}.{sys.implementation.cache_tag}.pyz"
        if os.path.exists(path):
            with open(path, "rb") as file:
                data = file.read()
        else:
            bytecode = {f"{name}c": _compile(name, text) for name, text in sources.items()}
            data = _zip({**sources, **bytecode}, method)
        digest = hashlib.sha256(data).hexdigest()
    if not os.path.exists(path):
        os.makedirs(out_dir, exist_ok=True)
        fd, fresh = tempfile.mkstemp(dir=out_dir)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            os.chmod(fresh, 0o755)
            os.rename(fresh, path)
        except BaseException:
            os.unlink(fresh)
            raise
    return LightApp(path, digest, len(data))


def _zip(files: dict[str, bytes], method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, method)
    return b"#!/usr/bin/env python3\n" + out.getvalue()


def _compile(name: str, source: bytes) -> bytes:
    """Bytecode that is believed without a look at a file's time."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "module.py"), os.path.join(folder, "module.pyc")
        with open(path, "wb") as file:
            file.write(source)
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(path, out, dfile=name, doraise=True, invalidation_mode=unchecked)
        with open(out, "rb") as compiled:
            return compiled.read()


def _sources(modules: tuple[str, ...], rooms: tuple[str, ...]) -> dict[str, bytes]:
    root = os.path.dirname(os.path.abspath(dromon.__file__))
    names = [*MODULES, *modules]
    for room in (*ROOMS, *rooms):
        for directory, _, files in os.walk(os.path.join(root, room)):
            inside = os.path.relpath(directory, root)
            names += [os.path.join(inside, f) for f in files if f.endswith(".py")]
    out = {}
    for name in names:
        with open(os.path.join(root, name), "rb") as file:
            out[f"dromon/{name}"] = file.read()
    return out
