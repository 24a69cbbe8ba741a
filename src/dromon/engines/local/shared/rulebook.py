"""The rules as a daemon on a shared machine has them: the arbiter's. Read here, changed there."""

import json
import os
from collections.abc import Mapping
from typing import Any

from dromon.agent.frames import Message
from dromon.engines.home import write_private
from dromon.engines.local.journal import Version
from dromon.engines.local.rulebook import Rulebook
from dromon.engines.local.shared.link import question
from dromon.engines.local.shared.place import Place
from dromon.errors import DromonError
from dromon.sched.rules import Rules
from dromon.site import where

KEYS = ("version", "data", "notes")


class SharedRulebook(Rulebook):
    """Without a journal of its own: whoever may change it is asked where it lies. What was heard
    last is kept in `kept`, for when the arbiter is away; before that the site file has to do."""

    def __init__(self, at: Place, kept: str) -> None:
        self._at = at
        self._kept = kept
        self._notes: list[str] = []
        self._site = None
        self.path = None
        self.problem = ""
        self.changed = lambda rules: None
        self.version = 0
        self.data: Mapping[str, Any] = {}
        self.rules = Rules()  # the arbiter's scheduler obeys them, not ours
        try:
            self._hear(_read(kept))
        except (DromonError, OSError, KeyError, TypeError, ValueError):
            pass  # whatever was kept is of no use

    def take(self, message: Message) -> None:
        """What the arbiter says is in force."""
        self._hear(message)
        try:
            write_private(self._kept, json.dumps({key: message[key] for key in KEYS}))
        except OSError:
            pass  # the next time it is asked

    def _hear(self, message: Message) -> None:
        self.version, self.data = int(message["version"]), dict(message["data"])
        self._notes = [str(note) for note in message["notes"]]
        self._site = None

    @property
    def notes(self) -> list[str]:
        return self._notes

    def read(self, now: float) -> None:
        """The arbiter does."""

    def change(self, data: Mapping[str, Any], user: str, what: str, now: float) -> int:
        self.take(question(self._at, "change", data=data, what=what, version=self.version))
        return self.version

    def note(self, user: str, what: str, now: float) -> int:
        """What is done besides rules is done by the arbiter, which notes it."""
        return self.version

    def history(self, limit: int) -> list[Version]:
        found = question(self._at, "versions", limit=limit)["versions"]
        return [Version(**each) for each in found]


def _read(kept: str) -> Message:
    path = where.path()
    if os.path.exists(kept):
        with open(kept) as opened:
            found: Message = json.load(opened)
        return found
    if path is None:
        return {"version": 0, "data": {}, "notes": []}
    from dromon.site import file

    with open(path, "rb") as site:
        return {"version": 0, "data": file.opened(site.read(), path).data, "notes": []}
