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

from dromon.engines import base, plans
from dromon.engines.base import JobRef, JobStatus, LogLine, Progress, Waiting
from dromon.engines.entry import Entry, silent
from dromon.engines.kubernetes import cluster, collect, situation, status, volcano, why
from dromon.engines.kubernetes import pods as podfacts
from dromon.engines.kubernetes.ending import Ending
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.jobs import Jobs, kind_of
from dromon.engines.kubernetes.lines import AWAY, PodLines, Wanted, from_record
from dromon.engines.kubernetes.live import Silent
from dromon.engines.kubernetes.manifest import LACKS, compile_launch, content_token, lacking
from dromon.engines.kubernetes.nodes import nodes_of, plain_amounts, refuse_impossible
from dromon.engines.kubernetes.refusals import ApiError
from dromon.engines.kubernetes.store import Store
from dromon.engines.kubernetes.submitting import Submitter
from dromon.engines.kubernetes.target import Target
from dromon.engines.kubernetes.volcano import CONFIG_MAP, JOB, PLAIN_JOB, POD, SECRET, Kind
from dromon.engines.kubernetes.watch import Following, Watch
from dromon.errors import JobNotFound, Refused
from dromon.lifecycle import states

if TYPE_CHECKING:
    from dromon.agent.record import Record
    from dromon.contexts.file import Context
    from dromon.engines.intake import Taken
    from dromon.engines.kubernetes.access import Access
    from dromon.engines.kubernetes.overview import Overview
    from dromon.spec import Job

