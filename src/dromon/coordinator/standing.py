"""How a job stands, as data: for its web page, for clients, for its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dromon.agent.protocol import VERSION

if TYPE_CHECKING:
    from dromon.coordinator.deciding import Deciding


def of(
    deciding: Deciding,
    runs: Iterable[tuple[str, int]],
    about: Callable[[str], Mapping[str, Any]],
) -> dict[str, Any]:
    """`about` a member: what only the engine knows; `runs`: all that came to the barrier."""
    gang = deciding.gang
    members = []
    for name, member in gang.members.items():
        beat = deciding.coordinator.beats.get(name)
        members.append(
            {
                "member": name,
                "run": member.run,
                "rank": member.rank,
                "state": member.state,
                "host": member.host,
                "pid": member.pid,
                "memory": 0 if beat is None else beat.memory,
                "exit": None if member.exit is None else member.exit.to_json(),
                "connected": name in deciding.coordinator.peers,
                **about(name),
            }
        )
    verdict = gang.verdict
    return {
        "version": VERSION,
        "id": gang.plan.job,
        "name": deciding.request["name"],
        "state": gang.state,
        "attempt": gang.attempt,
        "retries_used": gang.retries_used,
        "started": gang.started,
        "ended": gang.ended,
        "retry_at": gang.retry_at,
        "verdict": None if verdict is None else verdict.to_json(),
        "members": members,
        "runs": [list(run) for run in runs],
    }
