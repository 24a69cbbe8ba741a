"""How a job on YARN stands, as data: for its web page, for clients, for its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dromon.engines.yarn.am.master import Master

FOREVER = float("inf")


def of(master: Master, version: int) -> dict[str, Any]:
    gang, request = master.gang, master.request
    members = []
    for name, member in gang.members.items():
        held = master.gathering.container_of(name)
        beat = master.coordinator.beats.get(name)
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
                "container": "" if held is None else held.id,
                "node": "" if held is None else held.node,
                "connected": name in master.coordinator.peers,
            }
        )
    verdict = gang.verdict
    return {
        "version": version,
        "id": gang.plan.job,
        "name": request["name"],
        "state": gang.state,
        "attempt": gang.attempt,
        "retries_used": gang.retries_used,
        "epoch": master.epoch,
        "started": gang.started,
        "ended": gang.ended,
        "retry_at": gang.retry_at,
        "verdict": None if verdict is None else verdict.to_json(),
        "members": members,
        "runs": [list(run) for run in master.runs],
        "missing": {} if gang.is_terminal else dict(master.gathering.missing(FOREVER)),
        "held": len(master.gathering.held),
        "gives_way_at": master.gathering.gives_way_at,
        "asks_again_at": master.gathering.asks_again_at,
        "tensorboard": bool(master.side.container),
        "fenced": sorted(master.fences.members),
        "trouble": master.containers.trouble or (master.journal.trouble if master.journal else ""),
        "outputs": list(master.closing.outputs.values()) if master.closing else [],
    }
