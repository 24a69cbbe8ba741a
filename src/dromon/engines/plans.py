"""What an engine would be asked for, beside what it cannot give. For engines that compile in the
client; the local one plans in its daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dromon.engines.base import Engine
from dromon.errors import EngineError

if TYPE_CHECKING:
    from dromon.engines.intake import Taken


def planned(engine: Engine, taken: Taken) -> dict[str, Any]:
    """Compiling is pure; only what the engine can give has to be asked, and may stay unknown."""
    made = engine.compile(taken.launch)
    notes = list(taken.notes)
    found: dict[str, Any] = {"engine": made.engine, "id": made.id, "request": made.request}
    wanted = taken.job.stop_grace
    try:
        can = engine.probe()
    except EngineError as error:
        notes.append(f"what it can give could not be asked: {error.message}")
        return {**found, "lacks": {}, "enforced": {}, "grace": wanted, "notes": notes}
    lacks = {key: why for key, why in can.lacks.items() if is_asked(taken.launch.job, key)}
    grace = wanted if can.grace is None else min(wanted, can.grace)
    if grace < wanted:
        notes.append(f"stop_grace: {wanted:g} s asked, {grace:g} s in effect")
    return {**found, "lacks": lacks, "enforced": can.enforced, "grace": grace, "notes": notes}


def is_asked(job: Mapping[str, Any], key: str) -> bool:
    """Whether the job file says anything under `a.b.c`; a role's key counts for any role."""
    parts = key.split(".")
    places = [job, *(job.get("roles") or {}).values()]
    return any(_at(place, parts) for place in places)


def _at(place: Any, parts: list[str]) -> bool:
    for part in parts:
        if not isinstance(place, Mapping) or part not in place:
            return False
        place = place[part]
    return place not in (None, "", [], {}, False)
