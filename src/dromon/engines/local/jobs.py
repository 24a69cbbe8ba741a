"""One job as the daemon holds it while it is active: request, gang, placement, watchers."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from dromon.coordinator.coordinator import Coordinator
from dromon.engines.base import JobStatus, MemberStatus
from dromon.engines.gang import member_status, shapes
from dromon.engines.local.journal import Row
from dromon.lifecycle import states
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import GangPlan
from dromon.sched.asks import Placement, Share

Watcher = Callable[[dict[str, Any]], None]


class Job:
    """Kept by the arbiter from acceptance until the job has ended and its outputs are kept."""

    def __init__(self, row: Row, request: Mapping[str, Any]) -> None:
        self.id = row.id
        self.number = row.number
        self.name = row.name
        self.submitted = row.submitted
        self.request = request
        self.prepared = is_prepared(request)
        self.environment: Mapping[str, Any] = request["environment"]  # replaced once it is built
        self.seq = 0  # of the last event on the journal
        self.placement: Placement | None = None
        self.placed = 0.0  # when it got that
        self.since = row.submitted  # when it began to wait for its next placement
        self.saved = 0.0  # when its work was last, as the scheduler knows
        self.gpu_fds: dict[str, int] = {}  # device -> the descriptor that holds it
        self.watchers: list[Watcher] = []
        self.ended: float | None = None
        self.told = ""  # the state the journal's row has
        self.watched: tuple[str, int, float | None] | None = None  # what watchers were told last
        self.progress = ""  # of the environment's build, for those who wait
        self._coordinator: Coordinator | None = None

    @property
    def coordinator(self) -> Coordinator:
        """Made when first needed: ten thousand queued jobs need none."""
        if self._coordinator is None:
            gang = Gang(GangPlan.from_json(self.request["gang"]), prepared=self.prepared)
            self._coordinator = Coordinator(gang, shapes=shapes(self.request))
        return self._coordinator

    @property
    def gang(self) -> Gang:
        return self.coordinator.gang

    @property
    def state(self) -> str:
        if self._coordinator is None:
            return states.QUEUED if self.prepared else states.PREPARING
        if self.gang.is_terminal and self.ended is None:
            return self.told  # its outputs are still being kept
        return self.gang.state

    @property
    def stage(self) -> tuple[str, int, float | None]:
        """What watchers hear of at once when it changes."""
        return (self.told, self.gang.attempt if self._coordinator else 0, self.ended)

    def add_watcher(self, watcher: Watcher) -> None:
        """It has just been given the status, and will hear of what comes after it."""
        if not self.watchers:
            self.watched = self.stage
        self.watchers.append(watcher)

    def tell(self) -> None:
        status = self.status()
        for watcher in list(self.watchers):
            watcher(status)

    def status(self) -> dict[str, Any]:
        touched = self._coordinator is not None
        status = JobStatus(
            id=self.id,
            number=self.number,
            name=self.name,
            state=self.state,
            engine="local",
            queue=self.request["queue"],
            priority=self.request["priority"],
            submitted=self.submitted,
            started=self.gang.started if touched else None,
            ended=self.ended,
            attempt=self.gang.attempt if touched else 0,
            user=self.request["facts"].get("user", ""),
            verdict=self.gang.verdict.to_json() if self.ended and self.gang.verdict else None,
            members=self._members() if touched else (),
            resources=asked(self.request),
        )
        return status_json(status)

    def _members(self) -> tuple[MemberStatus, ...]:
        beats = self.coordinator.beats
        placed = self.placement or {}
        return tuple(
            member_status(
                name,
                m,
                gpus=tuple(placed[name].gpus) if name in placed else (),
                memory=beats[name].memory if name in beats else 0,
            )
            for name, m in self.gang.members.items()
            if m.run
        )


def is_prepared(request: Mapping[str, Any]) -> bool:
    return bool(request["environment"]["kind"] != "uv")


def placement_json(placement: Placement) -> dict[str, Any]:
    return {m: [s.node, s.cpus, s.memory, list(s.gpus), s.part] for m, s in placement.items()}


def placement_of(data: Mapping[str, Any]) -> Placement:
    return {
        m: Share(node, cpus, memory, tuple(gpus), *part)
        for m, (node, cpus, memory, gpus, *part) in data.items()
    }


def asked(request: Mapping[str, Any]) -> dict[str, float]:
    total = {"members": 0.0, "cpus": 0.0, "memory": 0.0, "gpus": 0.0}
    for role in request["roles"].values():
        n = role["replicas"]
        total["members"] += n
        total["cpus"] += n * role["cpus"]
        total["memory"] += n * (role["memory"] or 0)
        total["gpus"] += n * role["gpus"]
    return total


def status_json(status: JobStatus) -> dict[str, Any]:
    return {**status._asdict(), "members": [m._asdict() for m in status.members]}


def status_of(row: Row) -> dict[str, Any]:
    """The status of a job that is over, from its row alone."""
    request = json.loads(row.request)
    verdict = json.loads(row.verdict) if row.verdict else None
    status = JobStatus(
        id=row.id, number=row.number, name=row.name, state=row.state, engine="local",
        queue=request["queue"], priority=request["priority"], submitted=row.submitted,
        started=row.started, ended=row.ended, attempt=row.attempt,
        user=request["facts"].get("user", ""), verdict=verdict,
        resources=asked(request),
    )  # fmt: skip
    return status_json(status)
