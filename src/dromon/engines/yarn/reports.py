"""What the ResourceManager tells of applications, containers, queues and nodes, as values.

Made from RPC's records; times are seconds since 1970, None where there is none yet. No calls here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from dromon.engines.yarn.am.asks import Size
from dromon.hadoop import ids
from dromon.hadoop.messages.enums import (
    ApplicationState,
    AttemptState,
    ContainerState,
    FinalStatus,
    LogAggregationStatus,
    NodeState,
    QueueAcl,
    QueueState,
    TimeoutType,
)

ApplicationId = str  # application_1700000000000_0007
GPU = "yarn.io/gpu"
ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
YOUNG = frozenset({"NEW", "NEW_SAVING", "SUBMITTED"})  # the scheduler has not taken it yet
NOTHING = Size(0, 0)


@dataclass(frozen=True)
class Report:
    """An application, as its ResourceManager sees it."""

    id: ApplicationId
    name: str
    user: str
    queue: str
    type: str
    state: str  # NEW, NEW_SAVING, SUBMITTED, ACCEPTED, RUNNING, FINISHED, FAILED, KILLED
    final_status: str  # UNDEFINED, SUCCEEDED, FAILED, KILLED, ENDED
    diagnostics: str
    tags: tuple[str, ...]
    priority: int
    host: str  # of the ApplicationMaster, as it registered; empty before
    port: int
    tracking_url: str  # through YARN's proxy
    original_tracking_url: str  # as the ApplicationMaster named it
    attempt: int  # 0 before the first
    submitted: float
    launched: float | None  # when the ApplicationMaster's container started
    ended: float | None
    progress: float
    used: Size
    reserved: Size
    needed: Size
    containers: int
    reserved_containers: int
    label: str  # of its containers by default
    master_label: str  # of the ApplicationMaster's container
    unmanaged: bool
    log_aggregation: str  # DISABLED, NOT_START, RUNNING, SUCCEEDED, FAILED, TIME_OUT, …; empty
    expires: str  # when its lifetime ends, ISO 8601 as YARN writes it; empty: never
    preempted_memory_seconds: int = 0

    @property
    def is_terminal(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True)
class Attempt:
    """One ApplicationMaster."""

    number: int
    state: str
    container: str  # its own; empty before it has one
    host: str
    port: int
    diagnostics: str
    tracking_url: str
    started: float | None
    ended: float | None


@dataclass(frozen=True)
class Container:
    """A container of an application, its ApplicationMaster's included."""

    id: str
    node: str
    node_web: str
    size: Size
    priority: int
    state: str  # NEW, RUNNING, COMPLETE
    exit: int
    diagnostics: str
    log_url: str
    created: float | None
    ended: float | None


@dataclass(frozen=True)
class Queue:
    """Shares are of the parent; ``used`` is of the queue's own capacity and may be over 1."""

    name: str
    path: str  # root.research; the bare name where YARN is too old to tell
    capacity: float
    maximum: float
    used: float
    state: str  # RUNNING, STOPPED, DRAINING
    running: int
    pending: int
    allocated: Size
    waiting: Size
    labels: tuple[str, ...]
    default_label: str
    may_submit: bool
    may_administer: bool
    preempted: bool = True  # may other queues, or its own applications, take containers from it?
    children: tuple[Queue, ...] = ()

    def walk(self) -> Iterator[Queue]:
        """This queue and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Node:
    id: str  # host:port
    state: str  # RUNNING, UNHEALTHY, LOST, DECOMMISSIONED, …
    total: Size
    used: Size
    containers: int
    labels: tuple[str, ...]
    rack: str
    web: str
    health: str

    @property
    def is_usable(self) -> bool:
        return self.state == "RUNNING"

    @property
    def gpus(self) -> int:
        return self.total.others.get(GPU, 0)


@dataclass(frozen=True)
class Metrics:
    nodes: int
    active: int
    lost: int
    unhealthy: int
    decommissioned: int
    decommissioning: int


def name_of(kind: type[IntEnum], number: int) -> str:
    """An enumeration's name; a value that a newer Hadoop made up is told by its number."""
    try:
        return kind(number).name
    except ValueError:
        return "" if number == 0 else f"{kind.__name__}-{number}"


