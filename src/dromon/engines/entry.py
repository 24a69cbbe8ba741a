"""How jobs come in at an engine whose client compiles and hands over by itself: a cluster's.

The local engine's daemon takes its jobs in on its own side of the socket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dromon.engines.base import JobRef, Progress

if TYPE_CHECKING:
    from dromon.contexts.file import Context
    from dromon.engines.home import Home
    from dromon.engines.intake import Intake, Taken
    from dromon.spec import Job


def silent(what: str, done: int, total: int) -> None:
    """Nobody watches."""


class Entry(ABC):
    """`home` is Dromon's directory on this machine: snapshots and archives are kept there."""

    context: Context
    home: Home

    @property
    def blobs(self) -> str:
        return self.home.blobs

    @cached_property
    def intake(self) -> Intake:
        from dromon.engines.intake import Intake
        from dromon.storage.blobs import BlobStore

        home = self.home
        return Intake(BlobStore(self.blobs), home.path("index"), self.has_secrets, home.ours)

    def has_secrets(self, job: Job) -> bool:
        """Whether the cluster has the values of this job's secrets itself."""
        return False

    @abstractmethod
    def find(self, ref: str) -> JobRef: ...

    @abstractmethod
    def hand_over(
        self, taken: Taken, progress: Progress, artifacts: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Submit it, and answer as `start` does. `artifacts`: of a job that ran before, what it
        ran, which need not be packed again."""

    @abstractmethod
    def request_of(self, id: JobRef) -> dict[str, Any]:
        """A job's request as it was submitted."""

    def start(
        self, request: Mapping[str, Any], progress: Progress | None = None
    ) -> Mapping[str, Any]:
        from dromon.storage.blobs import BlobStore

        with BlobStore(self.blobs).pinned():  # until all of it is there
            return self.hand_over(self.take(request), progress or silent)

    def start_many(
        self, common: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]
    ) -> Sequence[JobRef]:
        taken = [self.take({**common, **request}) for request in requests]
        return [str(self.hand_over(each, silent)["id"]) for each in taken]

    def take(self, request: Mapping[str, Any]) -> Taken:
        from dromon.engines.intake import Request

        if self.context.queue:
            options = dict(request.get("options", {}))
            options.setdefault("queue", self.context.queue)
            request = {**request, "options": options}
        return self.intake.take(Request.from_json(request))

    def rerun(
        self,
        ref: str,
        *,
        overrides: Sequence[str],
        token: str,
        environ: Mapping[str, str],
        supplied: Mapping[str, str],
        progress: Progress | None = None,
    ) -> Mapping[str, Any]:
        old = self.request_of(self.find(ref))
        taken = self.intake.take_again(old, old["environment"], overrides, environ, token, supplied)
        return self.hand_over(taken, progress or silent, old["artifacts"])
