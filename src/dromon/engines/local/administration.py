"""What changes the rules and the machine: queues, and whether a node takes anything new."""

from typing import Any

from dromon.agent.frames import Message
from dromon.engines.local.counter import DRAINED, Counter
from dromon.engines.local.rulebook import Rulebook
from dromon.engines.local.server import Command
from dromon.errors import UsageError
from dromon.sched import events
from dromon.sched.rules import ROOT
from dromon.spec.words import nearest

HISTORY = 50


class Administration(Counter):
    @property
    def rulebook(self) -> Rulebook:
        found = self.daemon.rulebook
        if found is None:
            raise UsageError(
                "the queues of this machine are looked after by its arbiter",
                hint="An administrator changes them there.",
            )
        return found

    def on_queue_set(self, wire: Command, message: Message) -> Message:
        """`settings`: KEY=VALUE, as typed. All of them or none."""
        name = self._known(message["queue"], may_be_new=True)
        from dromon.site.change import with_queue

        data = with_queue(self.rulebook.data, name, message["settings"])
        return self._change(data, f"queue {name}")

    def on_queue_open(self, wire: Command, message: Message) -> Message:
        name, is_open = self._known(message["queue"]), bool(message["open"])
        from dromon.site.change import with_queue

        data = with_queue(self.rulebook.data, name, ["open=" if is_open else "open=false"])
        return self._change(data, f"queue {name} {'opened' if is_open else 'drained'}")

    def on_queue_remove(self, wire: Command, message: Message) -> Message:
        name = self._known(message["queue"])
        if name not in self.rulebook.site.queues:
            raise UsageError(f"queue {name} is not the site's to remove", hint=_LIST)
        here = [j.id for j in self.daemon.arbiter.jobs.values() if j.request["queue"] == name]
        if here:
            raise UsageError(
                f"queue {name} still has {len(here)} job{'s' * (len(here) != 1)}: "
                + ", ".join(here[:3]) + ("…" if len(here) > 3 else ""),
                hint=f"`dromon queue drain {name}` lets nothing new in.",
            )  # fmt: skip
        below = ", ".join(self.rulebook.site.children(name))
        if below:
            raise UsageError(f"queue {name} is above {below}", hint="Remove these first.")
        from dromon.site.change import without_queue

        return self._change(without_queue(self.rulebook.data, name), f"queue {name} removed")

    def on_queue_history(self, wire: Command, message: Message) -> Message:
        found = self.rulebook.history(int(message.get("limit") or HISTORY))
        return {"versions": [{**v._asdict(), "site": v.site["live"]} for v in found]}

    def on_node_drain(self, wire: Command, message: Message) -> Message:
        """What runs goes on; nothing new starts on this machine until it is opened."""
        daemon, drains = self.daemon, bool(message["drain"])
        name = daemon.machine.name
        if message.get("node") not in (None, name):
            raise UsageError(f"there is no node {message['node']!r} here", hint=f"It is {name}.")
        if drains != self.is_drained:
            daemon.journal.put(DRAINED, "yes" if drains else "")
            what = f"node {name} {'drained' if drains else 'opened'}"
            self.rulebook.note(daemon.arbiter.user, what, daemon.clock.now())
            event = events.NodeDrained(name) if drains else events.NodeOpened(name)
            daemon.arbiter.scheduler.apply(event)
        running = [job.id for job in daemon.arbiter.jobs.values() if job.placement]
        return {"node": name, "drained": drains, "running": running}

    def _change(self, data: dict[str, Any], what: str) -> Message:
        now = self.daemon.clock.now()
        version = self.rulebook.change(data, self.daemon.arbiter.user, what, now)
        return {"version": version, "notes": self.rulebook.notes}

    def _known(self, name: str, *, may_be_new: bool = False) -> str:
        queues = self.rulebook.site.queues
        if name == ROOT:
            raise UsageError("root is all there is, not a queue to change", hint=_LIST)
        if name not in queues and name != "default" and not may_be_new:
            near = nearest(name, queues)
            hint = f"{near[:1].upper()}{near[1:]}" if near else _LIST
            raise UsageError(f"there is no queue {name!r}", hint=hint)
        return name


_LIST = "`dromon queues` lists them."
