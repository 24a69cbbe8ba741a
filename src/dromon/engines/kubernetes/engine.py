"""Kubernetes as an engine: the protocol of `engines.base`, and what people ask beyond it.

Nothing about a job needs this process: what is known of it is in the API server, in its pods and
in its record in the store.
"""

from __future__ import annotations

import builtins
import getpass
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dromon.engines import base
from dromon.engines.base import JobRef, JobStatus, LogLine, Progress, Waiting
from dromon.engines.entry import Entry
from dromon.engines.kubernetes import cluster, status, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.jobs import Jobs, kind_of
from dromon.engines.kubernetes.live import Silent
from dromon.engines.kubernetes.refusals import ApiError
from dromon.engines.kubernetes.store import Store
from dromon.engines.kubernetes.volcano import CONFIG_MAP, JOB, PLAIN_JOB, SECRET, Kind
from dromon.errors import Refused

if TYPE_CHECKING:
    from dromon.contexts.file import Context
    from dromon.engines.intake import Taken
    from dromon.engines.kubernetes.access import Access
    from dromon.engines.kubernetes.desk import Desk
    from dromon.engines.kubernetes.overview import Overview
    from dromon.engines.kubernetes.reading import Reading
    from dromon.engines.kubernetes.tending import Tending
    from dromon.spec import Job

LISTS, OFTEN = 5, 15.0  # so many lists, less than so many seconds apart, are worth a watch
Object = dict[str, Any]


