"""Where commands are answered: one method `on_…` for each thing a command can ask.

Submitting and asking have files of their own; here is the counter itself, and what changes jobs
and the daemon.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

from dromon import __version__
from dromon.agent.frames import Message
from dromon.agent.record import Record
from dromon.engines.local import outputs
from dromon.engines.local.arbiter import ENVIRONMENT
from dromon.engines.local.counter import BUG, log
from dromon.engines.local.journal import Row
from dromon.engines.local.questions import Questions
from dromon.engines.local.server import Command, answer_error
from dromon.engines.local.submissions import Submissions
from dromon.errors import DromonError, UsageError, VersionMismatch
from dromon.lifecycle import events as ev
from dromon.packaging import environment, snapshot


class Desk(Submissions, Questions):
    def answer(self, wire: Command, message: Message) -> None:
        self.daemon.last_used = self.daemon.loop.time()
        try:
            op = str(message.get("op"))
            if message.get("version") != __version__ and op not in ("daemon_stop", "daemon_status"):
                raise VersionMismatch(
                    f"the daemon is Dromon {__version__}, this command is {message.get('version')}"
                )
            method: Callable[[Command, Message], Any] | None = getattr(self, f"on_{op}", None)
            if method is None:
                raise UsageError(f"the daemon does not know {op!r}")
            found = method(wire, message)
            if found is not None:
                wire.send({"ok": True, **found})
        except DromonError as error:
            answer_error(wire, error)
        except Exception as error:
            log.exception("answering %s", message.get("op"))
            answer_error(wire, DromonError(f"the daemon failed: {error!r}", hint=BUG))
        self.daemon.due()

    # ---- changing -------------------------------------------------------------------------------

    def on_stop(self, wire: Command, message: Message) -> Message:
        row = self.find(message["ref"])
        job = self.daemon.arbiter.jobs.get(row.id)
        if job is not None:
            event = ev.StopRequested(by=self.daemon.arbiter.user, grace=message.get("grace"))
            self.daemon.happen(job, event)
        return {"id": row.id, "active": job is not None}

    def on_remove(self, wire: Command, message: Message) -> Message:
        rows = [self.find(ref) for ref in message["refs"]]
        for row in rows:
            if row.ended is None:
                raise UsageError(f"{row.id} is still {row.state}", hint=f"dromon stop {row.number}")
        self._forget(rows)
        return {"removed": [row.id for row in rows]}

    def on_gc(self, wire: Command, message: Message) -> None:
        journal = self.daemon.journal
        before = self.daemon.clock.now() - float(message.get("older_than") or 0)
        rows = journal.ended_before(before) if message.get("older_than") is not None else []
        gone = {row.id for row in rows}
        keep = [r for r in journal.latest(1 << 30) if r.id not in gone]
        dry = bool(message.get("dry_run"))
        if not dry:
            self._forget(rows)
            self.daemon.flush()
        home, blobs = self.daemon.home, self.daemon.blobs
        in_use = {d for row in keep for d in _digests(row)}
        kept_outputs = {
            entry["digest"]
            for row in keep
            for entry in outputs.read(Record(home.record(row.id)))["outputs"]
            if "digest" in entry
        }
        locks = {d for row in keep for d in _environments(journal.events(row.id))}

        def collect() -> dict[str, Any]:
            reachable = set(in_use) | kept_outputs
            for digest in in_use:
                if blobs.has(digest):
                    reachable |= snapshot.reachable(digest, blobs)
            freed = 0 if dry else blobs.gc(reachable) + environment.gc(home.cache, locks)
            return {"removed": sorted(gone), "freed": freed, "dry_run": dry}

        self._in_thread(
            collect, lambda f: self._guard(wire, lambda: wire.send({"ok": True, **f.result()}))
        )

    def _forget(self, rows: list[Row]) -> None:
        journal = self.daemon.journal
        journal.put("last_number", str(journal.last_number()))
        journal.remove(row.id for row in rows)
        journal.commit()
        for row in rows:
            shutil.rmtree(self.daemon.home.record(row.id), ignore_errors=True)

    # ---- the daemon -----------------------------------------------------------------------------

    def on_daemon_status(self, wire: Command, message: Message) -> Message:
        daemon = self.daemon
        return {
            "pid": os.getpid(),
            "version": __version__,
            "home": daemon.home.root,
            "started": daemon.started,
            "jobs": len(daemon.arbiter.jobs),
            "stay": daemon.stay,
        }

    def on_daemon_stop(self, wire: Command, message: Message) -> Message:
        self.daemon.loop.call_later(0.01, self.daemon.done.set)
        return {"pid": os.getpid(), "stay": self.daemon.stay}

    def on_daemon_stay(self, wire: Command, message: Message) -> Message:
        self.daemon.stay = bool(message.get("stay", True))
        return {"stay": self.daemon.stay}


def _digests(row: Row) -> set[str]:
    request: Mapping[str, Any] = json.loads(row.request)
    return {request[key]["digest"] for key in ("code", "payload") if request.get(key)}


def _environments(events: list[tuple[float, dict[str, Any]]]) -> set[str]:
    return {e["environment"]["digest"] for _, e in events if e["kind"] == ENVIRONMENT}
