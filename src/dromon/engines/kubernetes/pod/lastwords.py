"""What a pod leaves as its termination message: how its member's last run ended, and in the first
pod the job's verdict. Kubernetes keeps 4096 bytes of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LONGEST = 4000


def compose(
    member: str, exits: Mapping[int, Mapping[str, Any]], standing: Mapping[str, Any] | None
) -> str:
    """`exits`: by run; `standing`: what the coordinator says, in the first pod.

    What does not fit is left out, the least telling first."""
    run = max(exits, default=0)
    said: dict[str, Any] = {"member": member, "run": run, "exit": exits.get(run)}
    if standing is not None:
        kept = ("id", "state", "attempt", "retries_used", "started", "ended", "verdict", "outputs")
        said.update({key: standing[key] for key in kept})
        said["members"] = [
            {k: m[k] for k in ("member", "run", "rank", "state", "host", "node")}
            for m in standing["members"]
        ]
        said["runs"] = standing["runs"]
    for shorten in (_same, _fewer_lines, _no_runs, _no_members, _no_lines, _short_words, _bare):
        said = shorten(said)
        text = json.dumps(said, separators=(",", ":"), ensure_ascii=True)
        if len(text) <= LONGEST:
            return text
    return json.dumps({"member": member, "run": run})


def parse(text: str) -> dict[str, Any] | None:
    """None when it is not ours."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "member" in found else None


def _same(said: dict[str, Any]) -> dict[str, Any]:
    return said


def _with_lines(said: dict[str, Any], keep: int) -> dict[str, Any]:
    after = dict(said)
    for key in ("exit", "verdict"):
        part = after.get(key)
        if part and part.get("last_lines"):
            lines = [str(line)[:200] for line in part["last_lines"]]
            after[key] = {**part, "last_lines": lines[len(lines) - keep :] if keep else []}
    return after


def _fewer_lines(said: dict[str, Any]) -> dict[str, Any]:
    return _with_lines(said, 5)


def _no_lines(said: dict[str, Any]) -> dict[str, Any]:
    return _with_lines(said, 0)


def _no_runs(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if key not in ("runs", "outputs")}


def _no_members(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if key != "members"}


def _short_words(said: dict[str, Any]) -> dict[str, Any]:
    after = dict(said)
    for key in ("exit", "verdict"):
        if after.get(key):
            after[key] = {**after[key], "message": str(after[key].get("message", ""))[:300]}
    return after


def _bare(said: dict[str, Any]) -> dict[str, Any]:
    exit = said.get("exit") or {}
    return {**said, "exit": {k: exit[k] for k in ("code", "signal", "cause") if k in exit}}
