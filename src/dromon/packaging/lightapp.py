"""The light rooms as one file that any Python from 3.9 on runs: `python dromon-light-….pyz`.

The same rooms make the same bytes, so the file is named by its digest and shipped once.
"""

import hashlib
import io
import os
import tempfile
import zipfile
from dataclasses import dataclass

import dromon

MODULES = ("__init__.py", "errors.py", "units.py")
ROOMS = ("frameworks", "agent", "lifecycle", "coordinator")
MAIN = b"import sys\n\nfrom dromon.agent.main import main\n\nsys.exit(main())\n"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip file can tell


@dataclass(frozen=True, slots=True)
class LightApp:
    path: str
    digest: str
    size: int


def build(out_dir: str) -> LightApp:
    """Write the zipapp to `out_dir`, unless this very one is there already."""
    data = _bytes()
    digest = hashlib.sha256(data).hexdigest()
    path = os.path.join(out_dir, f"dromon-light-{digest[:12]}.pyz")
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


def _bytes() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in sorted({**_sources(), "__main__.py": MAIN}.items()):
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            # Not compressed: compressors of different versions make different bytes.
            archive.writestr(entry, data, zipfile.ZIP_STORED)
    return b"#!/usr/bin/env python3\n" + out.getvalue()


def _sources() -> dict[str, bytes]:
    root = os.path.dirname(os.path.abspath(dromon.__file__))
    names = list(MODULES)
    for room in ROOMS:
        for directory, _, files in os.walk(os.path.join(root, room)):
            inside = os.path.relpath(directory, root)
            names += [os.path.join(inside, f) for f in files if f.endswith(".py")]
    out = {}
    for name in names:
        with open(os.path.join(root, name), "rb") as file:
            out[f"dromon/{name}"] = file.read()
    return out
