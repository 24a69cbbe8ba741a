"""The ResourceManager as a client sees it: applications, queues, nodes. Values in and out.

Each refusal that a user can cause becomes one error of ours, with what to do about it. What
an application is made of is ``compile``'s; why one waits is ``why``'s.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from dromon.engines.yarn import reports
from dromon.engines.yarn.am.asks import Size
from dromon.engines.yarn.cluster import Cluster
from dromon.engines.yarn.reports import (
    YOUNG,
    ApplicationId,
    Attempt,
    Container,
    Metrics,
    Node,
    Queue,
    Report,
)
from dromon.errors import DromonError, EngineError, JobNotFound, Refused
from dromon.hadoop import ids
from dromon.hadoop.failover import Policy
from dromon.hadoop.messages.client import APPLICATION_CLIENT
from dromon.hadoop.messages.enums import ApplicationState, NodeState
from dromon.hadoop.protobuf import Record
from dromon.hadoop.sasl import Simple
from dromon.hadoop.transport import RpcClient, RpcFailed, Unreachable

# A person waits for the answer: short, but long enough for a failover.
POLICY = Policy(base=0.2, cap=2.0, patience=5.0)
SETTLING = 20.0  # seconds for the scheduler to take or refuse what was submitted
KILLING = 60.0
_PRINTED = {"memory-mb": "memory", "vcores": "vCores"}  # a resource type in YARN's messages


class ApplicationUnknown(JobNotFound):
    """The cluster does not know this application."""

    hint = (
        "YARN forgets finished applications after a while; a ResourceManager without recovery"
        " forgets all of them when it restarts."
    )


class NoPermission(Refused):
    """The cluster does not let this user do it."""


class QueueUnknown(Refused):
    """There is no such queue."""

    hint = "List queues with `dromon queues`."


class QueueClosed(Refused):
    """The queue takes nothing at the moment."""

    hint = "Use another queue (`dromon queues`), or try again later."


class LabelUnknown(Refused):
    """The node label does not exist, or the queue may not use it."""


class TooLarge(Refused):
    """More than the cluster gives to anybody."""

    hint = "Ask for less; `dromon nodes` shows what there is."


class Manager:
    def __init__(self, cluster: Cluster, policy: Policy = POLICY) -> None:
        self.cluster = cluster
        self._rpc = RpcClient(
            APPLICATION_CLIENT,
            cluster.clients,
            Simple(cluster.user),
            what="ResourceManager",
            policy=policy,
        )

    def close(self) -> None:
        self._rpc.close()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- applications

    def new_application(self) -> tuple[ApplicationId, Size]:
        """An id to submit under, and the largest container. Just after the ResourceManager has
        started the size is not yet the real one: do not refuse a job on it."""
        answer = self._call("getNewApplication")
        largest = Size.from_message(answer["maximum_capability"])
        return ids.application(answer["application_id"]), largest

    def submit(self, context: Mapping[str, Any]) -> Report:
        """Submit (table APPLICATION_SUBMISSION_CONTEXT), and wait until the scheduler took it.

        The same id twice is one application, so a broken connection is no obstacle. YARN takes
        everything at first and refuses some of it a moment later, as a failed application.
        """
        app, queue = ids.application(context["application_id"]), context.get("queue", "default")
        # Hadoop's own clients write tags in lower case, and look for nothing else.
        tags = [tag.lower() for tag in context.get("application_tags", ())]
        context = {**context, "application_tags": tags}
        self._call("submitApplication", {"application_submission_context": context}, queue=queue)
        deadline = time.monotonic() + SETTLING
        while True:
            found = self.report(app)
            if found.state == "FAILED" and not found.attempt:
                raise self._refusal("", found.diagnostics, queue)
            if found.state not in YOUNG or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def report(self, app: ApplicationId) -> Report:
        message = {"application_id": ids.parse_application(app)}
        answer = self._call("getApplicationReport", message, app=app)
        return reports.report(answer["application_report"])

    def reports(
        self,
        *,
        tags: Iterable[str] = (),
        users: Iterable[str] = (),
        states: Iterable[str] = (),
        queues: Iterable[str] = (),
        types: Iterable[str] = (),
        limit: int | None = None,
    ) -> list[Report]:
        """Applications that have one of each list that is not empty, the newest first."""
        message: dict[str, Any] = {
            "application_tags": [tag.lower() for tag in tags],
            "users": list(users),
            "queues": list(queues),
            "application_types": list(types),
            "application_states": [ApplicationState[state] for state in states],
        }
        if limit is not None:
            message["limit"] = limit
        answer = self._call("getApplications", message)
        found = [reports.report(one) for one in answer["applications"]]
        return sorted(found, key=lambda one: (one.submitted, one.id), reverse=True)

    def kill(self, app: ApplicationId, why: str = "") -> None:
        """Returns when it is dead. One that has ended already is left as it is."""
        message = {"application_id": ids.parse_application(app), "diagnostics": why}
        deadline = time.monotonic() + KILLING
        while not self._call("forceKillApplication", message, app=app)["is_kill_completed"]:
            if time.monotonic() > deadline:
                raise EngineError(
                    f"{app} did not end within {KILLING:.0f} s of being killed",
                    hint="The ResourceManager goes on trying; look again with `dromon show`.",
                )
            time.sleep(0.1)

    def move(self, app: ApplicationId, queue: str) -> None:
        message = {"application_id": ids.parse_application(app), "target_queue": queue}
        self._call("moveApplicationAcrossQueues", message, app=app, queue=queue)

    def set_priority(self, app: ApplicationId, priority: int) -> int:
        """The priority it has now: the cluster's maximum, where more was asked."""
        message = {
            "application_id": ids.parse_application(app),
            "application_priority": {"priority": priority},
        }
        answer = self._call("updateApplicationPriority", message, app=app)
        return int(answer["application_priority"]["priority"])

    def attempts(self, app: ApplicationId) -> list[Attempt]:
        message = {"application_id": ids.parse_application(app)}
        answer = self._call("getApplicationAttempts", message, app=app)
        found = (reports.attempt(one) for one in answer["application_attempts"])
        return sorted(found, key=lambda one: one.number)

    def containers(self, app: ApplicationId, attempt: int) -> list[Container]:
        """Those of an attempt that live; of ended ones the ResourceManager keeps few or none."""
        of = {"application_id": ids.parse_application(app), "attempt_id": attempt}
        answer = self._call("getContainers", {"application_attempt_id": of}, app=app)
        found = (reports.container(one) for one in answer["containers"])
        return sorted(found, key=lambda one: one.id)

    # --- the cluster

    def queues(self) -> Queue:
        """The root, with all queues below it."""
        message = {
            "queue_name": "root",
            "include_applications": False,
            "include_child_queues": True,
            "recursive": True,
        }
        answer = self._call("getQueueInfo", message)
        rights = {
            one["queue_name"]: frozenset(one["user_acls"])
            for one in self._call("getQueueUserAcls")["queue_user_acls"]
        }
        return reports.queue(answer["queue_info"], rights)

    def nodes(self, states: Iterable[str] = ()) -> list[Node]:
        """All nodes the ResourceManager remembers, lost ones too, or those in these states."""
        message = {"node_states": [NodeState[state] for state in states]}
        found = (
            reports.node(one) for one in self._call("getClusterNodes", message)["node_reports"]
        )
        return sorted(found, key=lambda one: one.id)

    def labels(self) -> dict[str, bool]:
        """Node labels, and whether each is exclusive: its nodes take only who asks for it."""
        answer = self._call("getClusterNodeLabels")
        return {one["name"]: one["is_exclusive"] for one in answer["node_labels"]}

    def metrics(self) -> Metrics:
        return reports.metrics(self._call("getClusterMetrics")["cluster_metrics"])

    # --- errors

    def _call(
        self,
        method: str,
        message: Mapping[str, Any] | None = None,
        *,
        app: str = "",
        queue: str = "",
    ) -> Record:
        try:
            return self._rpc.call(method, message)
        except RpcFailed as failed:
            if failed.name == "ApplicationNotFoundException":
                raise ApplicationUnknown(f"the cluster knows no {app}") from None
            if "authentication is not enabled" in failed.text:
                raise  # the wrong port, or the wrong cluster
            refusal = self._refusal(failed.name, failed.text, queue)
            if type(refusal) is Refused and failed.name != "YarnException":
                raise  # not of the user's making, as far as we can tell
            raise refusal from None
        except Unreachable as failed:
            raise type(failed)(str(failed), hint=self._whence()) from None

    def _whence(self) -> str:
        return (
            f"The address comes from {self.cluster.source}: check it, and that the ResourceManager"
            " runs."
        )

    def _refusal(self, name: str, text: str, queue: str) -> DromonError:
        """What YARN's words mean. ``name``: the Java exception, where there was one."""
        words = _first_sentence(text)
        if re.search(r"unknown queue|not exist|n't exist|non-leaf queue|not a leaf", text):
            return self._no_such_queue(queue, words)
        # These two come as AccessControlException as well.
        if re.search(r"\b(STOPPED|DRAINING)\b", text):
            return QueueClosed(f"queue {queue} is stopped and takes no new job")
        if full := re.search(r"already has (\d+) applications( from user)?", text):
            whose = f" of {self.cluster.user}" if full[2] else ""
            return QueueClosed(
                f"queue {queue} has {full[1]} applications{whose} already, as many as it takes"
            )
        if "AccessControlException" in name + text or "does not have permission" in text:
            return NoPermission(
                f"{self.cluster.user} may not do that: {words}",
                hint="Ask whoever runs the cluster, or use a queue that `dromon queues` shows as"
                " open to you.",
            )
        if name == "InvalidLabelResourceRequestException" or "Invalid label" in text:
            known = ", ".join(self.labels()) or "none"
            return LabelUnknown(
                f"the cluster refused the node label: {words}", hint=f"Labels it has: {known}."
            )
        if "InvalidResourceRequest" in name + text:
            return TooLarge(_too_large(text) or f"the cluster cannot give that: {words}")
        return Refused(f"the cluster refused it: {words}")

    def _no_such_queue(self, queue: str, words: str) -> DromonError:
        try:
            known = [one for one in self.queues().walk() if not one.children]
        except EngineError:
            return QueueUnknown(f"there is no queue {queue}: {words}")
        names = [one.name for one in known]
        close = difflib.get_close_matches(queue, names, 1)
        hint = f"Did you mean {close[0]}? " if close else ""
        return QueueUnknown(
            f"there is no queue {queue} to submit to", hint=f"{hint}Queues: {', '.join(names)}."
        )


def _too_large(text: str) -> str:
    """Which figure is over which limit, out of YARN's long sentence; empty where it has none."""
    kind = re.search(r"Requested resource type=\[([^]]+)\]", text)
    sizes = re.search(r"Requested resource=<([^>]*)>, maximum allowed allocation=<([^>]*)>", text)
    if kind is None or sizes is None:
        return ""
    asked, most = (
        dict(re.findall(r"([\w./-]+): ?(\d+)", size)).get(_PRINTED.get(kind[1], kind[1]), "0")
        for size in sizes.groups()
    )
    what = {"memory-mb": "MB of memory", "vcores": "cores"}.get(kind[1], kind[1])
    return f"{asked} {what} are asked for; the largest container here has {most}"


def _first_sentence(text: str) -> str:
    """YARN's diagnostics, without the Java class names and traces around them."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return re.sub(r"^(?:[\w$]+\.)+[\w$]*(?:Exception|Error):\s*", "", line)
