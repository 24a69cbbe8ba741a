"""Which job somebody means: by the number of its application, its name, the beginning of its id,
or how long ago it was. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dromon.engines.base import JobRef
from dromon.engines.yarn.application import id_of
from dromon.engines.yarn.reports import Report
from dromon.engines.yarn.statuses import number_of
from dromon.errors import AmbiguousJob


def find(ref: str, reports: Sequence[Report]) -> JobRef | None:
    """Among one user's applications, the newest first; None: none of them."""
    ids = [id for report in reports if (id := id_of(report.tags))]
    if ref.isdecimal():
        numbered = [id_of(r.tags) for r in reports if number_of(r) == int(ref)]
        return next((id for id in numbered if id), None)
    if ref == "@last" or ref.startswith("@last~"):
        steps = ref.partition("~")[2] or "0"
        back = int(steps) if steps.isdecimal() else len(ids)
        return ids[back] if back < len(ids) else None
    named = [id for id in ids if id.rpartition("-")[0] == ref]
    if named:
        return named[0]  # of several with that name the newest
    begun = list(dict.fromkeys(id for id in ids if id.startswith(ref)))
    if len(begun) > 1:
        raise AmbiguousJob(f"{ref} may be {', '.join(begun[:5])}")
    return begun[0] if begun else None
