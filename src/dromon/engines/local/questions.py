"""What commands ask about jobs and about this machine. Nothing is changed here."""

import json
from collections.abc import Callable
from typing import Any

from dromon.agent.frames import Message
from dromon.agent.record import Record
from dromon.engines import outputs
from dromon.engines.local import jobs, report, usage
from dromon.engines.local.arbiter import ENVIRONMENT
from dromon.engines.local.compile import LACKS
from dromon.engines.local.counter import Counter
from dromon.engines.local.journal import Row
from dromon.engines.local.progress import bar
from dromon.engines.local.recovery import rebuild
from dromon.engines.local.server import Command
from dromon.lifecycle import states
from dromon.units import counted

_WAITING = (
    "sentence", "reason", "position", "holders", "missing", "unblock", "start", "sure",
)  # fmt: skip


class Questions(Counter):
    def status(self, row: Row) -> dict[str, Any]:
        """With its members: those of a job that is over come from its events."""
        active = self.daemon.arbiter.jobs.get(row.id)
        if active is None:
            active = rebuild(self.daemon.arbiter, row)
            active.ended = row.ended
        return active.status()

    def brief(self, row: Row) -> dict[str, Any]:
        """For lists: a job that is over from its row alone."""
        active = self.daemon.arbiter.jobs.get(row.id)
        return active.status() if active else jobs.status_of(row)

    def on_find(self, wire: Command, message: Message) -> Message:
        row = self.find(message["ref"])
        return {"id": row.id, "number": row.number, "name": row.name}

    def on_status(self, wire: Command, message: Message) -> Message:
        return {"status": self.status(self.find(message["ref"]))}

    def on_list(self, wire: Command, message: Message) -> Message:
        journal = self.daemon.journal
        rows = (
            journal.active()
            if message.get("active")
            else journal.latest(message.get("limit") or 1000)
        )
        if name := message.get("name"):
            rows = [r for r in rows if r.name == name]
        rows = sorted(rows, key=lambda r: r.number)
        return {"jobs": [self.brief(row) for row in rows]}

    def on_watch(self, wire: Command, message: Message) -> None:
        """The status now and at every change; the last one is terminal."""
        row = self.find(message["ref"])
        active = self.daemon.arbiter.jobs.get(row.id)
        wire.send({"ok": True, "status": self.status(row)})
        if active is not None:
            push: jobs.Watcher = lambda status: wire.send({"ok": True, "status": status})  # noqa: E731
            active.add_watcher(push)
            wire.on_close.append(lambda: active.watchers.remove(push))

    def on_why(self, wire: Command, message: Message) -> Message:
        row = self.find(message["ref"])
        job = self.daemon.arbiter.jobs.get(row.id)
        return {"waiting": self._waiting(job) if job else None}

    def _waiting(self, job: jobs.Job) -> dict[str, Any] | None:
        now = self.daemon.clock.now()
        if job.state == states.PREPARING:
            doing = job.progress or "starting"
            return _plain("preparing", f"its environment is being built {bar(doing)} {doing}")
        if job.state == states.RESTARTING and job.gang.resized:
            return _plain(
                "resize", f"it begins anew with {counted(len(job.gang.resized), 'member')}"
            )
        if job.state == states.RESTARTING:
            wake = job.gang.wake_at
            wait = f"; the next attempt starts in {max(0, wake - now):.0f} s" if wake else ""
            return _plain("backoff", f"it is between two attempts{wait}")
        if job.state == states.STARTING:
            late = [n for n, m in job.gang.members.items() if m.state == states.LAUNCHED]
            return _plain(
                "barrier", f"it is placed; waiting for {', '.join(late) or 'its members'}"
            )
        if job.state == states.RUNNING:
            return _short(job)
        if job.state != states.QUEUED:
            return None
        waiting = self.daemon.arbiter.scheduler.why(job.id, now)
        found = {name: getattr(waiting, name) for name in _WAITING}
        if self.is_drained:
            found["sentence"] += f"; {self.daemon.machine.name} is drained, and nothing starts"
            found["unblock"] = ["dromon node open"]
        return found

    def on_would_preempt(self, wire: Command, message: Message) -> Message:
        row = self.find(message["ref"])
        scheduler, now = self.daemon.arbiter.scheduler, self.daemon.clock.now()
        return {"victims": scheduler.would_preempt(row.id, now)}

    def on_show(self, wire: Command, message: Message) -> Message:
        row = self.find(message["ref"])
        request = json.loads(row.request)
        record = Record(self.daemon.home.record(row.id))
        active = self.daemon.arbiter.jobs.get(row.id)
        events = [(t, e) for t, e in self.daemon.journal.events(row.id)]
        built = next((e["environment"] for _, e in events if e["kind"] == ENVIRONMENT), None)
        return {
            "status": self.status(row),
            "request": request,
            "environment": built or request["environment"],
            "timeline": [{"time": row.submitted, "event": "Submitted"}]
            + [
                {"time": time, "event": event.pop("kind"), "detail": event}
                for time, event in events
            ],
            "outputs": outputs.read(record)["outputs"],
            "record": record.root,
            "work": record.work(active.gang.attempt if active else row.attempt),
        }

    def on_request(self, wire: Command, message: Message) -> Message:
        row = self.find(message["ref"])
        return {"id": row.id, "request": json.loads(row.request)}

    def on_probe(self, wire: Command, message: Message) -> Message:
        machine = self.daemon.machine
        return {
            "capabilities": {
                "engine": "local",
                "gang": "sched",
                "resources": {
                    "cpus": machine.cpus,
                    "memory": machine.memory,
                    "gpus": len(machine.gpus),
                },
                "grace": None,
                "queues": self._queues(),
                "enforced": machine.enforced,
                "lacks": dict(LACKS),
            }
        }

    def _queues(self) -> list[str]:
        """Those a job may name."""
        views = self.daemon.arbiter.scheduler.queues(self.daemon.clock.now())
        parents = {view["parent"] for view in views}
        return [view["name"] for view in views if view["name"] not in parents and view["open"]]

    def on_nodes(self, wire: Command, message: Message) -> Message:
        machine, arbiter = self.daemon.machine, self.daemon.arbiter
        held = {
            gpu: job.id
            for job in arbiter.jobs.values()
            if job.placement
            for seat in job.placement.values()
            for gpu in seat.gpus
        }
        gpus = [
            {
                "index": d.index, "uuid": d.uuid, "name": d.name, "kind": d.kind,
                "memory": d.memory, "job": held.get(d.uuid),
                "holder": arbiter.holder(d.uuid),
            }
            for d in machine.gpus
        ]  # fmt: skip
        free = {
            **arbiter.scheduler.free(),
            "gpus": sum(1 for g in gpus if g["job"] is None and g["holder"] is None),
        }
        node = {
            "name": machine.name,
            "total": {"cpus": machine.cpus, "memory": machine.memory, "gpus": len(machine.gpus)},
            "free": free,
            "gpus": gpus,
            "notes": [
                *["it is drained: what runs goes on, nothing new starts"] * self.is_drained,
                *(f"{limit}: {how}" for limit, how in machine.enforced.items()),
            ],
        }
        return {"nodes": [node]}

    def on_queues(self, wire: Command, message: Message) -> Message:
        """As every engine shows them; `views` have all that is known here."""
        daemon = self.daemon
        views = daemon.arbiter.scheduler.queues(daemon.clock.now())
        return {
            "queues": [_brief(view, views[0]) for view in views if view["name"] != "root"],
            "views": views,
            "notes": daemon.rulebook.notes if daemon.rulebook is not None else [],
        }

    def on_report(self, wire: Command, message: Message) -> Message | None:
        daemon, now = self.daemon, self.daemon.clock.now()
        start, machine, arbiter = float(message["start"]), self.daemon.machine, daemon.arbiter
        spells = [
            *daemon.journal.spells(start),
            *usage.under_way(arbiter.jobs.values(), arbiter.user, arbiter.kinds, now),
        ]
        total = {"cpus": machine.cpus, "memory": machine.memory, "gpus": len(machine.gpus)}
        queues = arbiter.scheduler.queues(now)
        self._later(wire, lambda: {"report": report.report(spells, total, queues, start, now)})
        return None

    def on_history(self, wire: Command, message: Message) -> None:
        """Every job submitted since then, as a trace of what this machine was asked to do."""
        since = float(message.get("since") or 0.0)
        ran: dict[str, float] = {}
        for spell in self.daemon.journal.spells(since):
            ran[spell.job] = ran.get(spell.job, 0.0) + spell.end - spell.start
        rows, user = self.daemon.journal.submitted_since(since), self.daemon.arbiter.user
        self._later(wire, lambda: {"jobs": [_past(r, ran.get(r.id, 0.0), user) for r in rows]})

    def _later(self, wire: Command, work: Callable[[], Message]) -> None:
        """Answered from a thread: of many jobs it takes a while."""
        self._in_thread(
            work, lambda f: self._guard(wire, lambda: wire.send({"ok": True, **f.result()}))
        )


