"""Who somebody is, by the number the kernel gives: name, groups, whether they may do anything.

Nothing here believes a word of anybody's message.
"""

import grp
import os
import pwd
import time
from dataclasses import dataclass

KEPT = 60.0  # seconds: a directory service need not be asked at every message


@dataclass(frozen=True, slots=True)
class Person:
    uid: int
    name: str
    groups: frozenset[str]


class People:
    def __init__(self) -> None:
        self._known: dict[int, tuple[float, Person]] = {}

    def of(self, uid: int) -> Person:
        now = time.monotonic()
        kept = self._known.get(uid)
        if kept is None or now - kept[0] > KEPT:
            kept = self._known[uid] = (now, person(uid))
        return kept[1]


def person(uid: int) -> Person:
    """Without a name in this system: the number is the name, and there are no groups."""
    try:
        found = pwd.getpwuid(uid)
        groups = os.getgrouplist(found.pw_name, found.pw_gid)
    except (KeyError, OSError):
        return Person(uid, str(uid), frozenset())
    return Person(uid, found.pw_name, frozenset(map(_group, groups)))


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except (KeyError, OSError):
        return str(gid)
