"""The rules in force: the site file, and what was changed live since. Every change is a version.

The file is the base. `dromon queue set` changes what is in force without touching it; when the file
changes too, key by key the later change counts. Versions are journalled with who, when and what
before they take effect, so that a restart finds the rules it left.

The models of the site file are loaded when there is something to read: most machines have none, and
every first command waits for the daemon.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dromon.engines.local.journal import Journal, Version
from dromon.errors import DromonError, EngineError, JobFileError
from dromon.sched.rules import Rules
from dromon.site import where

if TYPE_CHECKING:
    from dromon.site.model import Site

log = logging.getLogger("dromon.rulebook")
FILE, LIVE = "file", "live"  # of a version: what the file says, and what is in force
Signature = tuple[int, int, int] | None


class Rulebook:
    """`changed` is called with the new rules once they are on disk."""

    def __init__(self, journal: Journal, path: str | None = None) -> None:
        self._journal = journal
        self._given = path
        self.path = path or where.path()
        self.changed: Callable[[Rules], None] = lambda rules: None
        self.problem = ""  # why the file as it is now is not in force
        self._seen: Signature | bool = False  # False: not looked at yet
        last = next(iter(journal.versions(1)), None)
        self.version = last.version if last else 0
        self._file: Mapping[str, Any] = last.site[FILE] if last else {}
        self.data: Mapping[str, Any] = last.site[LIVE] if last else {}
        self._site: Site | None = None
        self.rules = Rules() if not self.data else self._rules(self.site)

    @property
    def site(self) -> "Site":
        if self._site is None:
            self._site = _checked(self.data, f"version {self.version} of the rules")
        return self._site

    @site.setter
    def site(self, site: "Site") -> None:
        self._site = site

    @staticmethod
    def _rules(site: "Site") -> Rules:
        from dromon.site.rules import rules_of

        return rules_of(site)

    @property
    def notes(self) -> list[str]:
        found = [self.problem] if self.problem else []
        if self.data:
            from dromon.site.rules import notes

            found += notes(self.site)
        return found

    # ---- the file -------------------------------------------------------------------------------

    def read(self, now: float) -> None:
        """Take in the file if it has changed. Raises JobFileError when it is wrong and nothing
        was in force before."""
        self.path = self._given or where.path()
        signature = _signature(self.path)
        if signature == self._seen and (signature is not None or not self._file):
            return  # as it was
        self._seen = signature
        if self.path is None:
            said: Mapping[str, Any] = {}
        else:
            try:
                said = _read(self.path)
            except DromonError as error:
                if not self.version:
                    raise
                self._stay(f"{error.message}; version {self.version} stays in force")
                return
        self.problem = ""
        if said == self._file:
            return
        from dromon.site.change import merged

        data = merged(self._file, self.data, said)
        try:
            self._take(data, said, "", _what("the site file", self.data, data), now)
        except JobFileError as error:
            # Each is right by itself; only what was changed live does not go with it.
            self._stay(f"with what was changed live {self.path} is wrong: {error.message}")

    def _stay(self, problem: str) -> None:
        if problem != self.problem:
            log.error("%s", problem)
        self.problem = problem

    # ---- live -----------------------------------------------------------------------------------

    def change(self, data: Mapping[str, Any], user: str, what: str, now: float) -> int:
        """The new version. Raises JobFileError, with nothing changed, when it would be wrong."""
        if data == self.data:
            return self.version
        return self._take(data, self._file, user, _what(what, self.data, data), now)

    def note(self, user: str, what: str, now: float) -> int:
        """A version in which nothing of the site has changed, for what belongs beside it."""
        return self._take(self.data, self._file, user, what, now)

    def history(self, limit: int) -> list[Version]:
        return self._journal.versions(limit)

    def _take(
        self, data: Mapping[str, Any], said: Mapping[str, Any], user: str, what: str, now: float
    ) -> int:
        site = _checked(data, what.partition(":")[0])
        self._journal.commit()
        version = Version(self.version + 1, now, user, what, {FILE: said, LIVE: data})
        self._journal.add_version(version)
        try:
            self._journal.commit()
        except EngineError:
            self._journal.withdraw(1)
            raise
        self.version, self._file, self.data = version.version, said, data
        self.site, self.rules = site, self._rules(site)
        log.info("version %d of the rules: %s", self.version, what)
        self.changed(self.rules)
        return self.version


def _read(path: str) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as opened:
            text = opened.read(2 << 20)
    except OSError as error:
        raise EngineError(
            f"cannot read the site file {path}: {error.strerror}",
            hint="DROMON_SITE names another one.",
        ) from None
    from dromon.site import file

    document = file.opened(text, path)
    file.judged(document)
    data: Mapping[str, Any] = document.data
    return data


def _checked(data: Mapping[str, Any], name: str) -> "Site":
    from dromon.site.file import load_site

    return load_site(json.dumps(data), name)


def _signature(path: str | None) -> Signature:
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        found = None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def _what(change_of: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if not before:
        parts = (f"{k} {', '.join(v)}" if isinstance(v, dict) else k for k, v in after.items())
        return f"{change_of}, for the first time: " + "; ".join(parts)
    from dromon.site.change import differences

    return f"{change_of}: " + ("; ".join(differences(before, after)) or "nothing")
