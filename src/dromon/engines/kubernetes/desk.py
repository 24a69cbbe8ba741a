"""Where jobs come in: what the cluster can give, compiling, planning, handing over.

Whoever only looks at jobs does without this module and all that it imports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dromon.engines import base, plans
from dromon.engines.base import JobRef, Progress
from dromon.engines.entry import silent
from dromon.engines.kubernetes import cluster, packing, situation, volcano
from dromon.engines.kubernetes.manifest import LACKS, compile_launch, content_token, lacking
from dromon.engines.kubernetes.nodes import nodes_of, refuse_impossible
from dromon.engines.kubernetes.refusals import ApiError
from dromon.engines.kubernetes.submitting import Submitter
from dromon.engines.kubernetes.target import Target
from dromon.errors import Refused
from dromon.lifecycle import states
from dromon.storage.blobs import BlobStore

if TYPE_CHECKING:
    from dromon.engines.intake import Taken
    from dromon.engines.kubernetes.engine import KubernetesEngine


class Desk:
    def __init__(self, engine: KubernetesEngine) -> None:
        self.engine = engine

    @cached_property
    def target(self) -> Target:
        engine = self.engine
        light = packing.light(engine.home.cache)
        labels = [node.labels for node in self.cluster_nodes or ()]
        found = cluster.target(engine.context, engine.api, engine.namespace, light.digest, labels)
        default = found.priority_classes.get(found.default_priority_class, 0)
        engine.jobs.know_priorities({"": default, **found.priority_classes})
        return found

    @cached_property
    def cluster_nodes(self) -> tuple[situation.Node, ...] | None:
        """As they were when this was made, and as if nobody used them; None: we may not look."""
        return situation.nodes(self.engine.api, is_empty=True)

    def nodes(self) -> Sequence[base.Node]:
        return nodes_of(self.engine.api)

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

    def about(self) -> Mapping[str, Any]:
        api, target = self.engine.api, self.target
        version = api.get("/version")
        notes = [] if target.volcano else ["there is no Volcano: one-pod jobs only"]
        if target.store is None:
            refused = "`outputs:` are" if target.blobs else "`outputs:` and packages are"
            notes.append(f"no store: {refused} refused, logs go with the pods")
        if not target.image:
            notes.append("no image: jobs must name theirs")
        try:
            nodes: int | None = len(api.list(volcano.NODE))
        except ApiError:
            nodes = None
        return {
            "version": version.get("gitVersion", ""), "nodes": nodes, "queues": target.queues,
            "notes": [f"namespace {self.engine.namespace}", *notes],
        }  # fmt: skip

    def compile(self, launch: base.Launch) -> base.Submission:
        return compile_launch(launch, self.target)

    def plan(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        engine = self.engine
        # In a repository the same job file makes the same manifest, another one a job of its own.
        token = content_token(engine.take(request).launch)
        found = plans.planned(engine, engine.take({**request, "token": token}))
        try:
            made = packing.manifest(found["request"], BlobStore(engine.blobs), engine.home.cache)
        except Refused as refused:
            found["notes"].append(f"no manifest to apply without Dromon: {refused.message}")
            return found
        return {**found, "manifest": made}

    def submit(self, submission: base.Submission) -> JobRef:
        self._submitted(submission, silent)
        return submission.id

    def hand_over(
        self, taken: Taken, progress: Progress, artifacts: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        submission = self.compile(taken.launch)
        if artifacts:
            request = {**submission.request, "artifacts": artifacts}
            submission = submission._replace(request=request)
        job, created, notes = self._submitted(submission, progress)
        asked = submission.request
        lacks = [f"{key}: {words}" for key, words in lacking(asked).items()]
        return {
            "id": submission.id,
            "number": 0,
            "name": asked["name"],
            "state": states.QUEUED if created else self.engine.jobs.status(job, []).state,
            "created": created,
            "notes": [*taken.notes, *asked["notes"], *notes, *lacks],
            "application": f"{self.engine.namespace}/{submission.id}",
            "links": {},
        }

    def _submitted(
        self, submission: base.Submission, progress: Progress
    ) -> tuple[dict[str, Any], bool, list[str]]:
        # Where nodes come when they are needed, those of now say nothing.
        if self.engine.context.properties.get("nodes.grow", "") != "yes":
            refuse_impossible(submission.request["objects"][0], self.cluster_nodes)
        return Submitter(self.engine).submit(submission, progress)
