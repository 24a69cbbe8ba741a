"""What a daemon answers otherwise on a shared machine: what is free and whose, and who decides."""

from typing import TYPE_CHECKING, Any

from dromon.agent.frames import Message
from dromon.engines.intake import Intake
from dromon.engines.local.desk import Desk
from dromon.engines.local.server import Command
from dromon.engines.local.shared.link import question
from dromon.engines.local.shared.people import person
from dromon.errors import UsageError

if TYPE_CHECKING:
    from dromon.engines.local.daemon import Daemon
    from dromon.engines.local.shared.scheduler import SharedScheduler


class SharedDesk(Desk):
    def __init__(self, daemon: "Daemon", intake: Intake, scheduler: "SharedScheduler") -> None:
        super().__init__(daemon, intake)
        self._scheduler = scheduler

    def on_nodes(self, wire: Command, message: Message) -> Message:
        found: dict[str, Any] = super().on_nodes(wire, message)
        room = self._scheduler.room()
        outside, given = room.get("outside", {}), room.get("given", {})
        for node in found["nodes"]:
            for gpu in node["gpus"]:
                uuid = gpu["uuid"]
                words = [given.get(uuid), outside.get(uuid)]
                gpu["holder"] = "; ".join(filter(None, words)) or gpu["holder"]
            node["free"]["gpus"] = sum(1 for g in node["gpus"] if not (g["job"] or g["holder"]))
            drained = ["it is drained: what runs goes on, nothing new starts"]
            first = [self._who_decides(), *drained * bool(room.get("drained"))]
            how = {**self.daemon.machine.enforced, **self._scheduler.about.get("enforced", {})}
            node["notes"] = [*first, *(f"{limit}: {words}" for limit, words in how.items())]
        return found

    def on_node_drain(self, wire: Command, message: Message) -> Message:
        name, drains = self.daemon.machine.name, bool(message["drain"])
        if message.get("node") not in (None, name):
            raise UsageError(f"there is no node {message['node']!r} here", hint=f"It is {name}.")
        found = question(self._scheduler.at, "drain", drain=drains)
        return {"node": name, "drained": drains, "running": found["running"]}

    def on_report(self, wire: Command, message: Message) -> Message:
        """Of everybody."""
        found = question(self._scheduler.at, "report", start=float(message["start"]))
        return {"report": found["report"]}

    def _who_decides(self) -> str:
        whose = person(self._scheduler.at.owner).name
        if self._scheduler.away:
            return f"the arbiter run by {whose} cannot be asked: {self._scheduler.away}"
        return f"shared: the arbiter run by {whose} decides for everybody"

    def on_daemon_status(self, wire: Command, message: Message) -> Message:
        return {**super().on_daemon_status(wire, message), "arbiter": self._who_decides()}