def report(message: Mapping[str, Any]) -> Report:
    usage = message["app_resource_usage"]
    lifetimes = [
        one["application_timeout"]["expire_time"]
        for one in message["app_timeouts"]
        if one["application_timeout_type"] == TimeoutType.LIFETIME
    ]
    attempt = message["current_application_attempt_id"]
    host = message["host"]
    return Report(
        id=ids.application(message["application_id"]),
        name=message["name"],
        user=message["user"],
        queue=message["queue"],
        type=message["application_type"],
        state=name_of(ApplicationState, message["yarn_application_state"]),
        final_status=name_of(FinalStatus, message["final_application_status"]) or "UNDEFINED",
        diagnostics=_told(message["diagnostics"]),
        tags=tuple(sorted(message["application_tags"])),
        priority=message["priority"]["priority"],
        host="" if host == "N/A" else host,
        port=max(message["rpc_port"], 0),
        tracking_url=_told(message["tracking_url"]),
        original_tracking_url=_told(message["original_tracking_url"]),
        attempt=max(attempt["attempt_id"], 0),
        submitted=_time(message["submit_time"] or message["start_time"]) or 0.0,
        launched=_time(message["launch_time"]),
        ended=_time(message["finish_time"]),
        progress=_share(message["progress"]),
        used=_size(usage["used_resources"]),
        reserved=_size(usage["reserved_resources"]),
        needed=_size(usage["needed_resources"]),
        containers=max(usage["num_used_containers"], 0),
        reserved_containers=max(usage["num_reserved_containers"], 0),
        label=_label(message["app_node_label_expression"]),
        master_label=_label(message["am_node_label_expression"]),
        unmanaged=message["unmanaged_application"],
        log_aggregation=name_of(LogAggregationStatus, message["log_aggregation_status"]),
        expires=next((text for text in lifetimes if text != "UNLIMITED"), ""),
        preempted_memory_seconds=usage["preempted_memory_seconds"],
    )


def attempt(message: Mapping[str, Any]) -> Attempt:
    number = message["application_attempt_id"]["attempt_id"]
    own = ids.container(message["am_container_id"]) if "am_container_id" in message else ""
    return Attempt(
        number=number,
        state=name_of(AttemptState, message["yarn_application_attempt_state"]),
        container=own,
        host=_told(message["host"]),
        port=max(message["rpc_port"], 0),
        diagnostics=_told(message["diagnostics"]),
        tracking_url=_told(message["tracking_url"]),
        started=_time(message["start_time"]),
        ended=_time(message["finish_time"]),
    )


def container(message: Mapping[str, Any]) -> Container:
    return Container(
        id=ids.container(message["container_id"]),
        node=ids.node(message["node_id"]),
        node_web=message["node_http_address"],
        size=_size(message["resource"]),
        priority=message["priority"]["priority"],
        state=name_of(ContainerState, message["container_state"]),
        exit=message["container_exit_status"],
        diagnostics=_told(message["diagnostics_info"]),
        log_url=message["log_url"],
        created=_time(message["creation_time"]),
        ended=_time(message["finish_time"]),
    )


def queue(message: Mapping[str, Any], rights: Mapping[str, frozenset[int]]) -> Queue:
    """``rights``: queue name or path -> what the user may do there (QueueAcl)."""
    figures = message["queue_statistics"]
    name, path = message["queue_name"], message["queue_path"]
    mine = rights.get(path, rights.get(name, frozenset()))
    return Queue(
        name=name,
        path=path or name,
        capacity=_share(message["capacity"]),
        maximum=_share(message["maximum_capacity"], 1.0),
        used=_share(message["current_capacity"]),
        state=name_of(QueueState, message["state"]) or "RUNNING",
        running=figures["num_apps_running"],
        pending=figures["num_apps_pending"],
        allocated=Size(figures["allocated_memory_mb"], figures["allocated_v_cores"]),
        waiting=Size(figures["pending_memory_mb"], figures["pending_v_cores"]),
        labels=tuple(sorted(message["accessible_node_labels"])),
        default_label=_label(message["default_node_label_expression"]),
        may_submit=QueueAcl.SUBMIT_APPLICATIONS in mine,
        may_administer=QueueAcl.ADMINISTER_QUEUE in mine,
        preempted=not (
            message["preemption_disabled"] and message["intra_queue_preemption_disabled"]
        ),
        children=tuple(queue(child, rights) for child in message["child_queues"]),
    )


def node(message: Mapping[str, Any]) -> Node:
    return Node(
        id=ids.node(message["node_id"]),
        state=name_of(NodeState, message["node_state"]),
        total=_size(message["capability"]),
        used=_size(message["used"]),
        containers=message["num_containers"],
        labels=tuple(sorted(message["node_labels"])),
        rack=message["rack_name"],
        web=message["http_address"],
        health=message["health_report"],
    )


def metrics(message: Mapping[str, Any]) -> Metrics:
    return Metrics(
        nodes=message["num_node_managers"],
        active=message["num_active_nms"],
        lost=message["num_lost_nms"],
        unhealthy=message["num_unhealthy_nms"],
        decommissioned=message["num_decommissioned_nms"],
        decommissioning=message["num_decommissioning_nms"],
    )


def _size(message: Mapping[str, Any]) -> Size:
    """Negative figures are how YARN says that a user may not know."""
    size = Size.from_message(message)
    others = {key: value for key, value in size.others.items() if value > 0}
    return Size(max(size.memory, 0), max(size.vcores, 0), others)


def _time(milliseconds: int) -> float | None:
    return milliseconds / 1000 if milliseconds > 0 else None


def _share(number: float, otherwise: float = 0.0) -> float:
    return number if math.isfinite(number) and number >= 0 else otherwise


def _told(text: str) -> str:
    return "" if text == "N/A" else text.strip()


def _label(text: str) -> str:
    """The default partition has several names."""
    return "" if text in ("<DEFAULT_PARTITION>", "<Not set>", "null") else text
