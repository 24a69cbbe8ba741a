"""YARN as an engine: the protocol of `engines.base`, and what people ask beyond it.

Nothing about a job needs this process: what is known of it is in YARN, in its ApplicationMaster
and in its record on HDFS, and every call asks anew.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dromon.engines import base, plans, references
from dromon.engines.base import JobRef, JobStatus, LogLine, Progress, Waiting
from dromon.engines.entry import Entry, silent
from dromon.engines.yarn import (
    application,
    cluster,
    collect,
    records,
    situation,
    statuses,
    why,
)
from dromon.engines.yarn.aggregated import AggregatedLogs
from dromon.engines.yarn.compile import LACKS, LEASE, Target, compile_launch, lacking
from dromon.engines.yarn.follow import COLLECTING, Follower, Seen, Wanted, runs_of
from dromon.engines.yarn.manager import ApplicationUnknown, Manager
from dromon.engines.yarn.masters import Masters
from dromon.engines.yarn.reports import Report
from dromon.engines.yarn.staging import REQUEST, Staging
from dromon.engines.yarn.submitting import Submitter
from dromon.errors import JobNotFound, Refused
from dromon.lifecycle import states
from dromon.storage.hdfs import Hdfs

if TYPE_CHECKING:
    from dromon.contexts.file import Context
    from dromon.engines.intake import Taken

POLL = 0.3
PACKING = 3600.0  # seconds for which an archive may be on its way to a cluster
KEPT = 30 * 86400.0  # seconds that `gc` leaves a job's record alone unless told otherwise
PREEMPTS = {"preemptible": "whether a job may be preempted is for its queue to say"}
EXPIRIES = (
    "yarn.am.liveness-monitor.expiry-interval-ms",
    "yarn.nm.liveness-monitor.expiry-interval-ms",
)
HEARD = 1.5  # seconds until a warning has come from the scheduler to a member, at most
PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill"


class YarnEngine(Entry):
    """`home` is Dromon's directory on this machine: snapshots and archives are kept there."""

    def __init__(self, context: Context, home: str | None = None) -> None:
        from dromon.engines.home import Home

        self.context = context
        self.home = Home(home) if home else Home()

    # ---- whom we talk to ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.context.name

    @cached_property
    def cluster(self) -> cluster.Cluster:
        environ = dict(os.environ)
        if self.context.user:
            environ["HADOOP_USER_NAME"] = self.context.user
        found = cluster.find(self.context.where or None, environ)
        site = found.site.with_properties(self.context.properties)
        return dataclasses.replace(found, site=site)

    @cached_property
    def manager(self) -> Manager:
        return Manager(self.cluster)

    @cached_property
    def hdfs(self) -> Hdfs:
        return Hdfs.connect(self.cluster.site, self.cluster.user)

    @cached_property
    def staging(self) -> Staging:
        return Staging(self.hdfs, self.context.store, public_root=self.context.public_root)

    @cached_property
    def masters(self) -> Masters:
        return Masters(self.cluster.user, lambda: self.staging)

    @cached_property
    def target(self) -> Target:
        ask = self.cluster.effective
        expiries = [float(ask(key, "600000")) / 1000 for key in EXPIRIES]
        wait = None
        if ask("yarn.resourcemanager.scheduler.monitor.enable", "false") == "true":
            # YARN counts from when it decides; a master hears of it with its next beat.
            wait = max(0.5, float(ask(PREEMPTION, "15000")) / 1000 - HEARD)
        return Target(
            user=self.cluster.user,
            root=self.staging.root,
            webhdfs=tuple(node.web for node in self.cluster.name_service.nodes),
            scheduler=tuple(str(manager.scheduler) for manager in self.cluster.managers),
            proxies=tuple(manager.client.host for manager in self.cluster.managers),
            constraints=ask("yarn.resourcemanager.placement-constraints.handler") == "scheduler",
            preemption_wait=wait,
            highest_priority=int(ask("yarn.cluster.max-application-priority", "0")),
            logs_aggregated=ask("yarn.log-aggregation-enable") == "true",
            shared=self.context.shared,
            name_node=self.cluster.name_service.name,
            expiry=min(expiries),
            # Members outlive the loss of their master's node: the next one comes in time. A lost
            # node of their own is noticed as late, so its members are hardly replaced any later.
            lease=LEASE + max(expiries),
        )

    def close(self) -> None:
        """Hang up; what is asked later connects anew."""
        for name in ("manager", "hdfs"):
            open_one = self.__dict__.pop(name, None)
            if open_one is not None:
                open_one.close()
        self.__dict__.pop("staging", None)

    # ---- the engine protocol --------------------------------------------------------------------

    def probe(self) -> base.Capabilities:
        nodes = [node for node in self.manager.nodes() if node.is_usable]
        most = {
            "cpus": max((float(n.total.vcores) for n in nodes), default=0.0),
            "memory": max((n.total.memory * 2.0**20 for n in nodes), default=0.0),
            "gpus": max((float(n.gpus) for n in nodes), default=0.0),
        }
        queues = tuple(q.name for q in self.manager.queues().walk())
        return base.Capabilities(
            "yarn", gang="barrier", resources=most, grace=self.target.preemption_wait,
            queues=queues, enforced={"memory": "by Dromon's agent, and by YARN where it is set to"},
            lacks=LACKS if self.target.preemption_wait is None else {**LACKS, **PREEMPTS},
        )  # fmt: skip

    def compile(self, launch: base.Launch) -> base.Submission:
        return compile_launch(launch, self.target)

    def submit(self, submission: base.Submission) -> JobRef:
        Submitter(self).submit(submission, silent)
        return submission.id

    def status(self, ref: JobRef) -> JobStatus:
        report = self._report(ref)
        return statuses.status(report, self._standing(report))

    def list(self, where: base.Filter) -> Sequence[JobStatus]:
        reports = self.manager.reports(types=[application.TYPE], users=[self.cluster.user])
        found = []
        kept = None if where.active_only else set(self.staging.records())
        for report in reversed(reports):
            id = application.id_of(report.tags)
            if not id or (where.active_only and report.is_terminal):
                continue
            if kept is not None and report.is_terminal and id not in kept:
                continue  # removed: YARN remembers it a while longer
            if where.name not in (None, id.rpartition("-")[0]):
                continue
            found.append(report)
        if where.limit is not None:
            found = found[-where.limit :]
        return [statuses.status(r, self._standing(r)) for r in found]

    def watch(self, ref: JobRef) -> Iterator[JobStatus]:
        last = None
        while last is None or not last.is_terminal:
            status = self.status(ref)
            if status != last:
                yield status
            last = status
            if not status.is_terminal:
                time.sleep(POLL)

    def why(self, ref: JobRef) -> Waiting | None:
        report = self._report(self.find(ref))
        standing = self._standing(report)
        status = statuses.status(report, standing)
        if status.is_terminal:
            return None
        if standing is not None and "unread" in standing:
            return Waiting(f"how it stands is not known: {standing['unread']}", "unknown")
        if standing is not None and report.state == "RUNNING":
            known = why.of_gang(standing)
            if known is not None or status.state != states.QUEUED:
                return known
        return why.explain(situation.gather(self.manager, report.id))

    def stop(self, ref: JobRef, grace: float | None = None) -> None:
        def kill(report: Report) -> None:
            self.manager.kill(report.id, f"stopped by {self.cluster.user}")

        self.masters.stop(lambda: self._report(ref), kill, grace)

    def logs(self, ref: JobRef, follow: bool) -> Iterator[LogLine]:
        return self.lines(ref, follow=follow)

    def nodes(self) -> Sequence[base.Node]:
        found = []
        for node in self.manager.nodes():
            total, used = node.total, node.used
            notes = () if node.is_usable else (f"{node.state.lower()}: {node.health}".rstrip(": "),)
            found.append(
                base.Node(
                    node.id,
                    _amounts(total.vcores, total.memory, node.gpus),
                    _amounts(
                        total.vcores - used.vcores,
                        total.memory - used.memory,
                        node.gpus - used.others.get("yarn.io/gpu", 0),
                    ),
                    labels=tuple(node.labels),
                    notes=notes,
                )
            )
        return found

    def queues(self) -> Sequence[base.Queue]:
        active = self.manager.reports(states=("SUBMITTED", "ACCEPTED", "RUNNING"))
        found = []
        for queue in self.manager.queues().walk():
            if not queue.path.count("."):
                continue  # the root of all others
            theirs = [r for r in active if r.queue in (queue.name, queue.path)]
            running = sum(r.state == "RUNNING" for r in theirs)
            found.append(
                base.Queue(
                    queue.name, running, len(theirs) - running, queue.capacity, queue.used,
                    queue.state.lower(),
                )
            )  # fmt: skip
        return found

    # ---- as people use it -----------------------------------------------------------------------

    def about(self) -> Mapping[str, Any]:
        metrics = self.manager.metrics()
        info = self.cluster.pages.rest("/info").get("clusterInfo", {})
        return {
            "version": info.get("hadoopVersion", ""),
            "nodes": metrics.nodes,
            "queues": [queue.name for queue in self.manager.queues().walk()],
            "notes": [f"HDFS through {self.hdfs.how}"],
        }

    def hand_over(
        self, taken: Taken, progress: Progress, artifacts: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        submission = self.compile(taken.launch)
        if artifacts:
            request = {**submission.request, "artifacts": artifacts}
            submission = submission._replace(request=request)
        report, created, notes = Submitter(self).submit(submission, progress)
        grace, asked = submission.request["grace"], taken.job.stop_grace
        if grace < asked:
            notes.append(f"stop_grace: {asked:g} s, but YARN preempts after {grace:g} s")
        lacks = [f"{key}: {words}" for key, words in lacking(submission.request).items()]
        return {
            "id": submission.id,
            "number": statuses.number_of(report),
            "name": submission.request["name"],
            "state": statuses.status(report, None).state,
            "created": created,
            "notes": [*taken.notes, *notes, *lacks],
            "application": report.id,
            "links": self._links(report, submission.request["tensorboard"]),
        }

    def plan(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return plans.planned(self, self.take(request))

    def find(self, ref: str) -> JobRef:
        if self.manager.reports(tags=[application.tag(ref)]):
            return ref
        mine = self.manager.reports(types=[application.TYPE], users=[self.cluster.user])
        named = [(statuses.number_of(r), id) for r in mine if (id := application.id_of(r.tags))]
        found = references.find(ref, [id for _, id in named], dict(named))
        if found is None and self.staging.read_file(ref, "application") is not None:
            return ref  # YARN has forgotten it; its record is there
        if found is None:
            raise JobNotFound(f"there is no job {ref} on {self.name}")
        return found

    def show(self, ref: str) -> Mapping[str, Any]:
        id = self.find(ref)
        report = self._report(id)
        standing = self._standing(report)
        request = self.request_of(id)
        status = statuses.status(report, standing)
        return {
            "status": {**status._asdict(), "members": [m._asdict() for m in status.members]},
            "request": request,
            "environment": request["environment"],
            "timeline": records.timeline(self.staging, id, report.submitted),
            "outputs": (standing or {}).get("outputs", []),
            "record": f"{self.hdfs.url}{self.staging.record(id)}",
            "work": "",
            "metrics": records.metrics(self.staging, id, runs_of(standing) if standing else []),
            "application": report.id,
            "links": self._links(report, request["tensorboard"]),
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
        id = self.find(ref)
        wanted = Wanted(ranks, members, since, tail, every_run)

        def look() -> Seen:
            report = self._report(id)
            standing = self._standing(report)
            runs = [] if standing is None else runs_of(standing)
            if report.is_terminal:
                return Seen(True, runs)
            live = self.masters.live(report) if report.state == "RUNNING" else None
            ending = standing is not None and states.is_terminal(str(standing["state"]))
            return Seen(False, runs, live, ending)

        return Follower(look, lambda: self._collected(id), wanted).lines(follow=follow)

    def wait(self, ref: str, timeout: float | None = None) -> JobStatus:
        deadline = None if timeout is None else time.monotonic() + timeout
        id = self.find(ref)
        while True:
            status = self.status(id)
            if status.is_terminal:
                return status
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{id} has not ended after {timeout:g} s")
            time.sleep(POLL)

    def run_file(self, ref: str, member: str, run: int, name: str) -> str | None:
        data = self.staging.read_file(self.find(ref), f"{member}.{run}/{name}")
        if data is None:
            return None
        folder = tempfile.mkdtemp(prefix="dromon-run-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # once nobody reads it
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def stop_ref(self, ref: str, grace: float | None = None) -> Mapping[str, Any]:
        id = self.find(ref)
        active = not self._report(id).is_terminal
        if active:
            self.stop(id, grace)
        return {"id": id, "active": active}

    def tend(self) -> Sequence[str]:
        return ()

    def remove(self, refs: Sequence[str]) -> Sequence[JobRef]:
        ids = [self.find(ref) for ref in refs]
        for id in ids:
            if not self._report(id).is_terminal:
                raise Refused(f"{id} is still active", hint=f"`dromon stop {id}` first.")
        for id in ids:
            self.staging.remove_record(id)
        return ids

    def collect(self, older_than: float | None = None, dry_run: bool = False) -> Mapping[str, Any]:
        from dromon.packaging import archive

        active = {status.id for status in self.list(base.Filter())}
        age = KEPT if older_than is None else older_than
        found = collect.collect(self.staging, active.__contains__, older_than=age, dry_run=dry_run)
        freed = found.bytes
        if not dry_run:  # what was packed here for jobs that nobody has repeated for as long
            freed += archive.gc(self.home.cache, set(), older_than=max(age, PACKING))
        return {"removed": found.records, "freed": freed, "dry_run": dry_run}

    # ---- parts ----------------------------------------------------------------------------------

    def _report(self, id: JobRef) -> Report:
        found = self.manager.reports(tags=[application.tag(id)])
        if found:
            return found[0]
        raise JobNotFound(f"YARN does not know the job {id}", hint=ApplicationUnknown.hint)

    def _standing(self, report: Report) -> dict[str, Any] | None:
        return self.masters.standing(report)

    def request_of(self, id: JobRef) -> dict[str, Any]:
        data = self.staging.read_file(id, REQUEST)
        if data is None:
            raise JobNotFound(f"{id} has no record on HDFS any more")
        return dict(json.loads(data))

    def _collected(self, id: JobRef) -> AggregatedLogs | None:
        """What YARN collected, once it has; it may take some seconds after the end."""
        deadline = time.monotonic() + COLLECTING
        report = self._report(id)
        if not report.attempt:
            return None  # nothing of it ever ran
        while report.log_aggregation in ("NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL)
            report = self._report(id)
        return AggregatedLogs(self.hdfs, self.cluster.site, report.user, report.id)

    def _links(self, report: Report, board: object) -> dict[str, str]:
        web = self.cluster.webs[0]
        links = {
            "application": f"{web}/cluster/app/{report.id}",
            "job": f"{web}/proxy/{report.id}/",
        }
        return {**links, "tensorboard": f"{links['job']}tensorboard/"} if board else links


def _amounts(vcores: int, memory: int, gpus: int) -> dict[str, float]:
    return {"cpus": float(vcores), "memory": memory * 2.0**20, "gpus": float(gpus)}
