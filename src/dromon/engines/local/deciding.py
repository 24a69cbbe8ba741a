"""Who decides for this daemon: `Scheduler` is what the arbiter asks, `OwnScheduler` answers here.

What has happened goes in as an event, what is to be done comes out as decisions, and questions are
answered at once. A scheduler carries nothing out and keeps nothing on disk: whoever asks it has the
journal, and tells it everything anew after a restart.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from dromon.engines.local import queueviews
from dromon.engines.local.growth import Growth
from dromon.engines.local.machine import Machine
from dromon.errors import Refused
from dromon.sched import events
from dromon.sched.admit import admit
from dromon.sched.asks import Gpu, Waiting
from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide, dry_preempt
from dromon.sched.decisions import Decision, Grow, Preempt, Shrink
from dromon.sched.explain import explain
from dromon.sched.rules import Rules

SEED = 0
# What leads to no decision: what follows from decisions, which are complete, and what only matters
# for the next one.
NO_NEWS = (events.JobStarted, events.JobStopping, events.JobCheckpointed)


class Scheduler(Protocol):
    """Calls come from one thread, in the order in which things happened.

    A decision is an order, not a fact: it is carried out, and what became of it comes back as an
    event (`JobStarted`, `JobStopping`, `JobGrown`, `JobShrinking`, then `JobShrunk`; or `GpuHeld`
    when somebody else was faster, and `JobShrunk` of members that do not come). Until then the same
    decision may be given again.
    """

    @property
    def is_due(self) -> bool:
        """Something was heard since `decide` was last asked, or decisions lie ready."""
        ...

    def apply(self, event: events.Event) -> None: ...
    def decide(self, now: float) -> Sequence[Decision]: ...
    def wakes(self, now: float) -> float | None:
        """When deciding again could give something though nothing is heard until then."""
        ...

    def tick(self) -> None:
        """That time has come."""
        ...

    def admit(self, job: events.JobSubmitted, now: float) -> None:
        """Raises Refused for a job that could never start. It is not submitted by this."""
        ...

    def why(self, job: str, now: float) -> Waiting: ...
    def would_preempt(self, job: str, now: float) -> list[dict[str, Any]]:
        """Who would go, if this waiting job sent others away now: {"job", "user", "queue", "lost":
        GPU-seconds of work, "members": those that go, "whole": whether that is the gang}."""
        ...

    def knows(self, job: str) -> bool: ...
    @property
    def someone_waits(self) -> bool:
        """One of this daemon's jobs is in the queue."""
        ...

    def queues(self, now: float) -> list[dict[str, Any]]:
        """See `queueviews`: parents first, the root before all."""
        ...

    def held(self) -> Mapping[str, str]:
        """Devices of this machine that somebody outside has: device -> who."""
        ...

    def free(self) -> Mapping[str, float]:
        """What this machine has left: {"cpus": cores, "memory": bytes}."""
        ...


class OwnScheduler:
    """A cluster of one machine, in this process. `gathers`: see `Growth`."""

    def __init__(
        self,
        machine: Machine,
        rules: Rules | None = None,
        gathers: Callable[[str], bool] = lambda job: False,
    ) -> None:
        self.node = machine.name
        self.cluster = Cluster(rules)
        self._growth = Growth(self.cluster, gathers)
        self.is_due = False
        self.apply(
            events.NodeJoined(
                machine.name,
                cpus=machine.cpus,
                memory=machine.memory,
                gpus=tuple(Gpu(d.uuid, d.kind) for d in machine.gpus),
            )
        )

    def apply(self, event: events.Event) -> None:
        self.cluster.apply(event)
        could_grow = self._growth.hear(event)
        self.is_due = self.is_due or could_grow or not isinstance(event, NO_NEWS)

    def decide(self, now: float) -> Sequence[Decision]:
        self.is_due = False
        return tuple(
            decision
            for decision in decide(self.cluster, now, SEED)
            if not isinstance(decision, Grow) or self._growth.allows(decision.job, now)
        )

    def wakes(self, now: float) -> float | None:
        wakes = (self.cluster.wakes(now), self._growth.wakes(now))
        return min((at for at in wakes if at is not None), default=None)

    def tick(self) -> None:
        self.is_due = True

    def admit(self, job: events.JobSubmitted, now: float) -> None:
        refusal = admit(self.cluster, job, now)
        if refusal is None:
            return
        hint, text = "`dromon nodes` shows what this machine has.", refusal.text
        if (taker := refusal.dimension) in self.cluster.accounts.tree:
            hint = f"Queue {taker} would take it."
            text = text.removesuffix(f"; queue {taker} would take it")  # said once is enough
        elif self.cluster.rules.queues:
            hint = "`dromon queues` shows what each queue may have."
        raise Refused(f"{job.id} can never run here: {text}", hint=hint)

    def why(self, job: str, now: float) -> Waiting:
        return explain(self.cluster, job, now, SEED)

    def would_preempt(self, job: str, now: float) -> list[dict[str, Any]]:
        found = []
        for decision in dry_preempt(self.cluster, job, now, SEED):
            if not isinstance(decision, (Preempt, Shrink)):
                continue
            other = self.cluster.jobs[decision.job]
            goes = set(decision.members if isinstance(decision, Shrink) else other.placement)
            gpus = sum(len(s.gpus) * s.part for m, s in other.placement.items() if m in goes)
            lost = gpus * max(0.0, now - max(other.started, other.checkpointed or 0.0))
            found.append(
                {"job": other.id, "user": other.user, "queue": other.queue, "lost": lost,
                 "members": sorted(goes), "whole": isinstance(decision, Preempt)}
            )  # fmt: skip
        return found

    def knows(self, job: str) -> bool:
        return job in self.cluster.jobs

    @property
    def someone_waits(self) -> bool:
        return bool(self.cluster.lines)

    def queues(self, now: float) -> list[dict[str, Any]]:
        return queueviews.views(self.cluster, now)

    def held(self) -> Mapping[str, str]:
        return self.cluster.nodes[self.node].held

    def free(self) -> Mapping[str, float]:
        left = self.cluster.nodes[self.node].free
        return {"cpus": left.cpus / 1000, "memory": left.memory}
