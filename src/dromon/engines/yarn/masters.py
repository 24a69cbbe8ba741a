"""The masters of running jobs, as far as their client needs them: asked how a job stands, and to
stop it. Where none answers, what it wrote to the job's record last."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dromon.engines.yarn import application
from dromon.engines.yarn.live import Live, Silent
from dromon.errors import DromonError
from dromon.hadoop.hdfsfaults import HdfsError
from dromon.lifecycle import states

if TYPE_CHECKING:
    from dromon.engines.yarn.reports import Report
    from dromon.engines.yarn.staging import Staging

POLL = 0.3
AWAY = 60.0  # seconds that a stop waits for a master that is away
UNREAD = 30.0  # seconds for which HDFS, once it did not answer, is not asked about other jobs


class Masters:
    def __init__(self, user: str, staging: Callable[[], Staging]) -> None:
        self._user = user
        self._staging = staging
        self._keys: dict[str, bytes] = {}
        self._trouble: tuple[float, HdfsError] | None = None  # when HDFS did not answer, and why

    def live(self, report: Report) -> Live:
        id = application.id_of(report.tags)
        if id not in self._keys:
            self._keys[id] = self._read(id, "key") or b""
        return Live(id, [report.original_tracking_url, report.tracking_url], self._keys[id])

    def standing(self, report: Report) -> dict[str, Any] | None:
        """From the master while it lives, else what it wrote last. While HDFS does not answer,
        no more is known than YARN knows: `unread` says why."""
        if report.user != self._user:
            return None
        try:
            return self._told(report) or self._written(report)
        except HdfsError as error:
            if report.is_terminal or report.state != "RUNNING":
                return None
            return {"state": states.RUNNING, "members": [], "runs": [], "unread": error.message}

    def _told(self, report: Report) -> dict[str, Any] | None:
        if report.state == "RUNNING":
            try:
                return self.live(report).status()
            except (Silent, ValueError):
                pass
        return None

    def _written(self, report: Report) -> dict[str, Any] | None:
        if not report.attempt and not report.is_terminal:
            return None
        data = self._read(application.id_of(report.tags), "status.json")
        return None if data is None else dict(json.loads(data))

    def _read(self, id: str, name: str) -> bytes | None:
        if self._trouble is not None and time.monotonic() < self._trouble[0] + UNREAD:
            raise self._trouble[1]
        try:
            data = self._staging().read_file(id, name)
        except HdfsError as error:
            self._trouble = (time.monotonic(), error)
            raise
        self._trouble = None
        return data

    def stop(
        self, look: Callable[[], Report], kill: Callable[[Report], None], grace: float | None
    ) -> None:
        """By its master, which lets members save. One that is away is replaced by YARN, mostly
        within seconds; only when none comes, or nobody need wait for one, YARN ends the job."""
        deadline = time.monotonic() + AWAY
        while not (report := look()).is_terminal:
            if report.state == "RUNNING":
                try:
                    return self.live(report).stop(self._user, grace)
                except (Silent, DromonError):
                    pass
            has_members = report.state == "RUNNING" or report.attempt > 1
            is_ours = report.user == self._user
            if not (has_members and is_ours) or grace == 0 or time.monotonic() > deadline:
                return kill(report)
            if self._is_heard(report):  # it may be looked at from here, but takes no orders
                deadline = 0.0
            time.sleep(POLL)

    def _is_heard(self, report: Report) -> bool:
        try:
            return self._told(report) is not None
        except DromonError:
            return False
