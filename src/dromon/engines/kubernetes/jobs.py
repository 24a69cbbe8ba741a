"""Jobs as the API server, their pods and the store tell of them. Nothing is decided here."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from dromon.agent.record import runs_among
from dromon.engines.base import JobRef, JobStatus
from dromon.engines.kubernetes import status, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.live import Live, Silent
from dromon.engines.kubernetes.refusals import NotFound
from dromon.engines.kubernetes.store import Store
from dromon.engines.kubernetes.volcano import CONFIG_MAP, JOB, PLAIN_JOB, POD, SECRET, Kind
from dromon.errors import JobNotFound
from dromon.lifecycle import states
from dromon.observe.logs import Source

Object = dict[str, Any]
LOOK = 2.0  # seconds between two questions whether Kubernetes has ended a job


class Jobs:
    """`store`: None where this machine does not see one; `on`: the context's name."""

    def __init__(self, api: Api, namespace: str, store: Store | None, on: str) -> None:
        self.api = api
        self.namespace = namespace
        self.store = store
        self.on = on
        self._keys: dict[str, bytes] = {}
        self._asked: dict[str, float] = {}  # when Kubernetes was last asked whether it is over

    # ---- objects --------------------------------------------------------------------------------

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        try:
            self.api.get(f"/apis/{JOB.group}/{JOB.version}")
        except NotFound:
            return (PLAIN_JOB,)
        return (JOB, PLAIN_JOB)

    def all(self) -> list[Object]:
        return [
            job
            for kind in self._kinds
            for job in self.api.list(kind, self.namespace, labels=volcano.JOB_LABEL)
        ]

    def read(self, id: JobRef) -> Object:
        for kind in self._kinds:
            found = self.api.read(kind, self.namespace, id)
            if found is not None and volcano.JOB_LABEL in found["metadata"].get("labels", {}):
                return found
        raise JobNotFound(f"there is no job {id} on {self.on}")

    def kind(self, id: JobRef) -> Kind:
        return PLAIN_JOB if status.is_plain(self.read(id)) else JOB

    def pods(self, id: JobRef) -> list[Object]:
        return self.api.list(POD, self.namespace, labels=f"{volcano.JOB_LABEL}={id}")

    def pods_of_all(self) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for pod in self.api.list(POD, self.namespace, labels=volcano.JOB_LABEL):
            found.setdefault(pod["metadata"]["labels"][volcano.JOB_LABEL], []).append(pod)
        return found

    def request(self, id: JobRef) -> dict[str, Any]:
        if self.store is not None and (found := self.store.request(id)) is not None:
            return found
        made = self.api.read(CONFIG_MAP, self.namespace, id)
        if made is None:
            raise JobNotFound(f"{id} has no record any more")
        return dict(json.loads(made["data"]["request.json"]))

    # ---- how it stands --------------------------------------------------------------------------

    def status(self, job: Object, pods: list[Object]) -> JobStatus:
        over = status.phase(job) in volcano.ENDED
        told = self.told(job["metadata"]["name"], pods, over)
        live, record = (None, told) if over else (told, None)
        return status.status(job, pods, live, record, self.on)

    def told(self, id: JobRef, pods: list[Object], over: bool) -> dict[str, Any] | None:
        """What its coordinator says, or said last."""
        if self.store is not None:
            return self.store.status(id)
        if over or not any(pod.get("status", {}).get("phase") == "Running" for pod in pods):
            return None
        try:
            return self.live(id).status()
        except (Silent, ValueError):
            return None

    def runs(self, id: JobRef) -> tuple[bool, list[Source]]:
        """Whether it is over, and every run there is. From the record alone as long as that says
        that it goes on; only now and then Kubernetes is asked."""
        assert self.store is not None
        told = self.store.status(id) or {}
        ranks = {m["member"]: m["rank"] for m in told.get("members", ())}
        try:
            names = os.listdir(self.store.record(id).root)
        except FileNotFoundError:
            names = []
        runs = [Source(member, run, ranks.get(member)) for member, run in runs_among(names)]
        return self._is_over(id, told), runs

    def _is_over(self, id: JobRef, told: Mapping[str, Any]) -> bool:
        if states.is_terminal(str(told.get("state", states.QUEUED))):
            return True
        now = time.monotonic()
        if now < self._asked.get(id, 0.0) + LOOK:
            return False
        self._asked[id] = now
        return status.phase(self.read(id)) in volcano.ENDED

    # ---- its coordinator ------------------------------------------------------------------------

    def live(self, id: JobRef) -> Live:
        return Live(self.api, self.namespace, self._first_pod(id), id, lambda: self._key(id))

    def _first_pod(self, id: JobRef) -> str:
        tasks = (self.read(id).get("spec") or {}).get("tasks")
        if tasks:
            return f"{id}-{tasks[0]['name']}-0"
        return next((str(pod["metadata"]["name"]) for pod in self.pods(id)), id)

    def _key(self, id: JobRef) -> bytes:
        if id not in self._keys:
            found = self.api.read(SECRET, self.namespace, id)
            self._keys[id] = base64.b64decode((found or {}).get("data", {}).get("key", ""))
        return self._keys[id]

    def terminate(self, id: JobRef) -> None:
        """Without its coordinator: the pods get their grace, and are deleted."""
        job = self.read(id)
        if status.is_plain(job):
            self.api.patch(PLAIN_JOB, self.namespace, id, {"spec": {"suspend": True}})
            return
        target = {
            "apiVersion": JOB.api_version, "kind": JOB.name, "name": id,
            "uid": job["metadata"]["uid"], "controller": True,
        }  # fmt: skip
        meta = {"generateName": f"{id}-stop-", "labels": {volcano.JOB_LABEL: id}}
        command = {"metadata": meta, "action": "TerminateJob", "target": target}
        self.api.create(volcano.COMMAND, self.namespace, command)
