"""The members of the present placement and how far each has come. No policy here.

Every change of a member's state goes through the table in `states`.
"""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from dromon.lifecycle import barrier, events, states
from dromon.lifecycle.plan import GangPlan
from dromon.lifecycle.verdict import Exit


class ImpossibleTransition(AssertionError):
    """A transition the tables do not know: a mistake in this room, never in what it heard."""


class MemberState(NamedTuple):
    """The latest run of one member."""

    state: str
    run: int
    rank: Optional[int] = None
    host: str = ""
    ports: Tuple[int, ...] = ()
    pid: int = 0
    exit: Optional[Exit] = None

    @property
    def is_live(self) -> bool:
        return self.state not in states.MEMBER_ENDED


LIVE = tuple(state for state in states.MEMBER if state not in states.MEMBER_ENDED)


class Members:
    """Those placed now, by name, in rank order; and how often each name was ever started."""

    def __init__(self, plan: GangPlan) -> None:
        self.now: Dict[str, MemberState] = {}
        self._count: Dict[str, int] = {}  # state -> how many are in it
        self._places = barrier.roster(plan)
        self._runs: Dict[str, int] = {}
        self._stops: Dict[str, Tuple[float, str]] = {}  # name -> (killed at, reason)

    def known(self, names: Iterable[str]) -> List[str]:
        """Those of these that the plan knows, in rank order."""
        return sorted(self._places.keys() & set(names), key=self._places.__getitem__)

    def current(self, name: str, run: int) -> Optional[MemberState]:
        """The member, if this run is its present one and still goes on."""
        member = self.now.get(name)
        return member if member is not None and member.run == run and member.is_live else None

    def count(self, *where: str) -> int:
        """How many are in these states; what a large gang asks at every event."""
        return sum(self._count.get(state, 0) for state in where)

    @property
    def are_live(self) -> bool:
        return self.count(*LIVE) > 0

    def clear(self) -> None:
        """Before a new attempt; the runs go on counting."""
        self.now, self._count = {}, {}

    def live(self, names: Optional[Iterable[str]] = None) -> List[str]:
        some = self.now if names is None else names
        return [n for n in some if n in self.now and self.now[n].is_live]

    def change(self, name: str, state: str, **facts: Any) -> None:
        member = self.now[name]
        if state != member.state and state not in states.MEMBER[member.state]:
            raise ImpossibleTransition(f"{name}: {member.state} -> {state}")
        self._move(member.state, state)
        self.now[name] = member._replace(state=state, **facts)

    def _move(self, before: str, after: str) -> None:
        if before:
            self._count[before] -= 1
        self._count[after] = self._count.get(after, 0) + 1

    def launch(self, name: str, rank: Optional[int]) -> int:
        """A new run of it, and its number."""
        run = self._runs[name] = self._runs.get(name, 0) + 1
        is_new = name not in self.now
        is_last = not self.now or self._places[next(reversed(self.now))] < self._places[name]
        self._move("" if is_new else self.now[name].state, states.LAUNCHED)
        self.now[name] = MemberState(states.LAUNCHED, run, rank)
        self._stops.pop(name, None)
        if is_new and not is_last:
            self.now = {n: self.now[n] for n in self.known(self.now)}
        return run

    def stop(
        self, names: Iterable[str], reason: str, grace: float, now: float
    ) -> Iterable[events.StopMember]:
        """Tell these to end, unless they were told to end as soon or sooner."""
        for name in self.known(self.live(names)):
            killed_at = now + grace
            if name in self._stops and self._stops[name][0] <= killed_at:
                continue
            self._stops[name] = (killed_at, reason)
            self.change(name, states.ENDING)
            yield events.StopMember(name, self.now[name].run, grace, reason)

    def overdue(self, now: float) -> List[str]:
        """Those whose grace is over and who have not ended."""
        return [n for n in self.live() if n in self._stops and self._stops[n][0] < now]

    def stop_again(self, name: str, now: float) -> events.StopMember:
        """Owed to a member that shows by what it says that it has not heard."""
        killed_at, reason = self._stops[name]
        return events.StopMember(name, self.now[name].run, max(0.0, killed_at - now), reason)
