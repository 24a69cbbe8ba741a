"""A controller in the manner of Volcano: whole gangs, restarts on its own, ends by exit code.

It knows pods, their phases and a list of policies of which the first match wins. It has never heard
of attempts, retries or verdicts. All it knows stands in the cluster's store, so that it can be
dropped at any moment and rebuilt.
"""

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from dromon.engines.memory.cluster import FAILED, RUNNING, SUCCEEDED, Cluster, Pod

# Phases of a job, as Volcano calls them.
PENDING, RESTARTING, TERMINATING = "Pending", "Restarting", "Terminating"
COMPLETED, TERMINATED = "Completed", "Terminated"
ENDED = frozenset({COMPLETED, FAILED, TERMINATED})

Object = dict[str, Any]
FOREVER = float("inf")


def action(policies: list[Mapping[str, Any]], pod: Pod) -> str | None:
    """What the first policy that matches says about a pod that is over."""
    event = "PodEvicted" if pod.deleted else "PodFailed"
    for policy in policies:
        if policy.get("exitCode") == pod.code or policy.get("event") == event:
            return str(policy["action"])
    return None


def pending_until(job: Object) -> float:
    limits = [p["timeout"] for p in job["spec"]["policies"] if p.get("event") == "PodPending"]
    return float(job["since"] + min(limits, default=FOREVER))


def members(spec: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], bool]]:
    """(member, its task, whether the gang needs it), the needed of every task first."""
    every = [
        (f"{task['name']}-{index}", task, index < task["minAvailable"])
        for task in spec["tasks"]
        for index in range(task["replicas"])
    ]
    return sorted(every, key=lambda m: not m[2])


class Controller:
    """One thread that looks at everything whenever something has changed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._over = False
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self._thread.start()

    def drop(self) -> None:
        """Gone in the middle of whatever it did; its pods know nothing of it."""
        with self.cluster.changed:
            self._over = True
            self.cluster.changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        with self.cluster.changed:
            while not self._over:
                before = [self.cluster.get(job) for job in self.cluster.jobs()]
                for job in self.cluster.jobs():
                    self._sync(job)
                self._schedule()
                if before == [self.cluster.get(job) for job in self.cluster.jobs()]:
                    self.cluster.changed.wait(self._patience())

    def _patience(self) -> float | None:
        """Seconds until somebody has been pending for too long."""
        times = [pending_until(job) for job in queue(self.cluster) if job["phase"] == PENDING]
        return max(0.0, min(times) - time.time()) if min(times, default=FOREVER) < FOREVER else None

    # ---- one job ------------------------------------------------------------------------------

    def _sync(self, job: str) -> None:
        found = self.cluster.get(job)
        if found is None or found["phase"] in ENDED:
            return
        after = self._advance(found)
        if after["phase"] in ENDED:
            after["ended"] = time.time()
            for path in after["private"]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        if after != self.cluster.get(job):
            self.cluster.put(job, after)

    def _advance(self, job: Object) -> Object:
        pods = self.cluster.pods(job["name"], job["version"])
        alive = [p for p in pods if p.phase == RUNNING]
        if job["phase"] == PENDING:
            is_over = job["terminate"] or time.time() >= pending_until(job)
            return {**job, "phase": TERMINATED} if is_over else job
        if job["phase"] == RUNNING:
            return self._judge(job, pods)
        # Restarting or Terminating: nothing happens until every pod is gone, with its grace.
        for pod in alive:
            self.cluster.delete(pod)
        if alive:
            return job
        if job["phase"] == TERMINATING or job["terminate"]:
            return {**job, "phase": TERMINATED}
        if job["retried"] >= job["spec"]["maxRetry"]:
            return {**job, "phase": FAILED}
        again = {"version": job["version"] + 1, "retried": job["retried"] + 1}
        return {**job, **again, "phase": PENDING, "since": time.time()}

    def _judge(self, job: Object, pods: list[Pod]) -> Object:
        spec = job["spec"]
        for pod in pods:
            if pod.phase == RUNNING or (pod.phase == SUCCEEDED and not pod.deleted):
                continue
            asked = action(spec["policies"], pod)
            if asked == "RestartJob":
                return {**job, "phase": RESTARTING}
            if asked == "TerminateJob":
                return {**job, "phase": TERMINATING}
        if len(pods) == len(members(spec)) and all(p.phase == SUCCEEDED for p in pods):
            return {**job, "phase": COMPLETED}
        return job

    # ---- all jobs -----------------------------------------------------------------------------

    def _schedule(self) -> None:
        """The most important first, then the eldest; a gang that does not fit lets nobody pass."""
        blocked = False
        for job in queue(self.cluster):
            if job["phase"] == RUNNING:
                self._add(job, needed_only=False)
            elif not blocked:
                blocked = lacking(self.cluster, job["spec"]) != {}
                if blocked:
                    self._preempt_for(job)
                else:
                    job = {**job, "phase": RUNNING}
                    self.cluster.put(job["name"], job)
                    self._add(job, needed_only=True)
                    self._add(job, needed_only=False)

    def _preempt_for(self, job: Object) -> None:
        """Take the pods of less important jobs, the least important first, if that is enough."""
        going = [p for j in self.cluster.jobs() for p in self.cluster.pods(j) if p.is_going]
        for victim in reversed(queue(self.cluster)):
            missing = lacking(self.cluster, job["spec"])
            if all(sum(p.resources[n] for p in going) >= missing[n] for n in missing):
                for pod in going:
                    self.cluster.delete(pod)
                return
            spec = victim["spec"]
            if spec["preemptible"] and spec["priority"] < job["spec"]["priority"]:
                going += self.cluster.pods(victim["name"], victim["version"])

    def _add(self, job: Object, needed_only: bool) -> None:
        there = {p.member for p in self.cluster.pods(job["name"], job["version"])}
        ending = any(p.phase != RUNNING for p in self.cluster.pods(job["name"], job["version"]))
        for member, task, needed in members(job["spec"]):
            if member in there or (needed_only and not needed) or (ending and not needed):
                continue
            free = self.cluster.free()
            if all(free[name] >= amount for name, amount in task["resources"].items()):
                self.cluster.create(
                    Pod(
                        job=job["name"],
                        member=member,
                        version=job["version"],
                        resources=task["resources"],
                        grace=task["grace"],
                        command=(*job["spec"]["command"], member),
                    )
                )


def queue(cluster: Cluster) -> list[Object]:
    """Jobs that hold or want room, in the order in which they get it."""
    found = [job for name in cluster.jobs() if (job := cluster.get(name)) is not None]
    wanting = [job for job in found if job["phase"] in (PENDING, RUNNING)]
    return sorted(wanting, key=lambda job: (-job["spec"]["priority"], job["number"]))


def lacking(cluster: Cluster, spec: Mapping[str, Any], empty: bool = False) -> dict[str, float]:
    """How much more of each resource the gang needs than is free (or than there is at all)."""
    room = cluster.total if empty else cluster.free()
    wanted: dict[str, float] = {}
    for _, task, needed in members(spec):
        for name, amount in task["resources"].items():
            wanted[name] = wanted.get(name, 0) + amount * needed
    return {n: round(a - room[n], 6) for n, a in wanted.items() if a > room[n] + 1e-9}
