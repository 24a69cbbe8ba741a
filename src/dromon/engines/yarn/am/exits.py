"""How a container ended, from the status and the text YARN gives. LIGHT and pure.

It speaks of the container. What the agent inside has reported of its member says more, and goes
first where there is such a report.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dromon.agent.exitrecord import describe
from dromon.hadoop.messages.enums import ExitStatus
from dromon.lifecycle import events, verdict
from dromon.lifecycle.verdict import Exit
from dromon.lifecycle.wording import signal_name

# Kinds.
DONE = "done"  # ended by itself, with 0
FAILED = "failed"  # ended by itself, otherwise
OUT_OF_MEMORY = "out_of_memory"
ENVIRONMENT = "environment"  # what it was to run on could not be put in place
LOST = "lost"  # its node is gone, or has no use
EVICTED = "evicted"  # taken away for others
RELEASED = "released"  # given back by us, or no longer needed
KILLED = "killed"  # ended by us

_COUNTED = frozenset({FAILED, OUT_OF_MEMORY, ENVIRONMENT})
_CAUSES = {
    DONE: verdict.SUCCESS,
    FAILED: verdict.USER_ERROR,
    OUT_OF_MEMORY: verdict.OUT_OF_MEMORY,
    ENVIRONMENT: verdict.ENVIRONMENT,
    LOST: verdict.LOST,
    EVICTED: verdict.EVICTED,
    RELEASED: verdict.STOPPED,
    KILLED: verdict.STOPPED,
}
LAST_LINES = 20
_MORE_MEMORY = "ask for more under resources.memory"

_SIZE = r"(-?[0-9.,]+ ?[KMGTP]?i?B)"
_PHYSICAL = re.compile(rf"{_SIZE} of {_SIZE} physical memory used")
_VIRTUAL = re.compile(rf"{_SIZE} of {_SIZE} virtual memory used")
_KERNEL = re.compile(r"\bunder oom\b|\boom[- _]?kill|\bout of memory\b|\bOOM killer\b", re.I)
_STAMP = re.compile(r"^\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:., ]+\]", re.M)
_STDERR = re.compile(r"^Last [0-9]+ bytes of (?!prelaunch)\S+ ?:\n", re.M)
_CHANGED = re.compile(r"[Rr]esource (\S+) changed on src filesystem")
_MISSING = re.compile(r"(?:File does not exist|FileNotFoundException): (?:File )?(\S+)")
_DENIED = re.compile(r"Permission denied: (.+)")


@dataclass(frozen=True)
class Ending:
    """``counts``: against the job's retries. ``hint``: what the user can do about it."""

    kind: str
    message: str
    hint: str = ""
    cause: str = ""  # lifecycle's word for it
    code: int | None = None
    signal: int | None = None
    last_lines: tuple[str, ...] = ()
    over_limit: bool = False  # of another kind than memory

    @property
    def is_limit(self) -> bool:
        """YARN ended it for what it did itself."""
        return self.kind == OUT_OF_MEMORY or self.over_limit

    @property
    def counts(self) -> bool:
        return self.kind in _COUNTED

    @property
    def words(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def event(self, member: str, run: int, ended: float = 0.0) -> events.Event:
        """What the gang hears of a member that ended like this, unless its agent told more."""
        if self.kind == LOST:
            return events.MemberLost(member, run, self.message)
        if self.kind == EVICTED:
            return events.MemberEvicted(member, run, self.message)
        exit = Exit(
            code=self.code,
            signal=self.signal,
            cause=self.cause,
            message=self.message,
            last_lines=self.last_lines,
            ended=ended,
            stopped=self.kind in (RELEASED, KILLED),
        )
        return events.MemberExited(member, run, exit.to_json())


def read(status: int, diagnostics: str = "", *, complete: bool = True) -> Ending:
    """``complete``: YARN says that the container is over; only then its status says anything."""
    if not complete:
        return _of(LOST, "YARN did not say how its container ended")
    if status >= 0:
        return _by_itself(status, diagnostics)
    if status == ExitStatus.ABORTED:
        return _aborted(diagnostics)
    if status == ExitStatus.INVALID:
        return _not_localised(diagnostics)
    if status == ExitStatus.KILLED_EXCEEDED_PMEM:
        return _over(_PHYSICAL, "memory", diagnostics, _MORE_MEMORY)
    if status == ExitStatus.KILLED_EXCEEDED_VMEM:
        return _over(
            _VIRTUAL,
            "virtual memory",
            diagnostics,
            f"{_MORE_MEMORY}, or have yarn.nodemanager.vmem-check-enabled turned off",
        )
    if status == ExitStatus.KILLED_FOR_EXCESS_LOGS:
        return _of(
            FAILED,
            "its container wrote more log than the cluster allows and was killed by YARN",
            hint="write less to standard output and standard error",
            signal=9,
            over_limit=True,
        )
    known = _TAKEN.get(status)
    if known is not None:
        return known
    said = _first_line(diagnostics)
    message = f"its container could not be run (status {status})" + (f": {said}" if said else "")
    return _of(FAILED, message, cause=verdict.INTERNAL)


def _of(
    kind: str,
    message: str,
    *,
    hint: str = "",
    cause: str = "",
    code: int | None = None,
    signal: int | None = None,
    last_lines: Sequence[str] = (),
    over_limit: bool = False,
) -> Ending:
    lines = tuple(last_lines)[-LAST_LINES:]
    return Ending(kind, message, hint, cause or _CAUSES[kind], code, signal, lines, over_limit)


_TAKEN = {
    int(ExitStatus.DISKS_FAILED): _of(LOST, "the disks of its node failed"),
    int(ExitStatus.PREEMPTED): _of(
        EVICTED, "YARN took its container for a queue that was owed the room"
    ),
    int(ExitStatus.KILLED_BY_APPMASTER): _of(KILLED, "its container was stopped", signal=15),
    int(ExitStatus.KILLED_BY_RESOURCEMANAGER): _of(
        EVICTED, "the ResourceManager had its container killed"
    ),
    # Whoever hears this is alive, and the application with it.
    int(ExitStatus.KILLED_AFTER_APP_COMPLETION): _of(
        LOST, "its node ended its container as if the application were over"
    ),
    int(ExitStatus.KILLED_BY_CONTAINER_SCHEDULER): _of(
        EVICTED, "its node gave the room to a container that was promised it"
    ),
}


def _aborted(diagnostics: str) -> Ending:
    """-100 has several meanings, and only the text tells which."""
    text = diagnostics.lower()
    if "released by application" in text or "completed application" in text:
        return _of(RELEASED, "its container was given back", signal=15)
    if "expired since it was unused" in text:
        return _of(LOST, "YARN took its container back: it was not started in time")
    if "lost* node" in text or "lost node" in text:
        return _of(LOST, "its node is lost")
    said = _first_line(diagnostics)
    return _of(LOST, "its container is gone" + (f": {said}" if said else ""))


def _over(figures: re.Pattern[str], what: str, diagnostics: str, hint: str) -> Ending:
    found = figures.search(diagnostics)
    much = f" ({found[1]} of {found[2]})" if found else ""
    message = f"its container was over its {what} limit{much} and was killed by YARN"
    return _of(OUT_OF_MEMORY, message, hint=hint, signal=9)


def _not_localised(diagnostics: str) -> Ending:
    changed, missing = _CHANGED.search(diagnostics), _MISSING.search(diagnostics)
    denied = _DENIED.search(diagnostics)
    if changed:
        what, hint = f"{changed[1]} has changed since the job was submitted", "submit the job again"
    elif missing:
        gone = missing[1].rstrip(",.;:")
        what, hint = f"{gone} is gone", "submit the job again"
    elif denied:
        what, hint = f"permission denied: {denied[1].strip()}", ""
    else:
        what, hint = _first_line(diagnostics) or "YARN does not say why", ""
    return _of(ENVIRONMENT, f"its files could not be brought to the node: {what}", hint=hint)


def _by_itself(status: int, diagnostics: str) -> Ending:
    if status == 0:
        return _of(DONE, "", code=0)
    lines = _last_lines(diagnostics)
    number = status - 128 if 128 < status <= 128 + 64 else None
    if number is not None:
        if number == 9 and _KERNEL.search(diagnostics):
            message = "its container was killed by the kernel: out of memory"
            return _of(OUT_OF_MEMORY, message, hint=_MORE_MEMORY, signal=number, last_lines=lines)
        message = f"its container was killed by {signal_name(number)}"
        return _of(FAILED, message, signal=number, last_lines=lines)
    cause, message = describe(status, None, lines)
    if status == 127 and cause == verdict.USER_ERROR:
        message = f"no such program: {lines[-1].strip()}" if lines else "no such program"
    kind = OUT_OF_MEMORY if cause == verdict.OUT_OF_MEMORY else FAILED
    hint = _MORE_MEMORY if kind == OUT_OF_MEMORY else ""
    return _of(kind, message, hint=hint, cause=cause, code=status, last_lines=lines)


def _last_lines(diagnostics: str) -> list[str]:
    """The end of standard error, which YARN quotes."""
    parts = _STDERR.split(diagnostics)
    if len(parts) < 2:
        return []
    said = _STAMP.split(parts[-1])[0]
    return [line.rstrip() for line in said.splitlines() if line.strip()]


def _first_line(diagnostics: str) -> str:
    for line in _STAMP.sub("", diagnostics).splitlines():
        if line.strip() and line.strip() != "N/A":
            return line.strip()[:500]
    return ""