POLL = 0.2  # seconds between two looks into the store
ASK, ASK_SELDOM = 0.5, 15.0  # seconds between two questions to a coordinator
LISTS, OFTEN = 5, 15.0  # so many lists, less than so many seconds apart, are worth a watch
KEPT = 30 * 86400.0  # seconds that `gc` leaves a job alone unless told otherwise
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
    def target(self) -> Target:
        from dromon.engines.kubernetes import packing

        light = packing.light(self.home.cache)
        labels = [node.labels for node in self.cluster_nodes or ()]
        return cluster.target(self.context, self.api, self.namespace, light.digest, labels)

    @cached_property
    def cluster_nodes(self) -> tuple[situation.Node, ...] | None:
        """As they were when this engine was made, and as if nobody used them; None: we may not
        look."""
        return situation.nodes(self.api, is_empty=True)

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
        self.__dict__.pop("jobs", None)
        open_one = self.__dict__.pop("api", None)
        if open_one is not None:
            open_one.close()

    # ---- the engine protocol --------------------------------------------------------------------

    def probe(self) -> base.Capabilities:
        most: dict[str, float] = {"cpus": 0.0, "memory": 0.0, "gpus": 0.0}
        for node in self.nodes():
            most = {kind: max(most[kind], node.total.get(kind, 0.0)) for kind in most}
        target = self.target
        return base.Capabilities(
            "kubernetes", gang="volcano" if target.volcano else "none", resources=most, grace=None,
            queues=target.queues or ("default",),
            enforced={"cpus": "by the kubelet", "memory": "by the kubelet"},
            lacks=LACKS,
        )  # fmt: skip

    def compile(self, launch: base.Launch) -> base.Submission:
        return compile_launch(launch, self.target)

    def submit(self, submission: base.Submission) -> JobRef:
        self._forget_watched()
        Submitter(self).submit(submission, silent)
        return submission.id

    def refuse_impossible(self, request: Mapping[str, Any]) -> None:
        """Not where nodes come when they are needed."""
        if self.context.properties.get("nodes.grow", "") != "yes":
            refuse_impossible(request["objects"][0], self.cluster_nodes)

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
        pods = self.jobs.pods_of(jobs)
        return [self.jobs.status(job, pods.get(job["metadata"]["name"], [])) for job in jobs]

    def _all_jobs(self) -> tuple[Overview | None, builtins.list[Object]]:
        """Watched from now on, where somebody lists again and again."""
        now = time.monotonic()
        self._lists = self._lists + 1 if now < self._listed + OFTEN else 1
        self._listed = now
        try:
            if self._watched is None and self._lists >= LISTS:
                from dromon.engines.kubernetes.overview import Overview

                self._watched = Overview(self.jobs, volcano_is_there=self.target.volcano)
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
        return self._watch(ref, ask=True)

    def _watch(
        self, ref: JobRef, *, ask: bool, deadline: float | None = None
    ) -> Iterator[JobStatus]:
        """One list, then what changes; and in between what the record says, or, if one is to
        `ask`, the coordinator. Ends with the job, or at the deadline."""
        id, kind = self._named(ref)
        jobs = Watch(
            self.api, kind, self.namespace, fields=f"metadata.name={id}", patience=AWAY
        )  # fmt: skip
        labels = f"{volcano.JOB_LABEL}={id}"
        pods = Watch(self.api, POD, self.namespace, labels=labels, patience=AWAY)
        jobs.load()
        pods.load()
        last = None
        pause = ASK  # until the coordinator is asked again though nothing has changed
        with Following(jobs, pods) as following:
            while last is None or not last.is_terminal:
                if (self.namespace, id) not in jobs.objects:
                    raise JobNotFound(f"{id} was removed")
                job = jobs.objects[self.namespace, id]
                now = self.jobs.status(job, list(pods.objects.values()), ask=ask)
                if now != last:
                    yield now
                    pause = ASK
                last = now
                left = float("inf") if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return
                if not now.is_terminal:
                    following.next(min(POLL if self.store is not None else pause, left))
                    pause = min(pause * 1.5, ASK_SELDOM)

    def why(self, ref: JobRef) -> Waiting | None:
        job = self.jobs.find(ref)
        id = str(job["metadata"]["name"])
        pods = self.jobs.pods(id)
        now = self.jobs.status(job, pods)
        if now.is_terminal:
            return None
        told = self.jobs.told(job, pods, over=False)
        is_whole = status.phase(job) == status.RUNNING and not any(
            pod.deleted is not None or pod.is_unheard for pod in map(podfacts.facts, pods)
        )
        if told is not None and is_whole and now.state not in (states.QUEUED, states.STARTING):
            return why.of_gang(told, time.time())
        found = situation.gather(self.api, self.namespace, id)
        for words in self.jobs.cure(found):
            return Waiting(words, "resources")
        waiting = why.explain(found, time.time())
        return waiting._replace(missing=plain_amounts(waiting.missing))

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
        return nodes_of(self.api)

    def queues(self) -> Sequence[base.Queue]:
        from dromon.engines.kubernetes.queues import queues_of

        return queues_of(self.api)

    # ---- as people use it -----------------------------------------------------------------------

    @property
    def user(self) -> str:
        return self.context.user or getpass.getuser()

    def about(self) -> Mapping[str, Any]:
        version = self.api.get("/version")
        target = self.target
        notes = [] if target.volcano else ["there is no Volcano: one-pod jobs only"]
        if target.store is None:
            notes.append("no store: `outputs:` and packages are refused, logs go with the pods")
        if not target.image:
            notes.append("no image: jobs must name theirs")
        try:
            nodes: int | None = len(self.api.list(volcano.NODE))
        except ApiError:
            nodes = None
        return {
            "version": version.get("gitVersion", ""), "nodes": nodes, "queues": target.queues,
            "notes": [f"namespace {self.namespace}", *notes],
        }  # fmt: skip

    def has_secrets(self, job: Job) -> bool:
        return bool(job.kubernetes.get("secret"))

    def hand_over(
        self, taken: Taken, progress: Progress, artifacts: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        self._forget_watched()
        submission = self.compile(taken.launch)
        if artifacts:
            request = {**submission.request, "artifacts": artifacts}
            submission = submission._replace(request=request)
        job, created, notes = Submitter(self).submit(submission, progress)
        asked = submission.request
        lacks = [f"{key}: {words}" for key, words in lacking(asked).items()]
        return {
            "id": submission.id,
            "number": 0,
            "name": asked["name"],
            "state": states.QUEUED if created else self.jobs.status(job, []).state,
            "created": created,
            "notes": [*taken.notes, *asked["notes"], *notes, *lacks],
            "application": f"{self.namespace}/{submission.id}",
            "links": {},
        }

    def request_of(self, id: JobRef) -> dict[str, Any]:
        return self.jobs.request(id)

    def plan(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        from dromon.engines.kubernetes import packing
        from dromon.storage.blobs import BlobStore

        # In a repository the same job file makes the same manifest, another one a job of its own.
        token = content_token(self.take(request).launch)
        found = plans.planned(self, self.take({**request, "token": token}))
        try:
            made = packing.manifest(found["request"], BlobStore(self.blobs), self.home.cache)
        except Refused as refused:
            found["notes"].append(f"no manifest to apply without Dromon: {refused.message}")
            return found
        return {**found, "manifest": made}

    def find(self, ref: str) -> JobRef:
        return self._named(ref)[0]

    def _named(self, ref: str) -> tuple[JobRef, Kind]:
        """Its id and what it is; of a job on record without a question."""
        if self.store is not None and (request := self.store.request_of(ref)) is not None:
            return ref, JOB if request["volcano"] else PLAIN_JOB
        job = self.jobs.find(ref)
        return str(job["metadata"]["name"]), kind_of(job)

    def show(self, ref: str) -> Mapping[str, Any]:
        job = self.jobs.find(ref)
        id = str(job["metadata"]["name"])
        pods = self.jobs.pods(id)
        now = self.jobs.status(job, pods)
        request = self.jobs.request(id)
        told = self.jobs.told(job, pods, now.is_terminal) or {}
        record = self.store.record(id) if self.store is not None else None
        return {
            "status": {**now._asdict(), "members": [m._asdict() for m in now.members]},
            "request": {k: v for k, v in request.items() if k != "objects"},
            "environment": request["environment"],
            "timeline": collect.timeline(record, now.submitted),
            "outputs": told.get("outputs", []),
            "record": record.root if record is not None else f"configmap/{id}",
            "work": "",
            "metrics": collect.metrics(record),
            "application": f"{self.namespace}/{id}",
            "links": {},
        }

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
        id, kind = self._named(ref)
        wanted = Wanted(ranks, members, since, tail, every_run)
        if self.store is not None:
            return self._recorded_lines(self.store.record(id), id, kind, wanted, follow)

        def look() -> tuple[bool, dict[str, tuple[str, int | None]]]:
            pods = self.jobs.pods(id)
            now = self.jobs.status(self.jobs.read(id), pods)
            by_member = {m.member: m.rank for m in now.members}
            found = {}
            for pod in pods:
                member = podfacts.facts(pod).member
                found[str(pod["metadata"]["name"])] = (member, by_member.get(member))
            return now.is_terminal, found

        return PodLines(self.api, self.namespace, look, wanted).lines(follow=follow)

    def _recorded_lines(
        self, record: Record, id: JobRef, kind: Kind, wanted: Wanted, follow: bool
    ) -> Iterator[LogLine]:
        with Ending(self.api, kind, self.namespace, id) as is_ended:
            yield from from_record(
                record, lambda: self.jobs.runs(id, is_ended), wanted, follow=follow
            )

    def wait(self, ref: str, timeout: float | None = None) -> JobStatus:
        deadline = None if timeout is None else time.monotonic() + timeout
        id = self.find(ref)
        for now in self._watch(id, ask=False, deadline=deadline):
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
        return [
            f"{job['metadata']['name']}: {words}"
            for job in self.jobs.all()
            if self.jobs.is_suspect(job, time.time())
            for words in self.jobs.look_after(job["metadata"]["name"])
        ]

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
        age = KEPT if older_than is None else older_than
        return collect.collect(self, age, dry_run)
