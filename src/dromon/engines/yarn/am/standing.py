"""How a job on YARN stands: what every engine tells, and what only this one knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dromon.coordinator import standing

if TYPE_CHECKING:
    from dromon.engines.yarn.am.master import Master

FOREVER = float("inf")


def of(master: Master) -> dict[str, Any]:
    def about(member: str) -> dict[str, str]:
        held = master.gathering.container_of(member)
        if held is None:
            return {"container": "", "node": ""}
        return {"container": held.id, "node": held.node}

    return {
        **standing.of(master, master.runs, about),
        "epoch": master.epoch,
        "missing": {} if master.gang.is_terminal else dict(master.gathering.missing(FOREVER)),
        "held": len(master.gathering.held),
        "gives_way_at": master.gathering.gives_way_at,
        "asks_again_at": master.gathering.asks_again_at,
        "tensorboard": bool(master.side.container),
        "fenced": sorted(master.fences.members),
        "trouble": master.containers.trouble or (master.journal.trouble if master.journal else ""),
        "outputs": list(master.closing.outputs.values()) if master.closing else [],
    }
