"""What everybody has used: spells in the arbiter's book, for budgets, shares and the report."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from dromon.engines.local import usage
from dromon.engines.local.journal import Journal, Spell
from dromon.engines.local.shared.entries import Entry
from dromon.sched.events import Event, Used


class Hears(Protocol):
    def apply(self, event: Event) -> None: ...


class Past:
    """`kinds` says of which kind a device is."""

    def __init__(self, book: Journal, kinds: Mapping[str, str]) -> None:
        self._book = book
        self._kinds = kinds

    def used(self, entry: Entry, now: float) -> None:
        """It no longer holds what it held."""
        if entry.started is not None and entry.placement:
            self._book.add_spell(self._spell(entry, now))

    def keep(self) -> None:
        self._book.commit()

    def spells(self, since: float, running: Iterable[Entry], now: float) -> list[Spell]:
        """With those that have not ended yet, as if they ended now."""
        under_way = (self._spell(entry, now) for entry in running if entry.started is not None)
        return [*self._book.spells(since), *under_way]

    def remember(self, scheduler: Hears, half_life: float | None, now: float) -> None:
        """Tell what was used in windows that still count."""
        for each in self._book.spells(now - usage.counts(half_life)):
            scheduler.apply(_used(each))

    def forget(self, half_life: float | None, now: float) -> None:
        """What is too old for any report."""
        self._book.forget_spells(now - usage.kept(half_life))
        self._book.commit()

    def under_way(self, scheduler: Hears, entry: Entry, now: float) -> None:
        """Tell what one that still runs has used so far; the scheduler counts on from now."""
        scheduler.apply(_used(self._spell(entry, now)))

    def _spell(self, entry: Entry, now: float) -> Spell:
        job, start = entry.job, entry.started or now
        held = usage.amounts(entry.placement, self._kinds)
        since = entry.since or job.time
        end = max(now, start)
        return Spell(entry.key, start, end, since, job.user, job.queue, job.priority, held)


def _used(spell: Spell) -> Used:
    return Used(spell.queue, spell.user, spell.priority, spell.amounts, spell.start, spell.end)
