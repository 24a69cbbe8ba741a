"""Who goes before whom: whoever has the smaller share, and of equals whoever has waited longer.

Users of a queue take turns, and so do the queues under one parent.
"""

from bisect import bisect_left, insort
from typing import Any, Final, Generic, TypeVar

NOBODY: Final = 1 << 61  # later than any job; and still a short number when compiled
FEW: Final = 8  # who are put off, so that these are soon looked through


class Party:
    """Somebody who takes turns with others of its kind. `stood`, `equals`: by what age and among
    whom it was put where it is; things may have changed since."""

    __slots__ = ("age", "equals", "share", "stood")

    def __init__(self) -> None:
        self.share = 0.0
        # The seq of its job that has waited longest. NOBODY: it has none, and is nowhere.
        self.age = self.stood = NOBODY
        self.equals: Equals[Any] | None = None

    def is_in_place(self) -> bool:
        equals = self.equals
        if equals is None:
            return self.age == NOBODY
        return self.age == self.stood and self.share == equals.share


P = TypeVar("P", bound=Party)


class Equals(Generic[P]):
    """Those of one share, by age: in a cluster that is shared fairly most are equals."""

    __slots__ = ("ages", "share", "whose")

    def __init__(self, share: float) -> None:
        self.share = share
        self.ages: list[int] = []
        self.whose: list[P] = []


class Turns(Generic[P]):
    __slots__ = ("_misplaced", "equals", "shares")

    def __init__(self) -> None:
        self.shares: list[float] = []  # in order
        self.equals: dict[float, Equals[P]] = {}
        # Those put off, who may have moved: what one job gives back the next one often takes, so
        # that in the end nobody has.
        self._misplaced: dict[P, None] = {}

    def put_off(self, who: P) -> None:
        """It may belong elsewhere now: it is moved when this is asked for, or not at all."""
        self._misplaced[who] = None
        if len(self._misplaced) > FEW:
            self.settle()

    def settle(self) -> None:
        """Move those put off: from here on all stand in order."""
        for who in self._misplaced:
            if not who.is_in_place():
                self.move(who)
        self._misplaced.clear()

    def move(self, who: P) -> None:
        """Where it belongs now."""
        if who.equals is not None:
            self.take(who)
        if who.age != NOBODY:
            self._put(who)

    def _put(self, who: P) -> None:
        share, age = who.share, who.age
        equals = self.equals.get(share)
        if equals is None:
            equals = self.equals[share] = Equals(share)
            insort(self.shares, share)
        at = bisect_left(equals.ages, age)
        equals.ages.insert(at, age)
        equals.whose.insert(at, who)
        who.equals, who.stood = equals, age

    def take(self, who: P) -> None:
        """Away, whoever was put."""
        equals: Equals[P] | None = who.equals
        assert equals is not None
        at = bisect_left(equals.ages, who.stood)
        equals.ages.pop(at)
        equals.whose.pop(at)
        if not equals.ages:
            del self.equals[equals.share]
            self.shares.pop(bisect_left(self.shares, equals.share))
        who.equals = None

    def first(self) -> P | None:
        misplaced = self._misplaced
        best = self._first_in_place()
        for who in misplaced:
            if who.age != NOBODY and (
                best is None or who.share < best.share
                or (who.share == best.share and who.age < best.age)
            ):  # fmt: skip
                best = who
        return best

    def _first_in_place(self) -> P | None:
        for share in self.shares:
            for who in self.equals[share].whose:
                if who not in self._misplaced:
                    return who
        return None
