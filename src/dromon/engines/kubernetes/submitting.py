"""Handing a job to Kubernetes: packed, on record, sent, made. In this order.

1. The record names its blobs before they are looked for, so that no collector takes them away.
2. What the pods mount is there before the Job; the Job's name is its id, so that whoever makes it
   first has submitted it. A client that died before that is made good by the next with the id.
3. Then all of it belongs to the Job, and goes when the Job goes: the ConfigMap with the request to
   the Job, the Secret and the code to that ConfigMap, whose uid is known before there is a Job.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dromon.engines.base import SUBMITTING, Progress, Submission
from dromon.engines.kubernetes import carriers, packing, volcano
from dromon.engines.kubernetes.pod.places import CODE, ENVIRONMENT, FUNCTION
from dromon.engines.kubernetes.refusals import AlreadyExists, NotFound
from dromon.engines.kubernetes.volcano import CONFIG_MAP, JOB, PLAIN_JOB, SECRET, Kind
from dromon.storage.blobs import BlobStore

if TYPE_CHECKING:
    from dromon.engines.kubernetes.bucket import Bucket
    from dromon.engines.kubernetes.engine import KubernetesEngine

NAMES = {
    ENVIRONMENT: "the environment",
    CODE: "the code",
    FUNCTION: "the function",
}


class Submitter:
    def __init__(self, engine: KubernetesEngine) -> None:
        self.engine = engine
        self.api = engine.api
        self.namespace = engine.namespace

    def submit(
        self, submission: Submission, progress: Progress
    ) -> tuple[dict[str, Any], bool, list[str]]:
        """The Job, whether it is new, and what to tell the user."""
        id, request = submission.id, dict(submission.request)
        kind = JOB if request["volcano"] else PLAIN_JOB
        store = self.engine.store
        bucket = _bucket(request)
        packed = packing.pack(
            request, BlobStore(self.engine.blobs), self.engine.home.cache, progress,
            platform=self.engine.context.platform,
            is_there=store.blobs() if store and bucket is None else {},
        )  # fmt: skip
        request |= {"artifacts": packed.artifacts, "environment": packed.environment}
        maps: list[dict[str, Any]] = []
        if store is not None:
            store.create_record(id, request)
        holder = bucket or store
        if holder is not None:
            for name, path in packed.files.items():
                words = f"uploading {NAMES[name]}"
                holder.put(
                    path, packed.artifacts[name]["blob"],
                    lambda done, total, words=words: progress(words, done, total),  # type: ignore[misc]
                )  # fmt: skip
        elif packed.files:
            contents = {}
            for name, path in packed.files.items():
                with open(path, "rb") as file:
                    contents[name] = file.read()
            maps = carriers.code_maps(id, request, contents)
            request["objects"] = carriers.with_parts(request["objects"], id, len(maps))
        progress(SUBMITTING, 0, 0)
        if not self.engine.has_put_light:
            self._put_light(request)
        made = self._made(CONFIG_MAP, carriers.request_map(id, request))
        earlier = made is None
        if made is None:  # somebody was here before us
            found = self.api.read(kind, self.namespace, id)
            made = self.api.read(CONFIG_MAP, self.namespace, id)
            assert made is not None
            if found is not None:
                if not made["metadata"].get("ownerReferences"):  # it died between the two
                    self._own(found, kind, request)
                return found, False, []
        for one in maps:
            self._made(CONFIG_MAP, _owned(one, CONFIG_MAP, made))
        key = secrets.token_hex(32)
        reach = bucket.reach if bucket is not None else None
        secret = carriers.secret(id, request, key, submission.supplied, reach)
        self._made(SECRET, _owned(secret, CONFIG_MAP, made))
        try:
            job = self.api.create(kind, self.namespace, request["objects"][0], repeatable=True)
        except AlreadyExists:
            found = self.api.read(kind, self.namespace, id)
            assert found is not None
            return found, False, []
        except BaseException:
            if not earlier:
                self._clear(id, [one["metadata"]["name"] for one in maps])
            raise
        self._own(job, kind, request)
        return job, True, list(packed.notes)

    def _made(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """None: it was there already."""
        try:
            return self.api.create(kind, self.namespace, body, repeatable=True)
        except AlreadyExists:
            return None

    def _put_light(self, request: Mapping[str, Any]) -> None:
        """Shared by all jobs of this version of Dromon in the namespace."""
        name = str(request["light"])
        labels = f"{volcano.LIGHT_LABEL}={name.rpartition('-')[2]}"
        if not self.api.list_names(CONFIG_MAP, self.namespace, labels=labels):
            light = packing.light(self.engine.home.cache)
            with open(light.path, "rb") as file:
                self._made(CONFIG_MAP, carriers.light_map(self.namespace, name, file.read()))

    def _own(self, job: Mapping[str, Any], kind: Kind, request: Mapping[str, Any]) -> None:
        body = {"metadata": {"ownerReferences": [_owner(kind, job)]}}
        self.api.patch(CONFIG_MAP, self.namespace, job["metadata"]["name"], body, "strategic")
        light = str(request["light"])
        try:
            self.api.patch(CONFIG_MAP, self.namespace, light, body, "strategic")
        except NotFound:  # its last job went at this very moment
            self._put_light(request)
            self.api.patch(CONFIG_MAP, self.namespace, light, body, "strategic")
        self.engine.has_put_light = True  # and should it go again, the next job finds out here

    def _clear(self, id: str, maps: list[str]) -> None:
        """There is no such job."""
        for name in (id, *maps):
            self.api.delete(CONFIG_MAP, self.namespace, name)
        self.api.delete(SECRET, self.namespace, id)
        if self.engine.store is not None:
            self.engine.store.remove_record(id)


def _bucket(request: Mapping[str, Any]) -> Bucket | None:
    """Where code and environments go, if that is no directory."""
    if not request["blobs"]:
        return None
    from dromon.engines.kubernetes.bucket import Bucket  # with all of urllib: few need it

    return Bucket(request["blobs"], os.environ)


def _owner(kind: Kind, owner: Mapping[str, Any]) -> dict[str, str]:
    about = owner["metadata"]
    return {
        "apiVersion": kind.api_version, "kind": kind.name, "name": about["name"],
        "uid": about["uid"],
    }  # fmt: skip


def _owned(body: Mapping[str, Any], kind: Kind, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The same, which goes when its owner goes."""
    about = {**body["metadata"], "ownerReferences": [_owner(kind, owner)]}
    return {**body, "metadata": about}
