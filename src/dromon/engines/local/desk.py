"""Where commands are answered: one method `on_…` for each thing a command can ask.

Submitting and asking have files of their own; here is the counter itself, and what changes jobs
and the daemon.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from dromon import __version__
from dromon.agent.frames import Message
from dromon.engines.local import collect, usage
from dromon.engines.local.administration import Administration
from dromon.engines.local.counter import BUG, disk_error, log
from dromon.engines.local.journal import Row
from dromon.engines.local.questions import Questions
from dromon.engines.local.server import Command, answer_error
from dromon.engines.local.submissions import Submissions
from dromon.errors import DromonError, UsageError, VersionMismatch
from dromon.lifecycle import events as ev


class Desk(Submissions, Questions, Administration):
    def answer(self, wire: Command, message: Message) -> None:
        if self.daemon.done.is_set() and message.get("op") != "daemon_stop":
            wire.transport.abort()  # it is leaving; whoever asks is answered by the next one
            return
        self.daemon.last_used = self.daemon.loop.time()
        self.daemon.settle()
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
        except OSError as error:
            answer_error(wire, disk_error(error))
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

    def on_remove(self, wire: Command, message: Message) -> None:
        rows = [self.find(ref) for ref in message["refs"]]
        for row in rows:
            if row.ended is None:
                raise UsageError(f"{row.id} is still {row.state}", hint=f"dromon stop {row.number}")
        self._forget(rows)

        self._clean(wire, {"removed": [row.id for row in rows]}, environments=False)

    def on_gc(self, wire: Command, message: Message) -> None:
        journal, age = self.daemon.journal, message.get("older_than")
        rows = [] if age is None else journal.ended_before(self.daemon.clock.now() - float(age))
        found = {"removed": [row.id for row in rows], "dry_run": bool(message.get("dry_run"))}
        if found["dry_run"]:
            wire.send({"ok": True, **found, "freed": 0})
            return
        rules = self.daemon.rulebook.rules
        journal.forget_spells(self.daemon.clock.now() - usage.kept(rules.half_life))
        self._forget(rows)
        self._clean(wire, found, environments=True)

    def _clean(self, wire: Command, found: Message, *, environments: bool) -> None:
        """In a thread of its own: it waits for those who submit, and they need the others."""
        daemon = self.daemon
        removed = daemon.journal.removed()  # with those an earlier life did not come to

        def work() -> int:
            freed = collect.collect(daemon.home, daemon.blobs, removed)
            return freed + (collect.Environments(daemon.home).collect() if environments else 0)

        def answer(future: "Future[int]") -> None:
            freed = future.result()
            daemon.journal.buried(removed)
            daemon.journal.commit()
            wire.send({"ok": True, **found, "freed": freed})

        def done(future: "Future[int]") -> None:
            daemon.loop.call_soon_threadsafe(self._guard, wire, lambda: answer(future))

        daemon.runner.cleaner.submit(work).add_done_callback(done)

    def _forget(self, rows: list[Row]) -> None:
        journal = self.daemon.journal
        journal.put("last_number", str(journal.last_number()))
        journal.remove(row.id for row in rows)
        journal.commit()

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
