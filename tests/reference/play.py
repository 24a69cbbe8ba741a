"""Plays scenarios: turns steps into events, asks for decisions after each, and does as decided.
What it believes of the jobs comes from the events alone, not from any scheduler."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dromon.sched import events
from dromon.sched.decisions import Decision, Grow, Preempt, Refuse, Shrink, Start
from dromon.sched.rules import Rules
from reference.scenarios import Change, Join, Node, Order, Step, Submit, Wait, gpus_of

QUEUED, RUNNING, STOPPING = "queued", "running", "stopping"


@dataclass
class Seen:
    told: events.JobSubmitted
    state: str = QUEUED
    placement: dict[str, Any] = field(default_factory=dict)
    leaving: tuple[str, ...] = ()
    since: float = 0.0


class Play:
    """The shell around a scheduler, with a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.submitted = 0
        self.jobs: dict[str, Seen] = {}
        self.nodes: dict[str, Join] = {}
        self.rules = Rules()

    def of_step(self, step: Step) -> Iterator[Any]:
        """What happens by this step. Nothing, if it speaks of what is not there."""
        match step:
            case Submit():
                self.submitted += 1
                yield events.JobSubmitted(
                    f"j{self.submitted}", self.submitted, self.now, step.roles, step.priority,
                    step.preemptible, step.user, step.queue, step.max_duration, step.stop_grace,
                )  # fmt: skip
            case Wait():
                self.now += step.seconds
            case Order():
                yield events.RulesChanged(step.rules, self.now)
            case Join():
                on_it = any(s.node == step.name for j in self.jobs.values()
                            for s in j.placement.values())  # fmt: skip
                if not on_it:  # a node that shrinks under its jobs is another story
                    yield events.NodeJoined(
                        step.name, step.cpus, step.memory, gpus_of(step), frozenset(step.labels)
                    )
            case Node() if self.nodes:
                name = sorted(self.nodes)[step.number % len(self.nodes)]
                devices = len(self.nodes[name].gpus)
                kinds = {"leave": events.NodeLeft, "drain": events.NodeDrained,
                         "open": events.NodeOpened}  # fmt: skip
                if step.what in kinds:
                    yield kinds[step.what](name)
                elif devices:
                    kind = events.GpuHeld if step.what == "hold" else events.GpuFreed
                    yield kind(name, str(step.device % devices))
            case Change():
                yield from self.of_change(step)

    def of_change(self, step: Change) -> Iterator[Any]:
        state = {"gone": STOPPING, "withdraw": QUEUED}.get(step.what, RUNNING)
        there = [id for id, job in self.jobs.items() if job.state == state]
        if step.what == "gone":
            there += [id for id, job in self.jobs.items() if job.state == RUNNING and job.leaving]
        if not there:
            return
        id = there[step.number % len(there)]
        job = self.jobs[id]
        if step.what == "checkpoint":
            yield events.JobCheckpointed(id, self.now)
        elif step.what in ("end", "withdraw"):
            yield events.JobEnded(id, self.now)
        elif job.state == RUNNING and step.what == "gone":
            yield events.JobShrunk(id, job.leaving, self.now)
        else:
            yield events.JobReleased(id, self.now)

    def of_decision(self, decision: Decision) -> Any:
        match decision:
            case Start():
                return events.JobStarted(decision.job, decision.placement, self.now)
            case Preempt():
                return events.JobStopping(decision.job, self.now, decision.for_job)
            case Refuse():
                return events.JobEnded(decision.job, self.now)
            case Grow():
                return events.JobGrown(decision.job, decision.placement, self.now)
            case Shrink():
                return events.JobShrinking(
                    decision.job, decision.members, self.now, decision.for_job
                )

    def note(self, event: Any) -> None:
        """Believe it."""
        match event:
            case events.NodeJoined():
                self.nodes[event.name] = event
            case events.NodeLeft():
                self.nodes.pop(event.name, None)
            case events.RulesChanged():
                self.rules = event.rules
            case events.JobSubmitted():
                self.jobs[event.id] = Seen(event)
            case events.JobEnded():
                self.jobs.pop(event.id)
            case events.JobStarted():
                job = self.jobs[event.id]
                job.state, job.placement, job.since = RUNNING, dict(event.placement), self.now
            case events.JobStopping():
                self.jobs[event.id].state = STOPPING
            case events.JobReleased():
                job = self.jobs[event.id]
                job.state, job.placement, job.leaving = QUEUED, {}, ()
            case events.JobGrown():
                self.jobs[event.id].placement |= event.placement
            case events.JobShrinking():
                self.jobs[event.id].leaving += event.members
            case events.JobShrunk():
                job = self.jobs[event.id]
                job.leaving = tuple(m for m in job.leaving if m not in event.members)
                for member in event.members:
                    job.placement.pop(member, None)
