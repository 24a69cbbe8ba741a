"""What every answer to a command needs: finding the job, threads, errors, the disk. No answers."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from dromon.engines.intake import Intake
from dromon.engines.local.journal import Row
from dromon.engines.local.server import Command, answer_error
from dromon.errors import AmbiguousJob, DromonError, EngineError, JobNotFound

if TYPE_CHECKING:
    from dromon.engines.local.daemon import Daemon

log = logging.getLogger("dromon.desk")
DRAINED = "drained"  # in the journal's meta: nothing new is put on this machine
BUG = "This is a fault of Dromon's; `dromon daemon logs` has the details."


class Counter:
    def __init__(self, daemon: "Daemon", intake: Intake) -> None:
        self.daemon = daemon
        self.intake = intake

    def find(self, ref: str) -> Row:
        """A number, an id, a name, a unique prefix of an id, @last, @last~N."""
        journal = self.daemon.journal
        if ref.startswith("@"):
            steps = "0" if ref == "@last" else ref.removeprefix("@last~")
            row = journal.back(int(steps)) if _is_number(steps) else None
            if row is None:
                raise JobNotFound(f"there is no job {ref}")
            return row
        row = journal.job(ref)
        if row is None and _is_number(ref):
            row = journal.by_number(int(ref))
        if row is not None:
            return row
        found = journal.named(ref)[:1] or (journal.starting_with(ref) if ref else [])
        if len(found) > 1:
            ids = ", ".join(r.id for r in found)
            raise AmbiguousJob(f"{ref!r} could be any of {ids}")
        if not found:
            raise JobNotFound(f"there is no job {ref!r}")
        return found[0]

    @property
    def is_drained(self) -> bool:
        return bool(self.daemon.journal.get(DRAINED))

    def _in_thread(self, work: Callable[[], Any], done: Callable[["Future[Any]"], None]) -> None:
        future = self.daemon.runner.threads.submit(work)
        loop = self.daemon.loop
        future.add_done_callback(lambda f: loop.call_soon_threadsafe(done, f))

    def _guard(self, wire: Command, action: Callable[[], None]) -> None:
        """For what runs outside `answer`: an error still reaches whoever asked."""
        try:
            action()
        except DromonError as error:
            answer_error(wire, error)
        except OSError as error:
            answer_error(wire, disk_error(error))
        except Exception as error:
            log.exception("answering later")
            answer_error(wire, DromonError(f"the daemon failed: {error!r}", hint=BUG))
        self.daemon.due()

    def _after_sync(self, then: Callable[[], None]) -> None:
        """Commit has happened; the disk must have it too before anybody hears of it."""

        def done(future: "Future[None]") -> None:
            if error := future.exception():
                log.error("the journal is committed but not safe from a loss of power: %s", error)
            then()

        self._in_thread(self.daemon.journal.sync, done)


def disk_error(error: OSError) -> EngineError:
    """What the machine refused, in its own words."""
    log.error("refused by the machine", exc_info=error)
    place = f"{error.filename}: " if error.filename else ""
    hint = "Is there room, and is the state directory still as Dromon made it?"
    return EngineError(f"the daemon was refused: {place}{error.strerror or error}", hint=hint)


def _is_number(text: str) -> bool:
    """One SQLite can take."""
    return text.isdecimal() and len(text) < 18
