"""All jobs of a namespace, for who lists them again and again: watched, and worked out anew only
where something has changed. Whoever lists once does without."""

from __future__ import annotations

import os
import time
from typing import Any

from dromon.engines.base import JobStatus
from dromon.engines.kubernetes import status, volcano
from dromon.engines.kubernetes.jobs import Jobs
from dromon.engines.kubernetes.volcano import JOB, PLAIN_JOB, POD
from dromon.engines.kubernetes.watch import Following, Watch

ASK = 15.0  # seconds after which a coordinator without a record we see is asked again

Object = dict[str, Any]


class Overview:
    def __init__(self, jobs: Jobs, *, volcano_is_there: bool) -> None:
        kinds = (JOB, PLAIN_JOB) if volcano_is_there else (PLAIN_JOB,)
        api, namespace = jobs.api, jobs.namespace
        self._jobs = jobs
        self._of_jobs = [Watch(api, kind, namespace, volcano.JOB_LABEL) for kind in kinds]
        self._of_pods = Watch(api, POD, namespace, volcano.JOB_LABEL, keep=_needed)
        for watch in (*self._of_jobs, self._of_pods):
            watch.load()
        self._pods: dict[str, dict[str, Object]] = {}  # of each job, by name
        for pod in self._of_pods.objects.values():
            self._pods.setdefault(_job_of(pod), {})[pod["metadata"]["name"]] = pod
        self._following = Following(*self._of_jobs, self._of_pods)
        self._known: dict[str, tuple[JobStatus, Any]] = {}  # and what it was worked out from

    def close(self) -> None:
        self._following.close()

    def jobs(self) -> list[Object]:
        """As they are now; an error where that is not known any more."""
        while (heard := self._following.next(0)) is not None:
            watch, change = heard
            id = _job_of(change.object)
            self._known.pop(id, None)
            if watch is self._of_pods:
                self._hear_of_pod(id, change.type, change.object)
        return [job for watch in self._of_jobs for job in list(watch.objects.values())]

    def status(self, job: Object) -> JobStatus:
        id = str(job["metadata"]["name"])
        mark = self._mark(id, job)
        known = self._known.get(id)
        if known is None or known[1] != mark:
            pods = list(self._pods.get(id, {}).values())
            known = self._known[id] = (self._jobs.status(job, pods), mark)
        return known[0]

    def _mark(self, id: str, job: Object) -> Any:
        """What changes when there may be something new that Kubernetes does not tell of."""
        if status.phase(job) in volcano.ENDED:
            return None
        if self._jobs.store is None:
            return int(time.monotonic() / ASK)
        try:
            return os.stat(self._jobs.store.record(id).status).st_mtime_ns
        except OSError:
            return 0

    def _hear_of_pod(self, id: str, how: str, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if how != "DELETED":
            self._pods.setdefault(id, {})[name] = pod
        elif id in self._pods:
            self._pods[id].pop(name, None)
            if not self._pods[id]:
                del self._pods[id]


def _job_of(item: Object) -> str:
    return str(item["metadata"]["labels"][volcano.JOB_LABEL])


def _needed(pod: Object) -> Object:
    """Of a pod, what its job's status is made of: a tenth of it."""
    about, spec, state = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    kept = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
    containers = [
        {key: one[key] for key in ("name", "resources", "image") if key in one}
        for one in spec.get("containers") or ()
    ]
    return {
        "metadata": {key: about[key] for key in kept if key in about},
        "spec": {
            "containers": containers,
            **{key: spec[key] for key in ("nodeName", "priority") if key in spec},
        },
        "status": {key: value for key, value in state.items() if key not in _LEFT_OUT},
    }


_LEFT_OUT = frozenset({"hostIPs", "podIPs", "hostIP", "qosClass", "startTime"})
