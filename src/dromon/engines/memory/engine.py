"""The client's side of the memory engine: what the cluster and the record say, as the protocol.

Holds nothing of its own: any number of these may come and go over one cluster and one home.
"""

import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dromon.agent.record import Record
from dromon.engines import base
from dromon.engines.base import JobRef, JobStatus, Waiting
from dromon.engines.gang import member_status
from dromon.engines.memory import controller
from dromon.engines.memory.cluster import RUNNING, Cluster
from dromon.engines.memory.controller import ENDED, PENDING, RESTARTING
from dromon.engines.memory.request import compile_launch
from dromon.engines.memory.shell import replayed, write_whole
from dromon.errors import JobNotFound, Refused
from dromon.lifecycle import states
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.verdict import Verdict
from dromon.observe.logs import RecordLogs, Source

POLL = 0.03
NAMES = {"cpus": "CPUs", "memory": "bytes of memory", "gpus": "GPUs"}


class MemoryEngine:
    def __init__(self, cluster: Cluster, home: str) -> None:
        self.cluster = cluster
        self.home = home

    def probe(self) -> base.Capabilities:
        return base.Capabilities("memory", gang="volcano", resources=self.cluster.total, grace=None)

    def compile(self, launch: base.Launch) -> base.Submission:
        return compile_launch(launch)

    def submit(self, submission: base.Submission) -> JobRef:
        id, request = submission.id, dict(submission.request)
        with self.cluster.changed:
            if self.cluster.get(id) is not None:
                return id
            lacking = controller.lacking(self.cluster, request, empty=True)
            if lacking:
                wanted = {n: lacking[n] + self.cluster.total[n] for n in lacking}
                words = [
                    f"{wanted[n]:g} {NAMES[n]} at once and there are {self.cluster.total[n]:g}"
                    for n in lacking
                ]
                raise Refused(
                    f"{id} can never run here: it needs {'; '.join(words)}",
                    hint="Ask for less; nodes() says what there is.",
                )
            private = self._lay_out(submission)
            self.cluster.put(
                id,
                {
                    "name": id,
                    "number": len(self.cluster.jobs()) + 1,
                    "submitted": (now := time.time()),
                    "since": now,
                    "spec": {**request, "command": self._command(id)},
                    "phase": PENDING,
                    "version": 1,
                    "retried": 0,
                    "terminate": False,
                    "private": private,
                    "ended": None,
                },
            )
        return id

    def status(self, ref: JobRef) -> JobStatus:
        job = self._job(ref)
        spec = job["spec"]
        gang = replayed(self._record(ref), spec)
        # Read in this order: a gang that is over is over for good, a phase may be old.
        job = self._job(ref)
        ended = job["ended"]
        state, verdict = _outcome(job, gang)
        return JobStatus(
            id=ref,
            number=job["number"],
            name=spec["name"],
            state=state,
            engine="memory",
            queue=spec["queue"],
            priority=spec["priority"],
            submitted=job["submitted"],
            started=gang.started,
            ended=ended,
            attempt=gang.attempt,
            user=spec["facts"].get("inherited", {}).get("USER", ""),
            verdict=None if ended is None else verdict.to_json(),
            members=tuple(member_status(name, m) for name, m in gang.members.items()),
        )

    def list(self, where: base.Filter) -> Sequence[JobStatus]:
        found = [self.status(ref) for ref in self.cluster.jobs()]
        found = [
            s
            for s in found
            if not (where.active_only and s.is_terminal) and where.name in (None, s.name)
        ]
        return found if where.limit is None else found[-where.limit :]

    def watch(self, ref: JobRef) -> Iterator[JobStatus]:
        last = None
        while last is None or not last.is_terminal:
            status = self.status(ref)
            if status != last:
                yield status
            last = status
            time.sleep(POLL)

    def why(self, ref: JobRef) -> Waiting | None:
        job = self._job(ref)
        if job["phase"] in ENDED:
            return None
        if job["phase"] == PENDING:
            return self._why_pending(job)
        gang = replayed(self._record(ref), job["spec"])
        if job["phase"] == RESTARTING:
            return Waiting("a pod was lost; the others are being ended first", "barrier")
        if gang.state == states.RESTARTING:
            return Waiting("waits before it tries again", "backoff")
        if gang.state in (states.QUEUED, states.STARTING):
            return Waiting("its members are on their way to the barrier", "barrier")
        return None

    def _why_pending(self, job: dict[str, Any]) -> Waiting:
        missing = controller.lacking(self.cluster, job["spec"])
        line = [other["name"] for other in controller.queue(self.cluster)]
        waiting = [
            name
            for name in line
            if (other := self.cluster.get(name)) is not None and other["phase"] == PENDING
        ]
        holders = tuple(
            name for name in line if any(p.phase == RUNNING for p in self.cluster.pods(name))
        )
        position = waiting.index(job["name"]) + 1 if job["name"] in waiting else None
        amounts = ", ".join(f"{missing[n]:g} {NAMES[n]}" for n in missing) or "its turn"
        held = f", held by {', '.join(holders)}" if holders else ""
        return Waiting(f"waits for {amounts}{held}", "resources", position, holders, missing)

    def stop(self, ref: JobRef, grace: float | None = None) -> None:
        with self.cluster.changed:
            job = self._job(ref)
            if job["phase"] in ENDED:
                return
            # The coordinator hears of it if there is one, and the controller if there is none.
            write_whole(self._record(ref).path("stop.json"), {"by": "", "grace": grace})
            self.cluster.put(ref, {**job, "terminate": True})

    def logs(self, ref: JobRef, follow: bool) -> Iterator[base.LogLine]:
        self._job(ref)
        return self._lines(ref, follow)

    def _lines(self, ref: JobRef, follow: bool) -> Iterator[base.LogLine]:
        record = self._record(ref)
        logs = RecordLogs(record.root)
        while True:
            status = self.status(ref)  # before the reading: what is over then is read whole
            ranks = {m.member: m.rank for m in status.members}
            logs.add(Source(member, run, ranks.get(member)) for member, run in logs.runs())
            is_last = status.is_terminal or not follow
            for line in logs.finish() if is_last else logs.read():
                yield base.LogLine(*line)
            if is_last:
                return
            time.sleep(POLL)

    def nodes(self) -> Sequence[base.Node]:
        return [base.Node("pretend", self.cluster.total, self.cluster.free())]

    def queues(self) -> Sequence[base.Queue]:
        phases = [job["phase"] for r in self.cluster.jobs() if (job := self.cluster.get(r))]
        running = sum(phase not in ENDED and phase != PENDING for phase in phases)
        return [base.Queue("default", running, phases.count(PENDING))]

    # ---- parts --------------------------------------------------------------------------------

    def _job(self, ref: JobRef) -> dict[str, Any]:
        job = self.cluster.get(ref)
        if job is None:
            raise JobNotFound(f"there is no job {ref}")
        return job

    def _record(self, ref: JobRef) -> Record:
        return Record(os.path.join(self.home, "jobs", ref))

    def _command(self, id: str) -> Sequence[str]:
        return ["-m", "dromon.engines.memory.pod", self.home, id]

    def _lay_out(self, submission: base.Submission) -> Sequence[str]:
        """The record before the first pod; gives the paths that are to go when the job ends."""
        record = self._record(submission.id)
        for folder in (record.root, record.checkpoints):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        write_whole(record.request, submission.request)
        write_whole(record.config, submission.request["config"])
        private = {record.key: secrets.token_hex(32)}
        if submission.supplied:
            private[record.path("secret")] = json.dumps(dict(submission.supplied))
        for path, text in private.items():
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(text)
        return [*private]


def _outcome(job: dict[str, Any], gang: Gang) -> tuple[str, Verdict]:
    """The job's state and, should it be over, its verdict, from what the two layers say."""
    phase = job["phase"]
    if gang.is_terminal:
        assert gang.verdict is not None
        # Until the controller has seen the pods end, their room is not free.
        return (gang.state if phase in ENDED else states.STOPPING), gang.verdict
    if phase == controller.TERMINATED and job["terminate"]:
        return states.STOPPED, Verdict("stopped", "stopped while it had no pods")
    if phase == controller.TERMINATED:
        return states.FAILED, Verdict("timeout", "was queued for too long")
    if phase in ENDED:
        return states.FAILED, Verdict("internal", f"the controller gave up: {phase}")
    if phase == PENDING:
        return states.QUEUED, Verdict("internal", "")
    if phase == RESTARTING:
        return states.RESTARTING, Verdict("internal", "")
    state = states.STARTING if gang.state == states.QUEUED else gang.state
    return state, Verdict("internal", "")
