"""What each queue is owed, in amounts: weights divided, and what a parent needs for its children.

Pure arithmetic over a site that was checked. For clusters that are told amounts; the scheduler of
this product divides by itself, among the nodes that are there.
"""

import math
from collections.abc import Iterator

from dromon.site.model import ROOT, Queue, Site, known, promised

Owed = dict[str, float]
MIB = 2**20  # memory is divided in these, all else in whole ones


def in_order(site: Site, above: str = ROOT) -> Iterator[tuple[str, Queue]]:
    """Parents before their children, else by name: a cluster takes them in this order."""
    for name, queue in sorted(site.children(above).items()):
        yield name, queue
        yield from in_order(site, name)


def deserved(site: Site) -> dict[str, Owed]:
    """By queue; a queue that is owed nothing has an empty one."""
    found: dict[str, Owed] = {}
    _divide(site, ROOT, promised(site.total), found)
    for name, _ in reversed(list(in_order(site))):
        _cover(site, name, found)
    return found


def guarantees(site: Site) -> dict[str, Owed]:
    """A parent keeps what its children are promised, or what it says, whichever is more."""
    found = {name: promised(queue.guarantee) for name, queue in site.queues.items()}
    for name, _ in reversed(list(in_order(site))):
        _cover(site, name, found)
    return found


def _divide(site: Site, above: str, have: Owed, found: dict[str, Owed]) -> None:
    children = site.children(above)
    given = {name: promised(queue.deserved) for name, queue in children.items()}
    weights = {name: queue.weight or 1 for name, queue in children.items() if not queue.deserved}
    for key, amount in have.items():
        left = max(0.0, amount - sum(owed.get(key, 0) for owed in given.values()))
        for name, weight in weights.items():
            piece = MIB if key == "memory" else 1
            owed = math.floor(left * weight / sum(weights.values()) / piece) * piece
            limit = known(children[name].limit).get(key, owed)
            least = promised(children[name].guarantee).get(key, 0)
            given[name][key] = max(min(owed, limit), least)
    for name in children:
        found[name] = given[name]
        _divide(site, name, given[name], found)


def _cover(site: Site, name: str, found: dict[str, Owed]) -> None:
    below = [found[child] for child in site.children(name)]
    for key in {key for owed in below for key in owed}:
        asked = sum(owed.get(key, 0) for owed in below)
        if asked > found[name].get(key, 0):
            found[name][key] = asked
