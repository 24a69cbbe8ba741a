"""A job's events as lines for people. Events in a row that say the same of members become one."""

from __future__ import annotations

import time

from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

NAMED = 6  # members named on one line; of more, only how many
HIDDEN = ("Tick", "_placement")  # bookkeeping; `Placed` says the same
PLAIN = {
    "Submitted": "submitted",
    "Prepared": "code and environment in place",
    "_environment": "environment ready",
    "MemberReady": "ready",
    "MemberStarted": "started",
}


def told(entries: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line for each thing that happened, oldest first."""
    last, members, when = "", [], 0.0
    for entry in entries:
        if entry.get("event") in HIDDEN:
            continue
        text, member = sentence(str(entry.get("event", "")), entry.get("detail") or {})
        if member and text == last:
            members.append(member)
            continue
        if last:
            yield line(when, last, members)
        last, members, when = text, [member] if member else [], entry.get("time") or 0.0
    if last:
        yield line(when, last, members)


def line(when: float, text: str, members: Sequence[str]) -> str:
    if len(members) > NAMED:
        text += f": {len(members)} members"
    elif members:
        text += f": {', '.join(members)}"
    return f"{moment(when)}  {text}"


def sentence(event: str, detail: dict[str, Any]) -> tuple[str, str]:
    """What happened, and the one member it happened to, if it was one."""
    member = str(detail.get("member") or "")
    message = f" ({detail['message']})" if detail.get("message") else ""
    if event in PLAIN:
        return PLAIN[event], member
    if event in ("Placed", "MembersReady"):
        what = "placed" if event == "Placed" else "ready"
        names = detail.get("members") or ()
        return f"{what}: {', '.join(names) if len(names) <= NAMED else f'{len(names)} members'}", ""
    if event == "ResizeRequested":
        return str(detail.get("message") or "another size"), ""
    if event == "MemberExited":
        return f"ended with {exit_words(detail.get('exit') or {})}", member
    if event == "StopRequested":
        by = f" by {detail['by']}" if detail.get("by") else ""
        grace = detail.get("grace")
        return f"asked to stop{by}" + (f", grace {format_duration(grace)}" if grace else ""), ""
    return words(event) + message, member


def words(event: str) -> str:
    """ "PreemptRequested" as "preempt requested"."""
    spaced = "".join(f" {c.lower()}" if c.isupper() else c for c in event.lstrip("_"))
    return spaced.strip().removeprefix("member ")


def exit_words(end: dict[str, Any]) -> str:
    if end.get("signal") is not None:
        return f"signal {end['signal']}"
    if end.get("code") is not None:
        return str(end["code"])
    return str(end.get("cause") or "-")


def moment(when: float | None) -> str:
    if when is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
