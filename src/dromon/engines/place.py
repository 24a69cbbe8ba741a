"""An engine as people use it, for the type checker: what `api` needs beyond the Engine protocol.

Nothing imports this at run time, so it costs no command anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from dromon.engines.base import Engine, JobRef, JobStatus, LogLine, Progress


class Place(Engine, Protocol):
    """An engine as people use it: jobs come in as they were typed. `find` takes whatever names a
    job (a number, an id, a name, the first letters of an id, "@last", "@last~1"); elsewhere a
    `ref` is its id.

    Making one asks nobody and is cheap: each call of `api` makes its own, also inside a signal's
    handler while another is in the middle of a question, so two share no lock.
    """

    @property
    def name(self) -> str:
        """Its context: "local", "prod"."""
        ...

    @property
    def blobs(self) -> str:
        """The blob store on this machine that shipped functions and snapshots are in."""
        ...

    def about(self) -> Mapping[str, Any]:
        """Asks it once: {"version", "nodes": how many, "queues": names, "notes": sentences}."""
        ...

    def start(
        self, request: Mapping[str, Any], progress: Progress | None = None
    ) -> Mapping[str, Any]:
        """`request` has the fields of intake.Request. When this returns, the job is on record:
        {"id", "number", "name", "state", "created", "notes"}, and where the engine has them
        "application" (its own name for the job) and "links" {title: URL of its own pages}."""
        ...

    def start_many(
        self, common: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]
    ) -> Sequence[JobRef]:
        """Many requests with `common` fields: all of them valid, or none is started."""
        ...

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
        """The same code and environment by digest; answers as `start` does."""
        ...

    def plan(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """What `start` would ask for: {"engine", "id", "request", "lacks", "enforced", "grace":
        seconds in effect, "notes"}. Nothing is submitted; see engines.plans."""
        ...

    def find(self, ref: str) -> JobRef:
        """The id, or JobNotFound, or AmbiguousJob."""
        ...

    def show(self, ref: str) -> Mapping[str, Any]:
        """{"status": of JobStatus, as plain data, "request", "environment", "timeline",
        "outputs", "record", "work"}; and where the engine has them "metrics", "application",
        "links"."""
        ...

    def lines(
        self,
        ref: str,
        *,
        follow: bool,
        ranks: frozenset[int] | None = None,
        members: frozenset[str] | None = None,
        since: float | None = None,
        tail: int | None = None,
        every_run: bool = True,
    ) -> Iterator[LogLine]: ...
    def wait(self, ref: str, timeout: float | None = None) -> JobStatus:
        """The terminal status, or TimeoutError."""
        ...

    def run_file(self, ref: str, member: str, run: int, name: str) -> str | None:
        """The path, on this machine, of a file a member's run has left: "result", "error"."""
        ...

    def stop_ref(self, ref: str, grace: float | None = None) -> Mapping[str, Any]:
        """{"id", "active": whether there was anything to stop}."""
        ...

    def tend(self) -> Sequence[str]:
        """Look after active jobs that the cluster may have forgotten, and help them on where that
        is possible: a sentence for each thing found."""
        ...

    def remove(self, refs: Sequence[str]) -> Sequence[JobRef]:
        """Forget ended jobs and all they kept; one that is still active refuses them all."""
        ...

    def collect(self, older_than: float | None = None, dry_run: bool = False) -> Mapping[str, Any]:
        """{"removed": ids, "freed": bytes, "dry_run"}."""
        ...
