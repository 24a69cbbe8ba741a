"""What each queue is owed, in amounts: weights divided, and what a parent needs for its children.

Pure arithmetic over a site that was checked.
"""

import math
from collections.abc import Iterator

from dromon.clusters.site import ROOT, Queue, Site, known

Owed = dict[str, float]
KEYS = ("cpus", "memory", "gpus")
PIECE = {"cpus": 1, "memory": 2**20, "gpus": 1}  # the least that is divided


def in_order(site: Site, above: str = ROOT) -> Iterator[tuple[str, Queue]]:
    """Parents before their children, else by name: a cluster takes them in this order."""
    for name, queue in sorted(site.children(above).items()):
        yield name, queue
        yield from in_order(site, name)


def shares(site: Site) -> dict[str, Owed]:
    """By queue; a queue that is owed nothing has an empty one."""
    found: dict[str, Owed] = {}
    _divide(site, ROOT, known(site.total), found)
    for name, _ in reversed(list(in_order(site))):
        _cover(site, name, found)
    return found


def guarantees(site: Site) -> dict[str, Owed]:
    """A parent keeps what its children are promised, or what it says, whichever is more."""
    found = {name: known(queue.guarantee) for name, queue in site.queues.items()}
    for name, _ in reversed(list(in_order(site))):
        _cover(site, name, found)
    return found


def _divide(site: Site, above: str, have: Owed, found: dict[str, Owed]) -> None:
    children = site.children(above)
    given = {name: known(queue.share) for name, queue in children.items()}
    weights = {name: queue.weight for name, queue in children.items() if queue.weight is not None}
    for key in KEYS:
        if not weights or key not in have:
            continue
        left = max(0.0, have[key] - sum(owed.get(key, 0) for owed in given.values()))
        for name, weight in weights.items():
            part = left * weight / sum(weights.values())
            owed = math.floor(part / PIECE[key]) * PIECE[key]
            cap = known(children[name].cap).get(key, owed)
            given[name][key] = max(min(owed, cap), known(children[name].guarantee).get(key, 0))
    for name in children:
        found[name] = given[name]
        _divide(site, name, given[name], found)


def _cover(site: Site, name: str, found: dict[str, Owed]) -> None:
    for key in KEYS:
        below = sum(found[child].get(key, 0) for child in site.children(name))
        if below > found[name].get(key, 0):
            found[name][key] = below
