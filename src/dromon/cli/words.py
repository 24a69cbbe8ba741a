"""How a job, its state and its end are said in words. Nothing is printed here."""

from __future__ import annotations

from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dromon.engines.base import JobStatus, Waiting

STATE_COLOURS = {
    "preparing": "cyan", "queued": "yellow", "starting": "cyan", "running": "green",
    "restarting": "magenta", "stopping": "magenta", "succeeded": "", "failed": "red",
    "stopped": "dim",
}  # fmt: skip
UP = ("up", "ending", "done")  # a member that has passed the barrier


def title(status: JobStatus) -> str:
    if status.on == "local":
        return f"job {status.number} {status.id}"
    return f"job {status.id} on {status.on}"


def called(id: str, number: int, on: str) -> str:
    """What a job is called in passing: numbers are this machine's, a cluster's jobs have ids."""
    return str(number) if on == "local" else id


def ran_for(status: JobStatus, now: float) -> float | None:
    """Seconds it has run, or None when it has not yet begun."""
    if status.started is None:
        return None
    return (now if status.ended is None else status.ended) - status.started


def newest_runs(status: JobStatus) -> dict[str, Any]:
    """Of each member, its newest run."""
    found: dict[str, Any] = {}
    for member in status.members:
        if member.member not in found or member.run >= found[member.member].run:
            found[member.member] = member
    return found


def smaller(status: JobStatus) -> str:
    """Of a gang that runs with fewer members than it asked for; else nothing."""
    here, asked = len(newest_runs(status)), int(status.resources.get("members", 0))
    return f"{here} of {asked} members" if status.state == "running" and 0 < here < asked else ""


def exit_code(status: JobStatus) -> int:
    """What a shell would show for the job; `Verdict.exit_code`, said again to stay light."""
    verdict = status.verdict or {}
    if status.state == "succeeded" or verdict.get("cause") == "success":
        return 0
    if verdict.get("signal") is not None:
        return 128 + int(verdict["signal"])
    return int(verdict.get("code") or 1)


def short_verdict(verdict: Mapping[str, Any]) -> str:
    """A few words for a table."""
    cause = str(verdict.get("cause", "")).replace("_", " ")
    message = " ".join(str(verdict.get("message", "")).split())
    if cause in ("success", ""):
        return ""
    return message if cause in message.lower() else f"{cause}: {message}" if message else cause


def end_sentence(status: JobStatus) -> str:
    """ "failed after 12s: out of memory: worker-1 …"."""
    verdict = status.verdict or {}
    took = ran_for(status, status.ended or 0.0)
    text = status.state
    if took is not None:
        text += f" {'in' if status.state == 'succeeded' else 'after'} {format_duration(took)}"
    if status.attempt > 1:
        text += f" ({status.attempt} attempts)"
    said = short_verdict(verdict)
    if said.startswith("stopped "):
        return said + text.removeprefix("stopped")
    if said:
        text += f": {said}"
        member = str(verdict.get("member") or "")
        if member and member not in said:
            rank = verdict.get("rank")
            text += f" ({member}{f', rank {rank}' if rank is not None else ''})"
    return text


def end_colour(status: JobStatus) -> str:
    return {"succeeded": "green", "failed": "red"}.get(status.state, "yellow")


def next_commands(status: JobStatus | None, ref: str) -> list[str]:
    """The three commands most likely wanted now."""
    if status is None or not status.is_terminal:
        return [f"dromon attach {ref}", f"dromon why {ref}", f"dromon stop {ref}"]
    if status.state == "failed":
        logs = f"dromon logs {ref} --tail 50"
        return [logs, f"dromon show {ref}", f"dromon rerun {ref}"]
    return [f"dromon show {ref}", f"dromon logs {ref}", f"dromon rerun {ref}"]


def waiting_lines(waiting: Waiting) -> list[str]:
    """The sentence, then what is known beside it."""
    lines = [waiting.sentence]
    if waiting.position:
        lines.append(f"  position  {waiting.position} in the queue")
    if waiting.missing:
        missing = ", ".join(amounts(waiting.missing))
        lines.append(f"  missing   {missing}")
    if waiting.holders:
        lines.append(f"  held by   {', '.join(waiting.holders)}")
    if waiting.start is not None:
        import time

        left = format_duration(max(0.0, waiting.start - time.time()))
        how = "planned" if waiting.sure == "planned" else "about"
        at = time.strftime("%d %b %H:%M", time.localtime(waiting.start))
        lines.append(f"  starts    {how} {at}, in {left}")
    lines.extend(f"  to do     {way}" for way in waiting.unblock)
    return lines


def amounts(resources: Mapping[str, float]) -> list[str]:
    """ "1 member", "2 gpus", "16.0 GiB memory"."""
    return [
        f"{amount(name, value)} {name.removesuffix('s') if value == 1 else name}"
        for name, value in resources.items()
        if value
    ]


def amount(resource: str, value: float) -> str:
    if resource in ("memory", "shm", "disk"):
        from dromon.units import format_size

        return format_size(value)
    return f"{value:g}"
