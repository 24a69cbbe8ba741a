"""One job as the arbiter knows it: whose it is, what it asks, what it holds. Nothing decides."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from dromon.engines.local.shared import wire
from dromon.engines.local.shared.journal import Row, packed
from dromon.sched.asks import Placement, Share
from dromon.sched.events import JobSubmitted

QUEUED, RUNNING, STOPPING = "queued", "running", "stopping"
NAMES = 64  # users and groups with whom one job may be shared


@dataclass(frozen=True, slots=True)
class Acls:
    """With whom a job is shared: names of users and of groups."""

    view: tuple[str, ...] = ()
    modify: tuple[str, ...] = ()


@dataclass(slots=True)
class Entry:
    key: str  # user/id
    uid: int
    home: str  # which of the user's daemons has it
    job: JobSubmitted  # `id` is the key; `user`, `seq` and `time` are the arbiter's own words
    acls: Acls = field(default_factory=Acls)
    state: str = QUEUED
    placement: Placement = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    since: float = 0.0  # when it began to wait for what it has; see `Spell`

    @property
    def id(self) -> str:
        """As its own user calls it."""
        return self.key.partition("/")[2]

    @property
    def gpus(self) -> set[str]:
        return {gpu for share in self.placement.values() for gpu in share.gpus}

    def row(self) -> Row:
        return Row(
            self.key, self.uid, self.home, self.job.seq, packed(wire.plain(self.job)),
            packed(wire.plain(self.acls)), self.state, packed(wire.plain(self.placement)),
            self.started, self.ended,
        )  # fmt: skip

    def seen(self) -> dict[str, Any]:
        """What everybody may know of it."""
        total: dict[str, float] = {"members": 0, "cpus": 0, "memory": 0, "gpus": 0}
        for role in self.job.ask:
            total["members"] += role.replicas
            total["cpus"] += role.replicas * role.cpus
            total["memory"] += role.replicas * (role.memory or 0)
            total["gpus"] += role.replicas * role.gpus
        state = "ended" if self.ended is not None else self.state
        return {
            "key": self.key, "id": self.id, "user": self.job.user, "queue": self.job.queue,
            "priority": self.job.priority, "state": state, "submitted": self.job.time,
            "started": self.started, "ended": self.ended, "resources": total,
            "gpus": sorted(self.gpus),
        }  # fmt: skip


def from_row(row: Row) -> Entry:
    return Entry(
        row.key, row.uid, row.home, wire.value(JobSubmitted, json.loads(row.job)),
        wire.value(Acls, json.loads(row.acls)), row.state, placement(json.loads(row.placement)),
        row.started, row.ended,
    )  # fmt: skip


def placement(data: Any) -> Placement:
    if not isinstance(data, dict) or len(data) > wire.ITEMS:
        raise wire.Misspoken("placement: not a map of members")
    return {wire.value(str, member): wire.value(Share, each) for member, each in data.items()}


def told(
    data: Any, *, key: str, user: str, seq: int, time: float, accepted: bool = False
) -> JobSubmitted:
    """What a daemon says of a job of its user's. Who, when and in which order is not its to say."""
    said = wire.value(JobSubmitted, data)
    if sum(role.replicas for role in said.ask) > wire.ITEMS:
        raise wire.Misspoken(f"{said.id}: more than {wire.ITEMS} members")
    return replace(said, id=key, user=user, seq=seq, time=time, accepted=accepted)


def acls(data: Any) -> Acls:
    said = wire.value(Acls, data)
    return Acls(said.view[:NAMES], said.modify[:NAMES])
