"""The daemon itself: whether it runs, and starting and ending it by hand. Jobs go on meanwhile."""

from typing import Any

from dromon.engines.local.client import Client
from dromon.errors import UsageError


def control(client: Client, action: str, stay: bool) -> dict[str, Any]:
    """status, start, stop or restart; how the daemon is afterwards."""
    if action == "start":
        client.connect().close()
        if stay:
            client.ask("daemon_stay", stay=True)
        return client.ask("daemon_status")
    if action == "status":
        return client.ask_running("daemon_status") or {"running": False}
    if action in ("stop", "restart"):
        found = client.ask_running("daemon_stop")
        if found is not None:
            client.wait_gone(int(found["pid"]))
        if action == "restart":
            client.start(stay or bool(found and found["stay"]))
            return client.ask("daemon_status")
        return {"running": False, "stopped": found is not None}
    raise UsageError(f"daemon cannot {action}", hint="daemon status|start|stop|restart|logs")
