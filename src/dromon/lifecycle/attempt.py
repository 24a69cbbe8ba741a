"""One attempt: the world it runs in, who has been let in, and how its members ended.

The world is fixed when the barrier opens; a member that comes later has no seat in it and waits
for the next attempt. No policy and no time here.
"""

from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from dromon.lifecycle import barrier, policy, states
from dromon.lifecycle.members import Members
from dromon.lifecycle.plan import FOLLOWS, GangPlan
from dromon.lifecycle.verdict import Verdict


class Completion(NamedTuple):
    """The members that decide have all ended, and nothing forbids to call it done."""

    needed: int
    ignored: int  # of them failed, and a policy lets it be


class Attempt:
    def __init__(
        self, plan: GangPlan, members: Members, number: int, patient_until: float, is_all: bool
    ) -> None:
        self.number = number
        self.patient_until = patient_until  # for more than `min`
        self.is_all = is_all  # nobody comes unasked: all who were launched are waited for
        self.world: barrier.Seats = ()  # empty until the barrier opens
        self.admitted: Set[str] = set()  # the barrier is open for their present run
        self.succeeded: Set[str] = set()
        self.excused: Set[str] = set()  # failed, and a policy ignores it
        self.first_failure: Optional[Verdict] = None
        self._plan = plan
        self._members = members
        self._ranks: Dict[str, int] = {}
        self._needed: List[str] = []  # those whose success is the job's
        self._all = sum(role.replicas for role in plan.roles)
        self._least = sum(role.min for role in plan.roles)

    @property
    def is_open(self) -> bool:
        return bool(self.world)

    @property
    def size(self) -> int:
        return len(self.world)

    def takes_part(self, name: str) -> bool:
        """It has a seat, or nobody has one yet."""
        return name in self._ranks or not self._ranks

    def rank(self, name: str) -> Optional[int]:
        return self._ranks.get(name)

    def of_role(self, role: str) -> Set[str]:
        return {n for n in self._members.now if barrier.role_of(n) == role and self.takes_part(n)}

    def standing(self, *where: str) -> List[str]:
        """Those that take part and are in these states, in rank order."""
        members = self._members.now.items()
        return [n for n, m in members if m.state in where and self.takes_part(n)]

    def is_overdue(self, now: float) -> bool:
        """It has waited for more than `min` as long as it should."""
        return now >= self.patient_until

    def has(self, state: str) -> bool:
        """Somebody who takes part is in this state."""
        return bool(self._members.count(state)) and bool(not self._ranks or self.standing(state))

    @property
    def lacks_some(self) -> bool:
        """Somebody has not come without whom it does not begin, though it has enough."""
        return self.is_all and self._members.count(states.LAUNCHED) > 0

    def may_open(self, now: float) -> bool:
        there = self._members.count(states.READY)
        if (
            self.is_open
            or self.lacks_some
            or there < (self._least if self.is_overdue(now) else self._all)
        ):
            return False  # asked at every arrival: only the last ones are worth a closer look
        ready = self.standing(states.READY)
        return barrier.may_open(self._plan, ready, self.is_overdue(now))

    def can_start(self, *where: str) -> bool:
        """Enough for a gang stand there."""
        if self._members.count(*where) < self._least:
            return False
        return barrier.is_enough(self._plan, self.standing(*where))

    def joining(self) -> List[str]:
        """Restarted alone, and not yet let into the world there is."""
        live = self._members.live()
        return [n for n in live if n in self._ranks and n not in self.admitted]

    def admit(self, names: Tuple[str, ...]) -> None:
        """Let these in. The first time they are the world; later their addresses are renewed."""
        if not self._ranks:
            self._ranks = {name: rank for rank, name in enumerate(names)}
            deciding = policy.roles_that_end(self._plan)
            needed = [n for n in names if barrier.role_of(n) in deciding]
            self._needed = needed or list(names)
            for name, rank in self._ranks.items():
                self._members.change(name, states.READY, rank=rank)
        now = self._members.now
        self.world = barrier.seats({n: (now[n].host, now[n].ports) for n in self._ranks})
        self.admitted.update(names)

    def starts_over(self, names: Set[str]) -> None:
        """How these ended does not matter any more."""
        self.succeeded -= names
        self.excused -= names

    def completion(self) -> Optional[Completion]:
        needed = self._needed
        if not needed or len(self.succeeded) + len(self.excused) < len(needed):
            return None
        if not all(n in self.succeeded or n in self.excused for n in needed):
            return None
        return Completion(len(needed), sum(n in self.excused for n in needed))

    def followers(self) -> Set[str]:
        """Who may still end by themselves after the deciding members have."""
        if self._plan.linger <= 0:
            return set()
        follows = {r.name for r in self._plan.roles if r.ending == FOLLOWS}
        return {n for n in self._members.live(self.admitted) if barrier.role_of(n) in follows}
