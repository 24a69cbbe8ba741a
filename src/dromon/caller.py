"""What the caller has: the interpreter they call `python`, and the text of their job file."""

import os
import sys

from dromon.errors import UsageError


def python() -> str:
    """The interpreter the caller would call `python`, not the one a tool installer gave Dromon."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        found = os.path.join(os.environ.get(variable, ""), "bin", "python")
        if os.environ.get(variable) and os.access(found, os.X_OK):
            return found
    alone = ("uv-receipt.toml", "pipx_metadata.json")
    if any(os.path.exists(os.path.join(sys.prefix, name)) for name in alone):
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            for name in ("python3", "python"):
                found = os.path.join(folder, name)
                if os.access(found, os.X_OK):
                    return found
    return sys.executable


def read(file: str) -> str:
    limit = 1 << 20
    try:
        if os.path.isdir(file):
            raise UsageError(f"{file} is a directory", hint=f"dromon run {file}/job.yaml")
        with open(file, "rb") as source:
            raw = source.read(limit + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}", hint="`dromon init` writes one.") from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if len(raw) > limit:
        size = os.path.getsize(file)
        raise UsageError(
            f"{file} has {size:,} bytes; a job file has at most {limit:,}",
            hint="Is it a data file? Put data next to the script and name it under volumes:.",
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{file}:{line}: not a text file (UTF-8)",
            hint="A job file is YAML; `dromon init SCRIPT` writes one to start from.",
        ) from None
