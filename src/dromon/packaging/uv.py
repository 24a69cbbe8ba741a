"""Running uv: where it is, what it says while it works, what it says when it fails."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from dromon.errors import EnvironmentFailed

Progress = Callable[[str], None]

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
STEP = re.compile(r"^(Resolved|Prepared|Installed|Downloading|Building|Built|Updated|Bytecode) ")
KEPT = 30  # lines of a failure that are shown
# The caller's own environment must not leak into the one being made.
NOT_PASSED = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_PYTHON", "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT", "UV_WORKING_DIR", "UV_QUIET", "UV_VERBOSE",
)  # fmt: skip


def binary() -> str:
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
        if found is None:
            raise EnvironmentFailed(
                "uv, which makes environments, is not installed.", hint="`pip install uv`."
            ) from None
        return found


def run(
    arguments: Sequence[str],
    *,
    cwd: str,
    what: str,
    progress: Progress | None = None,
    environ: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> str:
    """What uv printed on stdout. `what` begins the sentence of a failure."""
    env = dict(os.environ if environ is None else environ)
    for name in NOT_PASSED:
        env.pop(name, None)
    env |= {"NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
    process = subprocess.Popen(
        [binary(), *arguments], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if progress else subprocess.PIPE,
        text=True, errors="replace", pass_fds=pass_fds,
    )  # fmt: skip
    if progress is None:
        out, err = process.communicate()
    else:
        lines = []
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.append(line)
                step = ANSI.sub("", line).strip()
                if STEP.match(step):
                    progress(step)
        process.wait()
        out = err = "".join(lines)
    if process.returncode:
        raise EnvironmentFailed(f"{what}:\n{message(err, process.returncode)}")
    return out


def message(text: str, code: int) -> str:
    """uv's own words, without colours, warnings and blank lines; from its error on."""
    lines = [line.rstrip() for line in ANSI.sub("", text).splitlines() if line.strip()]
    for i, line in enumerate(lines):
        if line.startswith(("error:", "  × ", "× ")):
            lines = lines[i:]
            break
    else:
        lines = [line for line in lines if not line.startswith("warning:")]
    if not lines:
        return f"uv ended with {code}" if code > 0 else f"uv was ended by signal {-code}"
    if len(lines) > KEPT:
        lines = [*lines[: KEPT // 2], "…", *lines[-KEPT // 2 :]]
    return "\n".join(lines).removeprefix("error: ")
