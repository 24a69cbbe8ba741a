"""Handing a job to YARN: packed, on record, uploaded, claimed, submitted. In this order.

1. The record names its blobs before they are looked for, so that no collector takes them away.
2. Whoever claims the job first submits it; the same id twice is one application. A client that
   died between the two steps is made good by the next one that comes with the id.
"""

from __future__ import annotations

import json
import os
import secrets as chance
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dromon.engines.base import SUBMITTING, JobRef, Progress, Submission
from dromon.engines.yarn import application
from dromon.engines.yarn.am import secrets
from dromon.engines.yarn.manager import ApplicationUnknown
from dromon.engines.yarn.packing import Packed, Packer
from dromon.engines.yarn.possible import refuse_impossible
from dromon.engines.yarn.reports import Report
from dromon.engines.yarn.staging import MTIME, REQUEST
from dromon.errors import Refused
from dromon.hadoop import addresses, delegation
from dromon.hadoop.credentials import Credentials
from dromon.hadoop.sasl import Simple
from dromon.packaging import platforms
from dromon.storage.blobs import BlobStore

if TYPE_CHECKING:
    from dromon.engines.yarn.engine import YarnEngine

# What is uploaded, in words.
NAMES = {
    "light.pyz": "the agent",
    "environment": "the environment",
    "runtime": "the master's Python",
    "code.tar.gz": "the code",
    "function": "the function",
}


class Submitter:
    def __init__(self, engine: YarnEngine) -> None:
        self.engine = engine
        self.cluster = engine.cluster
        self.manager = engine.manager
        self.staging = engine.staging
        self.hdfs = engine.hdfs

    def submit(self, submission: Submission, progress: Progress) -> tuple[Report, bool, list[str]]:
        """The application, whether it is new, and what to tell the user."""
        id, request = submission.id, dict(submission.request)
        earlier = self._claimed(id)
        if earlier is not None:
            return earlier, False, []
        refuse_impossible(request["roles"], self.manager.nodes())
        if not request["preemptible"]:
            self._refuse_preemption(request["queue"])
        context = self.engine.context
        packer = Packer(
            BlobStore(self.engine.blobs), self.engine.home.cache, self.staging,
            context.platform or platforms.DEFAULT, context.python_tarball, dict(os.environ),
        )  # fmt: skip
        packed = packer.pack(request, progress)
        artifacts = {**packed.artifacts, REQUEST: self._own(id)}
        request = {**request, "artifacts": artifacts, "environment": packed.environment}
        key = self._record(id, request, packed)
        for link, (path, artifact) in packed.files.items():
            name = f"uploading {NAMES[link]}"
            self.staging.put(
                path, artifact.digest, artifact.name.partition(".")[2], public=artifact.public,
                progress=lambda done, total, name=name: progress(name, done, total),  # type: ignore[misc]
            )  # fmt: skip
        progress(SUBMITTING, 0, 0)
        app = self.staging.claim(id, self.manager.new_application()[0])
        tokens = secrets.pack(key, dict(submission.supplied), self._tokens(request))
        try:
            report = self.manager.submit(application.context(app, id, request, tokens))
        except Refused:
            self.staging.remove_record(id)  # there is no such job
            raise
        return report, True, list(packed.notes)

    def _refuse_preemption(self, name: str) -> None:
        """Whether a job may be preempted is for its queue to say on YARN."""
        if self.engine.target.preemption_wait is None:
            return
        queues = self.manager.queues().walk()
        queue = next((q for q in queues if name in (q.name, q.path)), None)
        if queue is not None and queue.preempted:
            raise Refused(
                f"preemptible: false, but YARN may preempt whatever is in queue {queue.name}",
                hint="Use a queue with `disable_preemption`, or let the job be preempted.",
            )

    def _claimed(self, id: JobRef) -> Report | None:
        """A job that was submitted under this id before, in whatever way that ended."""
        app = self.staging.read_file(id, "application")
        if app is None:
            return None
        try:
            return self.manager.report(app.decode())
        except ApplicationUnknown:
            return None  # its client died between the two steps; the same name is submitted now

    def _own(self, id: JobRef) -> dict[str, Any]:
        """The request itself, as containers fetch it. YARN does not look at the size."""
        url = f"{self.hdfs.url}{self.staging.record(id)}/{REQUEST}"
        kinds = {"kind": "file", "visibility": "application"}
        return {"url": url, "size": 0, "timestamp": MTIME, **kinds}

    def _record(self, id: JobRef, request: Mapping[str, Any], packed: Packed) -> bytes:
        """Make the job's record, which names its blobs before they are put; gives its key."""
        artifacts = [artifact for _, artifact in packed.files.values()]
        found = self.staging.read_file(id, "key")
        if found is None:
            found = chance.token_hex(32).encode()
            self.staging.create_record(id, request, found, artifacts)
        else:
            self.staging.write_file(id, REQUEST, json.dumps(request).encode())
        self.hdfs.set_times(f"{self.staging.record(id)}/{REQUEST}", MTIME)
        return found

    def _tokens(self, request: Mapping[str, Any]) -> Credentials:
        """Of the default name node and of each that the job names, where they issue any."""
        site, user = self.cluster.site, Simple(self.cluster.user)
        others = [addresses.name_service(site, url) for url in request["hdfs"]]
        renewer = self.cluster.effective("yarn.resourcemanager.principal", "yarn")
        by_ip = delegation.uses_ip(site)
        own = delegation.fetch([self.cluster.name_service], renewer, user, use_ip=by_ip)
        found = own + delegation.fetch(others, renewer, user, use_ip=by_ip)
        return delegation.credentials(found).plus(secrets.default_token(own))
