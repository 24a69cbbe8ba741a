"""A compiled request against the site's rules, at submit: who may, which class, how long.

What depends on other jobs (limits, how many wait) is the scheduler's to judge; here is what the
site file alone decides. Pure.
"""

from collections.abc import Mapping, Set
from typing import Any

from dromon.engines.gang import priority
from dromon.errors import Refused
from dromon.site import access
from dromon.site.model import DEFAULT, Queue, Site
from dromon.spec.words import choice, nearest
from dromon.units import format_duration

Request = Mapping[str, Any]


def admitted(site: Site, request: Request, user: str, groups: Set[str]) -> dict[str, Any]:
    """The request with its priority as a number and, where its queue says how long jobs may run,
    with that; or Refused."""
    queue, gang = str(request["queue"]), dict(request["gang"])
    theirs = [q for q in site.queues if _is_open_to(site, q, user, groups)]
    _may_enter(site, queue, user, groups, theirs)
    most, asked = longest(site, queue), gang["max_duration"]
    if most is not None and asked is not None and asked > most:
        takers = [q for q in theirs if asked <= (longest(site, q) or asked)]
        raise Refused(
            f"max_duration {format_duration(asked)} is more than queue {queue} gives, "
            f"{format_duration(most)}",
            hint=f"Queue {' or '.join(takers)} would take it." if takers else "Ask for less.",
        )
    if not request["preemptible"] and not may_stay(site, queue):
        takers = [q for q in theirs if may_stay(site, q)]
        other = f", or use queue {' or '.join(takers)}" if takers else ""
        raise Refused(
            f"queue {queue} takes no job that says preemptible: false",
            hint=f"Leave it out{other}.",
        )
    gang["max_duration"] = asked or most
    value = _priority(site, request["job"].get("priority"), user, groups)
    return {**request, "priority": value, "gang": gang}


def may_stay(site: Site, queue: str) -> bool:
    """Whether a job in it may say that it does not give way."""
    return all(each.non_preemptible for each in _path(site, queue))


def _is_open_to(site: Site, name: str, user: str, groups: Set[str]) -> bool:
    is_open = all(each.open for each in _path(site, name))
    return is_open and site.is_leaf(name) and access.may_submit(site, name, user, groups)


def longest(site: Site, queue: str) -> float | None:
    """How long a job may run in it: the least of what it and those above it say."""
    found = [each.max_duration for each in _path(site, queue) if each.max_duration is not None]
    return min(found) if found else None


def _path(site: Site, queue: str) -> list[Queue]:
    found, at = [], site.queues.get(queue)
    while at is not None:
        found.append(at)
        at = site.queues.get(at.parent or "")
    return found


def _may_enter(site: Site, name: str, user: str, groups: Set[str], theirs: list[str]) -> None:
    if not site.queues or (name == DEFAULT and name not in site.queues):
        return
    yours = f"Open to you: {', '.join(theirs)}." if theirs else "No queue here is open to you."
    if name not in site.queues:
        near = nearest(name, theirs)
        hint = f"{near[:1].upper()}{near[1:]}" if near else f"{yours} `dromon queues` shows all."
        raise Refused(f"there is no queue {name!r} here", hint=hint)
    if not site.is_leaf(name):
        below = ", ".join(site.children(name))
        raise Refused(f"queue {name} takes no jobs itself: it is divided among {below}", hint=yours)
    for each in _path(site, name):
        if not access.is_among(each.submit, user, groups) and each.submit is not None:
            raise Refused(
                f"{user} may not submit to queue {name}, only {access.told(each.submit)} may",
                hint=yours,
            )
        if not each.open:
            raise Refused(f"queue {name} is drained: it takes nothing new", hint=yours)


def _priority(site: Site, asked: str | int | None, user: str, groups: Set[str]) -> int:
    classes = {name: each.value for name, each in site.priorities.items()}
    if not classes:
        return priority("normal" if asked is None else asked)
    if asked is None:
        named = next((name for name, each in site.priorities.items() if each.default), "normal")
        return classes.get(named, 0)
    theirs = [name for name in classes if access.may_use(site, name, user, groups)]
    known = f"Classes open to you: {', '.join(theirs) or 'none'}."
    if isinstance(asked, int):
        # Else a number would be a way around who may use which class.
        if asked not in {classes[name] for name in theirs}:
            raise Refused(f"priority {asked} is no class of this site that is yours", hint=known)
        return asked
    if asked not in classes:
        raise Refused(f"priority {asked!r} is no class", hint=_choice(asked, theirs) or known)
    if asked not in theirs:
        people = site.priorities[asked].submit
        assert people is not None
        raise Refused(
            f"{user} may not use priority {asked}, only {access.told(people)} may", hint=known
        )
    return classes[asked]


def _choice(word: str, known: list[str]) -> str:
    said = choice(word, known) if known else ""
    return f"{said[:1].upper()}{said[1:]}{'' if said.endswith('?') else '.'}" if said else ""
