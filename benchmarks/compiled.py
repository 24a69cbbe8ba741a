"""The scheduler compiled as an installer may have it, for the Python that runs this."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]


def hindrance() -> str | None:
    """Why nothing can be compiled here."""
    if shutil.which("cc") is None:
        return "no C compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "no Python.h"
    return None


def library() -> Path:
    """A folder to import it from; made once for each state of the source."""
    sources = [ROOT / "hatch_build.py", *sorted((ROOT / "src/dromon/sched").rglob("*.py"))]
    digest = hashlib.sha256(sys.version.encode())
    for source in sources:
        digest.update(source.read_bytes())
    made = ROOT / "build" / "compiled" / digest.hexdigest()[:16]
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=made.parent) as folder:
            with zipfile.ZipFile(wheel(Path(folder))) as archive:
                archive.extractall(Path(folder, "library"))
            Path(folder, "library").rename(made)
    return made


def wheel(folder: Path) -> Path:
    """The wheel, built into this folder."""
    uv = shutil.which("uv", path=os.pathsep.join([str(ROOT / ".venv/bin"), os.environ["PATH"]]))
    assert uv is not None, "make setup brings uv"
    command = [uv, "build", "--wheel", "--python", sys.executable, "--out-dir", str(folder)]
    done = subprocess.run(
        [*command, str(ROOT)], capture_output=True, text=True,
        env={**os.environ, "DROMON_COMPILE": "1"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return next(folder.glob("*.whl"))
