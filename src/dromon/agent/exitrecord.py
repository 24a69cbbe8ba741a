"""What a run's end means, in one record: cause, message, last lines. And the record on disk."""

import errno
import json
import os
import re
from typing import Any, Dict, Optional, Sequence

from dromon.agent.files import read_small, write_small
from dromon.lifecycle import verdict
from dromon.lifecycle.verdict import Exit
from dromon.lifecycle.wording import bare

LONGEST = 500  # of a message; the last lines have the rest
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$")
_OUT_OF_MEMORY = re.compile(
    r"\bMemoryError\b|\b(?:CUDA|HIP|XPU) out of memory\b|\bOutOfMemoryError\b"
    r"|\bRESOURCE_EXHAUSTED\b|\bResourceExhaustedError\b|\bstd::bad_alloc\b"
)


def exception_line(lines: Sequence[str]) -> str:
    """The last line of the last Python traceback in these lines, or nothing.

    It is the first line after a traceback's frames that is not indented, whatever was printed
    after it; the traceback's own heading may be too far up to be seen.
    """
    for number in range(len(lines) - 1, 0, -1):
        above, line = lines[number - 1], lines[number].rstrip()
        if above.startswith("  ") and _EXCEPTION.match(line) and _in_traceback(lines, number):
            return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    return ""


def _in_traceback(lines: Sequence[str], number: int) -> bool:
    """Whether the indented lines above hold a frame."""
    for above in reversed(lines[:number]):
        if above.startswith("  File "):
            return True
        if not above.startswith("  "):
            return False
    return False


def describe(
    code: Optional[int],
    number: Optional[int],
    lines: Sequence[str],
    *,
    told_to_stop: bool = False,
    oom_killed: bool = False,
) -> "tuple[str, str]":
    """Cause and message of a process that ended by itself or by our doing."""
    if code == 0:
        return verdict.SUCCESS, ""
    how = bare(code, number)
    if oom_killed:
        return verdict.OUT_OF_MEMORY, "killed by the kernel: out of memory"
    if told_to_stop:
        return verdict.STOPPED, how
    said = exception_line(lines) if number is None else ""
    for line in [said] if said else reversed(lines[-20:]):
        if _OUT_OF_MEMORY.search(line):
            return verdict.OUT_OF_MEMORY, said or line.strip()
    return verdict.USER_ERROR, said or how


def write(path: str, exit: Exit, **facts: Any) -> None:
    """Whole or not at all."""
    data: Dict[str, Any] = {**exit.to_json(), **facts}
    draft = f"{path}.{os.getpid()}"
    write_small(draft, json.dumps(data).encode())
    os.replace(draft, path)


def append(path: str, exit: Exit, **facts: Any) -> None:
    """To the records of other members: a line costs a tenth of a file. What a full disk cut off
    ends where the next line begins."""
    name = f"{facts['member']}.{facts['run']}"
    line = f"\n{name} {json.dumps({**exit.to_json(), **facts})}\n".encode()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(fd)


def find(path: str, member: str, run: int) -> Optional[Dict[str, Any]]:
    """The record of this run among those of others; None when it is not there, or not whole."""
    try:
        data = read_small(path)
        at = data.rfind(f"\n{member}.{run} ".encode())
        line = data[at + 1 : data.index(b"\n", at + 1)]
        found = json.loads(line.partition(b" ")[2]) if at >= 0 else None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def read(path: str) -> Optional[Exit]:
    """The exit record at `path`; None when there is none (or it is not one)."""
    try:
        return Exit.from_json(json.loads(read_small(path)))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
