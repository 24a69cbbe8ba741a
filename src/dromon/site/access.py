"""Who may do what, by a site file: submit to a queue, use a class of priority, change things."""

from collections.abc import Iterator, Set

from dromon.site.model import People, Site


def is_among(people: People | None, user: str, groups: Set[str]) -> bool:
    """Nobody named means everybody."""
    return people is None or user in people.users or not groups.isdisjoint(people.groups)


def is_admin(site: Site, user: str, groups: Set[str]) -> bool:
    """Only who is named: no list, no administrators."""
    return site.admins is not None and is_among(site.admins, user, groups)


def may_submit(site: Site, queue: str, user: str, groups: Set[str]) -> bool:
    """To this queue and to all above it; a queue no file names is everybody's."""
    return all(is_among(people, user, groups) for people in _named(site, queue))


def is_for_all(site: Site, queue: str) -> bool:
    """Whoever it is may submit to it."""
    return all(people is None for people in _named(site, queue))


def _named(site: Site, queue: str) -> Iterator[People | None]:
    """Who may submit to it, and to each above it."""
    at: str | None = queue
    while at is not None and at in site.queues:
        yield site.queues[at].submit
        at = site.queues[at].parent


def may_use(site: Site, priority: str, user: str, groups: Set[str]) -> bool:
    """Whether this class of priority is theirs to ask for."""
    known = site.priorities.get(priority)
    return known is None or is_among(known.submit, user, groups)


def told(people: People) -> str:
    """ "ann, bob and the group ops", for a sentence that says who may."""
    words = [*people.users, *(f"the group {group}" for group in people.groups)]
    if not words:
        return "nobody"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
