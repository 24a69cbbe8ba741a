"""What was used over time: GPU-hours in a window of the calendar, and usage that fades. UTC.

Pure arithmetic on seconds since 1970: no calendar of the machine is asked.
"""

from math import inf, log
from typing import Final

from dromon.sched.asks import GPUS
from dromon.sched.job import NOTHING, Demand
from dromon.sched.rules import DAY, WEEK

DAY_SECONDS: Final = 86400
LN2 = log(2)


def window_start(now: float, per: str) -> float:
    """When the day, the week (from Monday) or the month began."""
    day = int(now // DAY_SECONDS)
    if per == DAY:
        return day * DAY_SECONDS
    if per == WEEK:
        return (day - (day + 3) % 7) * DAY_SECONDS  # the first of 1970 was a Thursday
    year, month = _month(day)
    return _first_day(year, month) * DAY_SECONDS


def window_end(now: float, per: str) -> float:
    if per == DAY:
        return window_start(now, per) + DAY_SECONDS
    if per == WEEK:
        return window_start(now, per) + 7 * DAY_SECONDS
    year, month = _month(int(now // DAY_SECONDS))
    return _first_day(year + month // 12, month % 12 + 1) * DAY_SECONDS


def _first_day(year: int, month: int) -> int:
    """Days from 1970 to the first of a month; years begin in March, so leap days come last."""
    shifted = year - (month < 3)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def _month(day: int) -> tuple[int, int]:
    year = 1970 + day // 366
    while _first_day(year + 1, 1) <= day:
        year += 1
    month = 12
    while _first_day(year, month) > day:
        month -= 1
    return year, month


class Ledger:
    """GPU-seconds (in thousandths) used in the present window, those that run included."""

    __slots__ = ("last", "limit", "per", "rate", "used")

    def __init__(self, gpu_hours: float, per: str) -> None:
        self.limit = gpu_hours * 3600 * 1000
        self.per = per
        self.used = 0.0
        self.rate = 0  # thousandths of GPUs held now
        self.last = 0.0

    def at(self, now: float) -> float:
        begin = window_start(now, self.per)
        if begin > self.last:
            return self.rate * (now - begin)
        return self.used + self.rate * max(0.0, now - self.last)

    def change(self, demand: Demand, sign: int, now: float) -> None:
        self.used = self.at(now)
        self.last = max(now, self.last)
        self.rate += sign * demand.get(GPUS, 0)

    def add(self, demand: Demand, start: float, end: float) -> None:
        """What was held between two times that are over; in any order."""
        self.used = self.at(end)
        self.last = max(self.last, end)
        begin = window_start(self.last, self.per)
        self.used += demand.get(GPUS, 0) * max(0.0, end - max(start, begin))

    def is_spent(self, now: float) -> bool:
        return self.at(now) >= self.limit

    def spent_at(self, now: float) -> float:
        """When it will be, if the same is held until then and the window does not turn. inf: it is
        already, or never."""
        left = self.limit - self.at(now)
        return now + left / self.rate if left > 0 and self.rate > 0 else inf


def take_over(new: list[Ledger], old: list[Ledger]) -> None:
    """What was used stays used, where the new rules count it in the same way."""
    for ledger, earlier in zip(new, old, strict=False):
        if ledger.per == earlier.per:
            ledger.used, ledger.last = earlier.used, earlier.last


class Past:
    """Usage that fades by half in each half-life."""

    __slots__ = ("half_life", "last", "sums")

    def __init__(self, half_life: float) -> None:
        self.half_life = half_life
        self.last = 0.0
        self.sums: dict[str, float] = {}

    def at(self, usage: Demand, now: float) -> dict[str, float]:
        """Amount x seconds, faded until now, with what has been held since the last change."""
        passed = max(0.0, now - self.last)
        if not passed:
            return self.sums
        factor = 0.5 ** (passed / self.half_life)
        since = self.half_life / LN2 * (1 - factor)
        return {
            r: self.sums.get(r, 0.0) * factor + usage.get(r, 0) * since
            for r in self.sums.keys() | usage.keys()
        }

    def settle(self, usage: Demand, now: float) -> None:
        """Before the usage changes."""
        self.sums = self.at(usage, now)
        self.last = max(now, self.last)

    def add(self, usage: Demand, demand: Demand, start: float, end: float) -> None:
        """What was held besides `usage` between two times that are over; in any order."""
        self.settle(usage, end)
        sums, half = dict(self.sums), self.half_life
        left = 0.5 ** ((self.last - end) / half) - 0.5 ** ((self.last - start) / half)
        for resource, amount in demand.items():
            sums[resource] = sums.get(resource, 0.0) + amount * half / LN2 * left
        self.sums = sums

    def share(self, usage: Demand, deserved: dict[str, float], now: float) -> float:
        scale = self.half_life / LN2
        found = self.at(usage, now)
        return max((_part(found.get(r, 0.0), amount * scale) for r, amount in deserved.items()),
                   default=0.0)  # fmt: skip


def _part(used: float, deserved: float) -> float:
    if deserved > 0:
        return used / deserved
    return float("inf") if used > 0 else 0.0


def shares_of(usage: Demand, own: Demand, deserved: dict[str, float]) -> tuple[float, float]:
    """Of those who hold something together, and of one of them, at once."""
    best = mine = 0.0
    for resource, used in usage.items():
        amount = deserved.get(resource)
        if used and amount is not None:
            part = used / amount if amount > 0 else inf
            if part > best:
                best = part
            held = own.get(resource)
            if held:
                part = held / amount if amount > 0 else inf
                if part > mine:
                    mine = part
    return best, mine


def share_of(usage: Demand, deserved: dict[str, float]) -> float:
    """The dominant part of what is deserved; `deserved` names only what there is at all."""
    return shares_of(usage, NOTHING, deserved)[0]
