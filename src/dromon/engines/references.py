"""Which job somebody means: by a number, its name, the beginning of its id, or how long ago it
was. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dromon.engines.base import JobRef
from dromon.errors import AmbiguousJob


def find(ref: str, ids: Sequence[JobRef], numbers: Mapping[int, JobRef]) -> JobRef | None:
    """Among one user's jobs, the newest first; None: none of them."""
    if ref in ids:
        return ref
    if ref.isdecimal():
        return numbers.get(int(ref))
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
