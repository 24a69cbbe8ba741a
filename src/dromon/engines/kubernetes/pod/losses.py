"""Members that went without a word: with their pod, or killed with all of their container. Pure.

Where the kernel kills a whole container for its memory (cgroup v2, as kubelets set it), the agent
dies with its member and leaves no exit record. One such end is a lost pod, and free. The same
member's third in a row is its own doing, or the job would begin anew for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from dromon.lifecycle import events as ev
from dromon.lifecycle import verdict
from dromon.lifecycle.verdict import Exit

GONE = "its pod is gone"
IN_A_ROW = 3


def end_of(
    member: str, run: int, history: Iterable[ev.Event], *, dies_whole: bool, now: float
) -> ev.Event:
    """What is to be said of a run that left no record."""
    before = 0
    for event in history:
        if isinstance(event, ev.MemberEvicted) and event.member == member:
            before = before + 1 if event.message == GONE else 0
        elif isinstance(event, ev.MemberExited) and event.member == member:
            before = 0
    if not dies_whole or before + 1 < IN_A_ROW:
        return ev.MemberEvicted(member, run, GONE)
    words = (
        f"its container was killed {IN_A_ROW} times in a row without a word: most likely it was "
        "out of memory"
    )
    exit = Exit(signal=9, cause=verdict.OUT_OF_MEMORY, message=words, started=now, ended=now)
    return ev.MemberExited(member, run, exit.to_json())