class KubernetesEngine(Entry):
    """`home` is Dromon's directory on this machine: snapshots and archives are kept there."""

    def __init__(self, context: Context, home: str | None = None) -> None:
        from dromon.engines.home import Home

        self.context = context
        self.home = Home(home) if home else Home()
        self.has_put_light = False  # what pods run is in the namespace, as far as we know
        self._watched: Overview | None = None
        self._lists, self._listed = 0, 0.0  # how often in a row, and when last

    # ---- whom we talk to ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.context.name

    @cached_property
    def access(self) -> Access:
        return cluster.access(self.context)

    @cached_property
    def api(self) -> Api:
        return Api(self.access)

    @cached_property
    def namespace(self) -> str:
        return self.context.namespace or self.access.namespace or "default"

    @cached_property
    def store(self) -> Store | None:
        """None where there is none, or this machine does not see it."""
        root = cluster.seen_at(cluster.store_of(self.context))
        return Store(root) if root else None

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.api, self.namespace, self.store, self.name)

    def close(self) -> None:
        """Hang up; what is asked later connects anew."""
        self._forget_watched()
        for name in ("jobs", "reading", "tending"):
            self.__dict__.pop(name, None)
        open_one = self.__dict__.pop("api", None)
        if open_one is not None:
            open_one.close()

    # ---- what it is asked for; whoever lists jobs imports none of these ------------------------

    @cached_property
    def desk(self) -> Desk:
        from dromon.engines.kubernetes.desk import Desk

        return Desk(self)

    @cached_property
    def reading(self) -> Reading:
        from dromon.engines.kubernetes.reading import Reading

        return Reading(self)

    @cached_property
    def tending(self) -> Tending:
        from dromon.engines.kubernetes.tending import Tending

        return Tending(self.jobs)

    # ---- the engine protocol --------------------------------------------------------------------

    def probe(self) -> base.Capabilities:
        return self.desk.probe()

    def compile(self, launch: base.Launch) -> base.Submission:
        return self.desk.compile(launch)

    def submit(self, submission: base.Submission) -> JobRef:
        self._forget_watched()
        return self.desk.submit(submission)

    def status(self, ref: JobRef) -> JobStatus:
        job = self.jobs.read(ref)
        return self.jobs.status(job, self.jobs.pods(ref))

    def list(self, where: base.Filter) -> Sequence[JobStatus]:
        overview, every = self._all_jobs()
        jobs = [
            job
            for job in every
            if not (where.active_only and status.phase(job) in volcano.ENDED)
            and where.name in (None, job["metadata"]["labels"].get(volcano.NAME_LABEL))
        ]
        jobs.sort(key=status.submitted)
        jobs = jobs if where.limit is None else jobs[-where.limit :]
        if overview is not None:
            return [overview.status(job) for job in jobs]
        return self.jobs.statuses(jobs)

    def _all_jobs(self) -> tuple[Overview | None, builtins.list[Object]]:
        """Watched from now on, where somebody lists again and again."""
        now = time.monotonic()
        self._lists = self._lists + 1 if now < self._listed + OFTEN else 1
        self._listed = now
        try:
            if self._watched is None and self._lists >= LISTS:
                from dromon.engines.kubernetes.overview import Overview

                self._watched = Overview(self.jobs, volcano_is_there=self.desk.target.volcano)
            if self._watched is not None:
                return self._watched, self._watched.jobs()
        except ApiError:  # we may list but not watch, or nobody answers: then that is said below
            self._forget_watched()
            self._lists = -LISTS
        return None, self.jobs.all()

    def _forget_watched(self) -> None:
        """What was changed from here is to be seen from here at once."""
        self._lists = 0
        if self._watched is not None:
            self._watched.close()
            self._watched = None

    def watch(self, ref: JobRef) -> Iterator[JobStatus]:
        return self.reading.watch(*self._named(ref), ask=True)

    def why(self, ref: JobRef) -> Waiting | None:
        return self.tending.why(self.jobs.find(ref))

    def stop(self, ref: JobRef, grace: float | None = None) -> None:
        self._forget_watched()
        job = self.jobs.find(ref)
        if status.phase(job) in volcano.ENDED:
            return
        try:
            self.jobs.live(job, []).stop(self.user, grace)
        except Silent:  # nobody is there to be asked; Volcano ends it
            self.jobs.terminate(job)

    def logs(self, ref: JobRef, follow: bool) -> Iterator[LogLine]:
        return self.lines(ref, follow=follow)

    def nodes(self) -> Sequence[base.Node]:
        return self.desk.nodes()

    def queues(self) -> Sequence[base.Queue]:
        from dromon.engines.kubernetes.queues import queues_of

        return queues_of(self.api)

    # ---- as people use it -----------------------------------------------------------------------

    @property
    def user(self) -> str:
        return self.context.user or getpass.getuser()

    def about(self) -> Mapping[str, Any]:
        return self.desk.about()

    def has_secrets(self, job: Job) -> bool:
        return bool(job.kubernetes.get("secret"))

    def hand_over(
        self, taken: Taken, progress: Progress, artifacts: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        self._forget_watched()
        return self.desk.hand_over(taken, progress, artifacts)

    def request_of(self, id: JobRef) -> dict[str, Any]:
        return self.jobs.request(id)

    def plan(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.desk.plan(request)

    def find(self, ref: str) -> JobRef:
        return self._named(ref)[0]

    def _named(self, ref: str) -> tuple[JobRef, Kind]:
        """Its id and what it is; of a job on record without a question."""
        if self.store is not None and (request := self.store.request_of(ref)) is not None:
            return ref, JOB if request["volcano"] else PLAIN_JOB
        job = self.jobs.find(ref)
        return str(job["metadata"]["name"]), kind_of(job)

    def show(self, ref: str) -> Mapping[str, Any]:
        from dromon.engines.kubernetes import collect

        return collect.shown(self, self.jobs.find(ref))

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
    ) -> Iterator[LogLine]:
        from dromon.engines.kubernetes.lines import Wanted

        id, kind = self._named(ref)
        wanted = Wanted(ranks, members, since, tail, every_run)
        return self.reading.lines(id, kind, wanted, follow=follow)

    def wait(self, ref: str, timeout: float | None = None) -> JobStatus:
        deadline = None if timeout is None else time.monotonic() + timeout
        id, kind = self._named(ref)
        for now in self.reading.watch(id, kind, ask=False, deadline=deadline):
            if now.is_terminal:
                return now
        raise TimeoutError(f"{id} has not ended after {timeout:g} s")

    def run_file(self, ref: str, member: str, run: int, name: str) -> str | None:
        if self.store is None:
            return None
        path = os.path.join(self.store.record(self.find(ref)).run(member, run), name)
        return path if os.path.exists(path) else None

    def stop_ref(self, ref: str, grace: float | None = None) -> Mapping[str, Any]:
        id = self.find(ref)
        active = not self.status(id).is_terminal
        if active:
            self.stop(id, grace)
        return {"id": id, "active": active}

    def tend(self) -> Sequence[str]:
        return self.tending.look_after_all()

    def remove(self, refs: Sequence[str]) -> Sequence[JobRef]:
        ids = [self.find(ref) for ref in refs]
        for id in ids:
            if not self.status(id).is_terminal:
                raise Refused(f"{id} is still active", hint=f"`dromon stop {id}` first.")
        for id in ids:
            self.forget(id)
        return ids

    def forget(self, id: JobRef) -> int:
        """All of an ended job; how many bytes that were in the store."""
        self._forget_watched()
        self.api.delete(kind_of(self.jobs.read(id)), self.namespace, id)
        labels = f"{volcano.JOB_LABEL}={id}"
        for kind in (CONFIG_MAP, SECRET):  # where nobody had made it the owner yet
            self.api.delete_all(kind, self.namespace, labels)
        return self.store.remove_record(id) if self.store is not None else 0

    def collect(self, older_than: float | None = None, dry_run: bool = False) -> Mapping[str, Any]:
        from dromon.engines.kubernetes import collect

        age = collect.KEPT if older_than is None else older_than
        return collect.collect(self, age, dry_run)
