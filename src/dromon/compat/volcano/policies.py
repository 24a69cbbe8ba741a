"""Volcano's policies as ours: event -> action."""

from collections.abc import Mapping
from typing import Any

from dromon.compat.volcano.source import Source
from dromon.spec.path import Path
from dromon.spec.words import told
from dromon.units import parse_duration

EVENTS = {
    "PodFailed": ("member_failed",),
    "TaskFailed": ("member_failed",),
    "PodEvicted": ("member_evicted",),
    "TaskCompleted": ("role_completed",),
    "Unknown": ("member_lost",),
    "*": ("member_failed", "member_evicted", "member_lost"),
}
ACTIONS = {
    "RestartJob": "restart_job",
    "RestartTask": "restart_role",
    "RestartPod": "restart_member",
    "AbortJob": "abort_job",
    "TerminateJob": "abort_job",
    "CompleteJob": "complete_job",
}


def policies(source: Source, holder: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Of a job or a task. The first that fits an event wins there, so it does here."""
    found: dict[str, str] = {}
    for at, policy in enumerate(source.items(holder, "policies", path)):
        here = (*path, "policies", at)
        action = ACTIONS.get(str(policy.get("action") or ""))
        if action is None:
            source.note(here, f"there is no action {told(policy.get('action'))} here: left out")
            continue
        for event in _events(source, policy, here):
            found.setdefault(event, action)
    return found


def _events(source: Source, policy: Mapping[str, Any], path: Path) -> list[str]:
    code = policy.get("exitCode")
    if code is not None:
        if type(code) is int and 0 < code <= 255:
            return [f"exit_code:{code}"]
        source.note((*path, "exitCode"), f"{told(code)} is no exit code: left out")
        return []
    names = policy.get("events")
    names = names if isinstance(names, list) else []
    names = [*names, policy["event"]] if policy.get("event") is not None else names
    found: list[str] = []
    for name in map(str, names):
        if name == "PodPending":
            found += _pending(source, policy, path)
        elif name in EVENTS:
            found += EVENTS[name]
        else:
            source.note(path, f"there is no event {name!r} here: left out")
    return found


def _pending(source: Source, policy: Mapping[str, Any], path: Path) -> list[str]:
    timeout = policy.get("timeout")
    try:
        seconds = parse_duration(timeout if isinstance(timeout, (str, int)) else "")
    except ValueError:
        source.note(path, f"PodPending with timeout {told(timeout)}: left out")
        return []
    if seconds <= 0 or policy.get("action") not in ("AbortJob", "TerminateJob", "CompleteJob"):
        source.note(path, "a job that waits too long can be aborted here, nothing else: left out")
        return []
    return [f"pending:{timeout}"]
