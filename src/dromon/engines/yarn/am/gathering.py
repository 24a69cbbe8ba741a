"""Which containers the gang has, which members still need one, and when half a gang gives way.

YARN grants containers one by one. Two applications that each hold a part of what both need would
wait for each other for ever, so a part is held only for a while after the last container came:
the longer, the older the application is. Then all of it is given back, and asked for again after
a pause, the shorter, the older it is. So of two half-gangs the elder stays and gets the rest. Many
of about the same age are told apart by chance, as stations on a shared wire are: each time one
gave way in vain, its next pause is drawn from twice the range.

Pure: the clock and chance are arguments. Nothing here knows YARN's messages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dromon.lifecycle.barrier import role_of


@dataclass(frozen=True)
class Patience:
    """How long a part of a gang is held, and how long to pause after giving way. Seconds."""

    hold: float = 20.0
    hold_growth: float = 0.5  # for every second of the application's age
    longest_hold: float = 80.0  # or the others would never get a turn
    pause: float = 15.0
    pause_halves: float = 300.0  # the age at which the pause is half as long
    most_halves: float = 3.0  # times that age; from then on it gets no shorter
    doublings: int = 5  # of the range of a pause, at most

    def hold_for(self, age: float) -> float:
        longest = max(self.hold, self.longest_hold)
        return min(longest, self.hold + self.hold_growth * max(0.0, age))

    def pause_for(self, age: float, tries: int, chance: float) -> float:
        """After giving way for the `tries`-th time in a row; `chance` is from 0 to 1."""
        longest = self.pause * 2.0 ** min(tries - 1, self.doublings)
        # No shorter than a part is held, in the end: many old ones would never get out of step.
        halves = min(max(0.0, age) / self.pause_halves, self.most_halves)
        return longest * (0.5 + chance) / (1.0 + halves)


@dataclass(frozen=True)
class Held:
    """A container and the member it is for."""

    id: str
    member: str
    node: str


class Gathering:
    """`born` is when the application was submitted, so that its age outlives its master."""

    def __init__(self, patience: Patience, born: float) -> None:
        self._patience = patience
        self._born = born
        self._progress = born  # when a container last came
        self._paused_until = 0.0
        self._tries = 0  # gave way so often since the gang was last complete
        self.needed: list[str] = []
        self.held: dict[str, Held] = {}  # by container
        self._place_of: dict[str, str] = {}  # member -> its container

    # ---- what is held ---------------------------------------------------------------------------

    def container_of(self, member: str) -> Held | None:
        found = self._place_of.get(member)
        return None if found is None else self.held[found]

    def take(self, container: str, role: str, node: str, now: float) -> str | None:
        """A container of this role came: whose it is, the first member without one. None: nobody
        needs it, give it back."""
        for member in self.needed:
            if role_of(member) == role and member not in self._place_of:
                self._progress = now
                return self.assign(container, member, node)
        return None

    def assign(self, container: str, member: str, node: str) -> str:
        self.held[container] = Held(container, member, node)
        self._place_of[member] = container
        if all(name in self._place_of for name in self.needed):
            self._tries = 0
        return member

    def lose(self, container: str) -> str | None:
        """A container is gone, or was given back: whose it was."""
        held = self.held.pop(container, None)
        if held is None:
            return None
        if self._place_of.get(held.member) == container:
            del self._place_of[held.member]
        return held.member

    # ---- what is wanted -------------------------------------------------------------------------

    def missing(self, now: float, barred: Collection[str] = ()) -> Mapping[str, int]:
        """Role -> how many more containers to ask for now. `barred` members must wait."""
        counts: dict[str, int] = {}
        for member in self.needed:
            counts.setdefault(role_of(member), 0)
            if now >= self._paused_until and member not in self._place_of and member not in barred:
                counts[role_of(member)] += 1
        return counts

    def surplus(self) -> list[str]:
        """Containers of members that nobody needs."""
        needed = set(self.needed)
        return [c for c, held in self.held.items() if held.member not in needed]

    # ---- giving way -----------------------------------------------------------------------------

    def give_way(self, now: float, chance: float) -> list[str]:
        """The containers to give back because the rest of the gang did not come; mostly none.

        To be asked only while the gang cannot start with what is held."""
        if not self.held or now < self.gives_way_at:
            return []
        self._tries += 1
        pause = self._patience.pause_for(now - self._born, self._tries, chance)
        self._paused_until = now + pause
        self._progress = self._paused_until
        return list(self.held)

    @property
    def gives_way_at(self) -> float:
        """When a part of a gang, with no container coming, will be given back."""
        return self._progress + self._patience.hold_for(self._progress - self._born)

    @property
    def asks_again_at(self) -> float:
        """When the pause after giving way is over; in the past when there is none."""
        return self._paused_until