def _short(job: jobs.Job) -> dict[str, Any] | None:
    """Of a gang that runs with fewer members than it asked for."""
    here, asked = len(job.gang.world), int(jobs.asked(job.request)["members"])
    if not 0 < here < asked:
        return None
    return _plain(
        "growing",
        f"it runs with {here} of {asked} members; the others come when nobody waits and there is "
        "room, after a checkpoint: it then begins anew from that",
    )


def _brief(view: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Of one queue, what all engines know."""
    whole, deserved = root["deserved"], view["deserved"]
    parts = [deserved.get(key, 0.0) / amount for key, amount in whole.items() if amount]
    capacity = max(parts, default=None) if view["weight"] else None
    return {
        "name": view["name"], "running": view["running"], "queued": view["queued"],
        "capacity": capacity, "used": view["share"],
        "state": "running" if view["open"] else "draining",
    }  # fmt: skip


def _past(row: Row, ran: float, user: str) -> dict[str, Any]:
    request = json.loads(row.request)
    keys = ("replicas", "min", "cpus", "memory", "gpus", "gpu_kinds", "node_label", "spread")
    return {
        "id": row.id, "name": row.name, "user": user, "queue": request["queue"],
        "priority": request["priority"], "preemptible": request["preemptible"],
        "submitted": row.submitted, "started": row.started, "ended": row.ended,
        "state": row.state, "max_duration": request["gang"]["max_duration"], "ran": ran,
        "roles": {
            name: {key: role[key] for key in keys} for name, role in request["roles"].items()
        },
    }  # fmt: skip


def _plain(reason: str, sentence: str) -> dict[str, Any]:
    return {
        "sentence": sentence, "reason": reason, "position": None, "holders": [], "missing": {},
        "unblock": [],
    }  # fmt: skip
