"""A gang one can talk to in short sentences: `play.ready()`, `play.exits("worker-1", code=3)`."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dromon.lifecycle import events
from dromon.lifecycle.events import Command, Event
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import GangPlan, RolePlan
from dromon.lifecycle.verdict import Exit

sys.path.insert(0, str(Path(__file__).parent))  # for `cast`


class Play:
    """A gang, its clock and its journal. Every line returns the commands it brought about."""

    def __init__(self, *roles: RolePlan, prepared: bool = True, **plan: Any) -> None:
        settings = {"job": "unet3d-abc234", "framework": "torch", "gang_wait": 60.0, **plan}
        self.plan = GangPlan(roles=roles or (RolePlan("worker", 2, 2),), **settings)
        self.prepared = prepared
        self.gang = Gang(self.plan, prepared=prepared)
        self.now = 1000.0
        self.journal: list[tuple[float, Event]] = []

    def hear(self, event: Event) -> list[Command]:
        self.journal.append((self.now, event))
        return self.gang.step(event, self.now)

    def tell_each(self, make: Callable[[str], Event], names: tuple[str, ...]) -> list[Command]:
        heard = [self.hear(make(name)) for name in names]
        return [command for commands in heard for command in commands]

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(f"{r.name}-{i}" for r in self.plan.roles for i in range(r.replicas))

    def run_of(self, name: str) -> int:
        return self.gang.members[name].run

    def placed(self, *names: str) -> list[Command]:
        return self.hear(events.Placed(names or self.all))

    def ready(self, *names: str) -> list[Command]:
        def event(name: str) -> Event:
            run = self.run_of(name)
            return events.MemberReady(name, run, f"host-of-{name}", (7000 + run,))

        return self.tell_each(event, names or tuple(self.gang.members))

    def started(self, *names: str) -> list[Command]:
        def event(name: str) -> Event:
            return events.MemberStarted(name, self.run_of(name), pid=4242)

        return self.tell_each(event, names or tuple(self.gang.members))

    def running(self) -> "Play":
        """Placed, gathered and started, all of them."""
        self.placed()
        self.ready()
        self.started()
        return self

    def exits(self, *names: str, code: int | None = 0, run: int = 0, **facts: Any) -> list[Command]:
        if code and "cause" not in facts:
            facts["cause"] = "user_error"
        exit = Exit(code=code, **facts).to_json()
        return self.tell_each(
            lambda name: events.MemberExited(name, run or self.run_of(name), exit), names
        )

    def lost(self, name: str, message: str = "") -> list[Command]:
        return self.hear(events.MemberLost(name, self.run_of(name), message))

    def evicted(self, name: str, message: str = "") -> list[Command]:
        return self.hear(events.MemberEvicted(name, self.run_of(name), message))

    def stop(self, by: str = "alice", grace: float | None = None) -> list[Command]:
        return self.hear(events.StopRequested(by, grace))

    def preempt(self, grace: float | None = None) -> list[Command]:
        return self.hear(events.PreemptRequested("for job 7", grace))

    def resize(self, *names: str) -> list[Command]:
        return self.hear(events.ResizeRequested(names))

    def after(self, seconds: float) -> list[Command]:
        self.now += seconds
        return self.hear(events.Tick())

    def wakes_in(self) -> float | None:
        return None if self.gang.wake_at is None else self.gang.wake_at - self.now

    def state_of(self, name: str) -> str:
        return self.gang.members[name].state


def everything(gang: Gang) -> dict[str, Any]:
    """All a gang knows, down to its parts, comparable."""
    facts = {k: v for k, v in vars(gang).items() if k not in ("_members", "_attempt", "_out")}
    facts["members"] = vars(gang._members)
    facts["attempt"] = {k: v for k, v in vars(gang._attempt).items() if k != "_members"}
    return facts


@pytest.fixture
def play() -> Iterator[Callable[..., Play]]:
    """Begins plays; afterwards every journal, sent through JSON, must give the same gang."""
    begun: list[Play] = []

    def begin(*roles: RolePlan, **settings: Any) -> Play:
        begun.append(Play(*roles, **settings))
        return begun[-1]

    yield begin
    for one in begun:
        kept = [(now, events.from_json(event.to_json())) for now, event in one.journal]
        again = Gang.replay(one.plan, kept, prepared=one.prepared)
        assert everything(again) == everything(one.gang)
