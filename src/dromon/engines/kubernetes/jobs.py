"""Jobs as the API server, their pods and the store tell of them. Nothing is decided here."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from dromon.engines import references
from dromon.engines.base import JobRef, JobStatus
from dromon.engines.kubernetes import calls, cluster, counted, status, volcano
from dromon.engines.kubernetes import pods as podfacts
from dromon.engines.kubernetes.calls import Call
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.live import Live, Silent
from dromon.engines.kubernetes.pods import PodFacts
from dromon.engines.kubernetes.refusals import ApiError, Conflict, NoVolcano
from dromon.engines.kubernetes.store import Store
from dromon.engines.kubernetes.volcano import CONFIG_MAP, JOB, PLAIN_JOB, POD, SECRET, Kind
from dromon.errors import JobNotFound

Object = dict[str, Any]
IDS = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")  # what may be an object's name
MANY = 500  # pods; of more than that a list takes Volcano's word for how many run
NAMED = 50  # jobs whose pods are asked for by name; of more, those of all jobs


class Jobs:
    """`store`: None where this machine does not see one; `on`: the context's name."""

    def __init__(self, api: Api, namespace: str, store: Store | None, on: str) -> None:
        self.api = api
        self.namespace = namespace
        self.store = store
        self.on = on
        self._keys: dict[str, bytes] = {}
        self._ended_at: dict[str, float] = {}  # when one that waited too long was told to end
        self._said: dict[str, dict[str, Any]] = {}  # by a coordinator, by the uid of its pod
        self._values: dict[str, int] = {}  # of priority classes, as far as they were asked for

    # ---- objects --------------------------------------------------------------------------------

    def all(self) -> list[Object]:
        found: list[Object] = []
        for kind in (JOB, PLAIN_JOB):
            try:
                found += self.api.list(kind, self.namespace, labels=volcano.JOB_LABEL)
            except NoVolcano:
                continue
        return found

    def read(self, id: JobRef) -> Object:
        for kind in (JOB, PLAIN_JOB):
            try:
                found = self.api.read(kind, self.namespace, id)
            except NoVolcano:
                continue
            if found is not None and volcano.JOB_LABEL in found["metadata"].get("labels", {}):
                return found
        raise JobNotFound(f"there is no job {id} on {self.on}")

    def find(self, ref: str) -> Object:
        """By whatever names it."""
        if IDS.fullmatch(ref):
            with contextlib.suppress(JobNotFound):
                return self.read(ref)
        jobs = sorted(self.all(), key=status.submitted, reverse=True)
        by_id = {str(job["metadata"]["name"]): job for job in jobs}
        found = references.find(ref, list(by_id), {})
        if found is None:
            raise JobNotFound(f"there is no job {ref} on {self.on}")
        return by_id[found]

    def pods(self, id: JobRef) -> list[Object]:
        return self.api.list(POD, self.namespace, labels=f"{volcano.JOB_LABEL}={id}")

    def request(self, id: JobRef) -> dict[str, Any]:
        if self.store is not None and (found := self.store.request(id)) is not None:
            return found
        made = self.api.read(CONFIG_MAP, self.namespace, id)
        if made is None:
            raise JobNotFound(f"{id} has no record any more")
        return dict(json.loads(made["data"]["request.json"]))

    # ---- how it stands --------------------------------------------------------------------------

    def status(self, job: Object, pods: list[Object], *, ask: bool = True) -> JobStatus:
        """`ask`: the coordinator itself, where its record is not seen from here."""
        told = self.told(job, pods, _is_ended(job)) if ask or self.store is not None else None
        return self._of(job, podfacts.newest(pods), told)

    def statuses(self, jobs: list[Object]) -> list[JobStatus]:
        """Of a list of them. Of very many the pods are not read: Volcano has counted them."""
        if sum(counted.members(job) for job in jobs if not _is_ended(job)) <= MANY:
            pods = self._pods_of(jobs)
            return [self.status(job, pods.get(str(job["metadata"]["name"]), [])) for job in jobs]
        few = [job for job in jobs if _is_ended(job) or status.is_plain(job)]
        pods = self._pods_of(few)
        own = {id(job) for job in few}
        return [
            self.status(job, pods.get(str(job["metadata"]["name"]), []))
            if id(job) in own
            else self._counted(job)
            for job in jobs
        ]

    def _counted(self, job: Object) -> JobStatus:
        if self.store is None:
            told: dict[str, Any] | None = counted.told(job)
        else:
            told = self.store.status(str(job["metadata"]["name"]))
        return self._of(job, counted.facts(job), told)

    def _pods_of(self, jobs: list[Object]) -> dict[str, list[Object]]:
        """By job. What is over and on record needs none."""
        asked = [
            id
            for job in jobs
            for id in (str(job["metadata"]["name"]),)
            if not (_is_ended(job) and self.store is not None and self.store.status(id))
        ]
        labels = volcano.JOB_LABEL
        if 0 < len(asked) <= NAMED:
            labels = f"{volcano.JOB_LABEL} in ({','.join(asked)})"
        found: dict[str, list[Object]] = {}
        for pod in self.api.list(POD, self.namespace, labels=labels) if asked else ():
            found.setdefault(pod["metadata"]["labels"][volcano.JOB_LABEL], []).append(pod)
        return found

    def _of(self, job: Object, pods: dict[str, PodFacts], told: dict[str, Any] | None) -> JobStatus:
        over = _is_ended(job)
        live, record = (None, told) if over else (told, None)
        found = status.of_facts(job, pods, live, record, self.on, self._priorities(job, pods))
        if not over and not found.attempt:
            self._end_hopeless(job, pods)
        return found

    def know_priorities(self, values: Mapping[str, int]) -> None:
        """Of classes that were asked for already; that of jobs without one is under ""."""
        self._values.update(values)

    def _priorities(self, job: Object, pods: dict[str, PodFacts]) -> dict[str, int]:
        """The values of priority classes, asked for once, and only for a job that has no pods to
        say what they got. A class never changes its value."""
        name = status.class_of(job)
        if name not in self._values and not any(p.priority is not None for p in pods.values()):
            self._values.update(cluster.priorities(self.api))
            self._values.setdefault(name, 0)  # there is none, or we may not look
        return self._values

    def _end_hopeless(self, job: Object, pods: dict[str, PodFacts]) -> None:
        """Whoever looks at a job that has waited longer than it may, or cannot ever start, helps
        Volcano to end it."""
        now = time.time()
        call = calls.overdue(job, now) or calls.unstartable(job, pods)
        id = str(job["metadata"]["name"])
        if call is not None and now > self._ended_at.get(id, 0.0) + calls.LATE:
            self._ended_at[id] = now
            with contextlib.suppress(ApiError):  # we may only look
                self.carry_out(call)

    def told(self, job: Object, pods: list[Object], over: bool) -> dict[str, Any] | None:
        """What its coordinator says, or said last."""
        if self.store is not None:
            return self.store.status(str(job["metadata"]["name"]))
        if over or not any(pod.get("status", {}).get("phase") == "Running" for pod in pods):
            return None
        live = self.live(job, pods)
        (uid,) = [p["metadata"]["uid"] for p in pods if p["metadata"]["name"] == live.pod] or [""]
        try:
            self._said[uid] = live.status()
        except (Silent, ValueError):  # not yet; or the way there is not open for a moment
            return self._said.get(uid)
        return self._said[uid]

    # ---- its coordinator ------------------------------------------------------------------------

    def live(self, job: Object, pods: list[Object]) -> Live:
        id = str(job["metadata"]["name"])
        tasks = (job.get("spec") or {}).get("tasks")
        first = f"{id}-{tasks[0]['name']}-0" if tasks else id
        if not tasks and pods:
            first = str(pods[0]["metadata"]["name"])
        return Live(self.api, self.namespace, first, id, lambda: self._key(id))

    def _key(self, id: JobRef) -> bytes:
        if id not in self._keys:
            found = self.api.read(SECRET, self.namespace, id)
            self._keys[id] = base64.b64decode((found or {}).get("data", {}).get("key", ""))
        return self._keys[id]

    def terminate(self, job: Object) -> None:
        """Without its coordinator: the pods get their grace, and are deleted."""
        if status.is_plain(job):
            name = str(job["metadata"]["name"])
            self.api.patch(PLAIN_JOB, self.namespace, name, {"spec": {"suspend": True}})
        else:
            self.carry_out(calls.command(job, "TerminateJob"))

    def carry_out(self, call: Call) -> None:
        if call.trouble:  # the pods that could tell of it go
            noted = {"metadata": {"annotations": {volcano.TROUBLE: call.trouble}}}
            self.api.patch(JOB, call.namespace, call.job, noted)
        if call.verb == "create":
            self.api.create(call.kind, call.namespace, call.body)
        else:
            with contextlib.suppress(Conflict):  # another of that name: it was done already
                self.api.delete(
                    call.kind, call.namespace, call.name, grace=call.grace, uid=call.uid
                )


def _is_ended(job: Object) -> bool:
    return status.phase(job) in volcano.ENDED


def kind_of(job: Object) -> Kind:
    return PLAIN_JOB if status.is_plain(job) else JOB
