"""Jobs come in: from what a user typed, compiled by a caller, many at once, or again.

What may take long (parsing, hashing) happens in a thread. "Accepted" is said only when the job is
on disk.
"""

import json
import os
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

from dromon.agent.frames import Message
from dromon.engines.base import Submission
from dromon.engines.home import write_private
from dromon.engines.intake import Request, Seen, Taken
from dromon.engines.local.arbiter import ENVIRONMENT
from dromon.engines.local.compile import compile_launch, lacking
from dromon.engines.local.counter import Counter
from dromon.engines.local.journal import JournalFull, Row
from dromon.engines.local.server import Command
from dromon.errors import DromonError, EngineError

BATCH = 100  # jobs in one commit
PARTS = "a part of a GPU is an agreement: nothing keeps a job to its part"


class Submissions(Counter):
    def on_run(self, wire: Command, message: Message) -> None:
        """From what the user typed: parse, snapshot, accept."""
        request = Request.from_json(message["request"])
        pins = ExitStack()  # what the snapshot names must outlive a gc until the job is on record

        def take() -> tuple[Taken, Submission]:
            pins.enter_context(self.daemon.blobs.pinned())
            taken = self.intake.take(request)
            record = self.daemon.home.record(taken.launch.id)
            return taken, compile_launch(taken.launch, record, taken.job)

        def done(future: "Future[tuple[Taken, Submission]]") -> None:
            with pins:
                self._guard(wire, lambda: self._accept(wire, *future.result()))

        self._in_thread(take, done)

    def on_plan(self, wire: Command, message: Message) -> None:
        """The request a run would make, and nothing more."""
        request = Request.from_json(message["request"])

        def take() -> dict[str, Any]:
            taken = self.intake.take(request)
            made = compile_launch(taken.launch, self.daemon.home.record(taken.launch.id), taken.job)
            now = self.daemon.clock.now()
            return {
                "engine": "local",
                "id": made.id,
                "request": self.daemon.arbiter.admit(made.id, made.request, now),
                "lacks": lacking(made.request),
                "enforced": self.daemon.machine.enforced,
                "grace": taken.job.stop_grace,
                "notes": [*taken.notes, *[PARTS] * _asks_for_parts(made.request)],
            }

        self._in_thread(
            take, lambda f: self._guard(wire, lambda: wire.send({"ok": True, "plan": f.result()}))
        )

    def on_rerun(self, wire: Command, message: Message) -> None:
        """A job again: the same code and lock by digest, the job file with overrides applied."""
        row = self.find(message["ref"])
        old = json.loads(row.request)
        built = next(
            (e["environment"] for _, e in self.daemon.journal.events(row.id)
             if e["kind"] == ENVIRONMENT), old["environment"],
        )  # fmt: skip
        taken = self.intake.take_again(
            old, built, message["overrides"], message["environ"], message["token"],
            message.get("supplied", {}),
        )  # fmt: skip
        record = self.daemon.home.record(taken.launch.id)
        self._accept(wire, taken, compile_launch(taken.launch, record, taken.job))

    def on_submit(self, wire: Command, message: Message) -> None:
        """A submission compiled by the caller: the Engine protocol's way in."""
        submission = Submission(
            "local", message["id"], message["request"], message.get("supplied", {})
        )
        row, created = self._put([submission])[0]
        self._after_sync(lambda: wire.send({"ok": True, **_accepted(row, created, ())}))

    def on_submit_many(self, wire: Command, message: Message) -> None:
        """Many jobs from one place: one snapshot, all of them valid or none accepted, `BATCH`
        jobs to a commit."""
        requests, common = message["requests"], message["common"]
        accepted: list[list[Any]] = []
        pins = ExitStack()

        def take() -> list[Submission]:
            # In a thread: it takes a while, and whoever cleans up may have to be waited for.
            pins.enter_context(self.daemon.blobs.pinned())
            seen = Seen()
            made = []
            for number, data in enumerate(requests):
                request = Request.from_json({"file": f"jobs[{number}]", **common, **data})
                taken = self.intake.take(request, seen)
                record = self.daemon.home.record(taken.launch.id)
                made.append(compile_launch(taken.launch, record, taken.job))
            return made

        def put(submissions: list[Submission]) -> None:
            with ExitStack() as unless_more:
                unless_more.push(pins)
                if not submissions:
                    wire.send({"ok": True, "accepted": accepted})
                    return
                for row, _ in self._put(submissions[:BATCH]):
                    accepted.append([row.id, row.number, row.name])
                unless_more.pop_all()
            self._after_sync(lambda: self._guard(wire, lambda: put(submissions[BATCH:])))

        def taken(future: "Future[list[Submission]]") -> None:
            if future.exception() is not None:
                pins.close()
            self._guard(wire, lambda: put(future.result()))

        self._in_thread(take, taken)

    def _accept(self, wire: Command, taken: Taken, submission: Submission) -> None:
        row, created = self._put([submission])[0]
        notes = (*taken.notes, *[PARTS] * _asks_for_parts(submission.request))
        self._after_sync(lambda: wire.send({"ok": True, **_accepted(row, created, notes)}))

    def _put(self, submissions: list[Submission]) -> list[tuple[Row, bool]]:
        home, journal = self.daemon.home, self.daemon.journal
        # A job that is known already has had its secrets, and may have ended since.
        new = {s.id: s.supplied for s in submissions if s.supplied and journal.job(s.id) is None}
        try:
            for id, supplied in new.items():
                write_private(home.secrets(id), json.dumps(dict(supplied)))
            put = self.daemon.arbiter.submit(submissions, self.daemon.clock.now())
        except (OSError, DromonError) as error:
            for id in new:
                _remove(home.secrets(id))
            if isinstance(error, OSError):
                raise EngineError(
                    f"cannot keep the job's secrets: {error.strerror}", hint=JournalFull.hint
                ) from None
            raise
        self.daemon.flush()
        return put


def _asks_for_parts(request: Mapping[str, Any]) -> bool:
    return any(0 < role["gpus"] < 1 for role in request["roles"].values())


def _accepted(row: Row, created: bool, notes: tuple[str, ...]) -> Message:
    return {
        "id": row.id, "number": row.number, "name": row.name, "state": row.state,
        "created": created, "notes": list(notes),
    }  # fmt: skip


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
