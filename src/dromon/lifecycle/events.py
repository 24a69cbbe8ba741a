"""What a gang hears (events) and what it answers (commands). Values only, stored as JSON.

A member is named "role-index" everywhere here; a *run* is one start of one member and grows by
one with every start, over all attempts, so that (member, run) happens at most once.
"""

import sys
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from dromon.lifecycle.verdict import Exit, Verdict


@dataclass(frozen=True)
class Event:
    def to_json(self) -> Dict[str, Any]:
        return {"kind": type(self).__name__, **self.__dict__}  # values only: nothing to copy

    @property
    def parts(self) -> Tuple["Event", ...]:
        """Of one that stands for several."""
        return (self,)


# ---- events -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared(Event):
    """Code and environment are in place; the job may be queued."""


@dataclass(frozen=True)
class PrepareFailed(Event):
    cause: str  # environment, internal
    message: str


@dataclass(frozen=True)
class Placed(Event):
    """The engine has room for these members, all of them at once."""

    members: Tuple[str, ...]
    is_all: bool = False  # no others will come by themselves; each of these will


@dataclass(frozen=True)
class MemberReady(Event):
    """An agent stands at the barrier for this run and can be reached there."""

    member: str
    run: int
    host: str
    ports: Tuple[int, ...] = ()


@dataclass(frozen=True)
class MembersReady(Event):
    """Nothing has to be reserved for these runs: they can be reached at this host, and their
    agents come with the world."""

    members: Tuple[str, ...]
    runs: Tuple[int, ...]
    host: str

    @property
    def parts(self) -> Tuple[Event, ...]:
        each = zip(self.members, self.runs)
        return tuple(MemberReady(member, run, self.host) for member, run in each)


@dataclass(frozen=True)
class MemberStarted(Event):
    member: str
    run: int
    pid: int = 0


@dataclass(frozen=True)
class MemberExited(Event):
    member: str
    run: int
    exit: Mapping[str, Any]  # Exit.to_json()

    @property
    def record(self) -> Exit:
        return Exit.from_json(self.exit)


@dataclass(frozen=True)
class MemberLost(Event):
    """Its agent or node is gone, and it is certain that the run is over."""

    member: str
    run: int
    message: str = ""


@dataclass(frozen=True)
class MemberEvicted(Event):
    """The place below took this member away (a pod evicted, a container preempted)."""

    member: str
    run: int
    message: str = ""


@dataclass(frozen=True)
class StopRequested(Event):
    by: str = ""
    grace: Optional[float] = None  # None: the job's own


@dataclass(frozen=True)
class PreemptRequested(Event):
    """Give the whole placement back, after the grace; come back later from the checkpoint."""

    message: str = ""
    grace: Optional[float] = None


@dataclass(frozen=True)
class ResizeRequested(Event):
    """Go on with these members, which have a place: the attempt ends in order, and they are the
    world of the next one. No retry is used."""

    members: Tuple[str, ...]
    message: str = ""


@dataclass(frozen=True)
class Tick(Event):
    """Time has passed; `Gang.wake_at` says when this is wanted."""


# ---- commands -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    pass


@dataclass(frozen=True)
class Launch(Command):
    """Start (or re-use) an agent for this run of this member; it reports MemberReady."""

    member: str
    run: int
    attempt: int


@dataclass(frozen=True)
class OpenBarrier(Command):
    """The world is complete: deliver it to these members (all, or one that is restarted alone)."""

    attempt: int
    # (member, rank, host, ports) ordered by rank: the whole world
    world: Tuple[Tuple[str, int, str, Tuple[int, ...]], ...]
    deliver_to: Tuple[str, ...]


@dataclass(frozen=True)
class StopMember(Command):
    """SIGTERM now, SIGKILL after `grace`. `reason`: stop, preempt, resize, timeout,
    failure, complete."""

    member: str
    run: int
    grace: float
    reason: str


@dataclass(frozen=True)
class Release(Command):
    """Every member has ended; the placement is free; queue the job again."""


@dataclass(frozen=True)
class Finish(Command):
    """The job is over; the placement is free."""

    state: str
    verdict: Verdict


_EVENTS = {
    c.__name__: c
    for c in vars(sys.modules[__name__]).values()
    if isinstance(c, type) and issubclass(c, Event)
}


def from_json(data: Mapping[str, Any]) -> Event:
    """The event a journal kept. Lists become tuples again."""
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k != "kind"}
    event: Event = _EVENTS[data["kind"]](**fields)
    return event
