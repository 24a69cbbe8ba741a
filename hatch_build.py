"""The scheduler as extension modules, for installers who ask for it. Never needed.

With `DROMON_COMPILE=1` in the environment a wheel's `sched` is compiled by mypyc, from the source
that lies beside it in the wheel all the same. That takes a C compiler and some minutes. Without it
the wheel is pure Python, and nobody asks for a compiler or for mypy.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOM = Path("src/dromon/sched")
# Policies are made to be subclassed, and extension classes are not.
AS_THEY_ARE = {ROOM / "policies" / f"{name}.py" for name in ("__init__", "las", "srsf", "srtf")}


class CompiledScheduler(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return ["mypy>=2.0", "setuptools>=77"] if self._is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not self._is_wanted() or version == "editable":  # which is for changing the source
            return
        self._folder = TemporaryDirectory(prefix="dromon-compile-")
        library = _compile(Path(self.root), Path(self._folder.name))
        for module in library.rglob("*.so"):
            build_data["force_include"][str(module)] = str(module.relative_to(library))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _is_wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("DROMON_COMPILE", "") not in ("", "0")


def _compile(root: Path, folder: Path) -> Path:
    """Where the extension modules are, as they are to lie in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    found = {path.relative_to(root) for path in (root / ROOM).rglob("*.py")}
    files = sorted(str(path) for path in found - AS_THEY_ARE if path.name != "__init__.py")
    # Types are `make check`'s concern, and dependencies are not there: only this room is looked at.
    options = ["--config-file=", "--follow-imports=silent", f"--cache-dir={folder / 'types'}"]
    modules = mypycify(
        [*options, *files], target_dir=str(folder / "c"), group_name="dromon_sched", debug_level="0"
    )
    command = build_ext(Distribution({"name": "dromon", "ext_modules": modules}))
    command.build_lib, command.build_temp = str(folder / "library"), str(folder / "objects")
    command.ensure_finalized()
    command.run()
    return Path(command.build_lib)
