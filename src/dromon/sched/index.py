"""Open nodes by what is free on them, so that the one a member fills best is found at once.

Nodes of the same labels and kinds of GPUs form a group; in it they lie in buckets by wholly free
GPUs, sorted by CPUs, memory and number. Nodes with shared devices stand apart and are looked at
one by one; so do those without a free GPU, unsorted, until somebody asks for none.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterator
from typing import Final

from dromon.sched.job import Role
from dromon.sched.node import MIXED, OUT, SPENT, Node

MANY: Final = 1 << 30
LONG: Final = 100_000  # of a log
Entry = tuple[int, int, int, Node]
Score = tuple[float, int, int, int]  # GPUs, CPUs, memory left, number in turn


class Group:
    __slots__ = ("buckets", "filled", "is_sorted", "kinds", "labels", "mixed", "spent")

    def __init__(self, labels: frozenset[str], kinds: tuple[str, ...]) -> None:
        self.labels = labels
        self.kinds = kinds
        self.buckets: list[list[Entry]] = [[]]
        self.filled = 0  # bit n: bucket n has somebody
        self.mixed: dict[int, Node] = {}
        self.spent: dict[int, Node] = {}  # without a free GPU, while nobody asks for these
        self.is_sorted = False  # they are in their bucket

    def suits(self, role: Role) -> bool:
        if role.label is not None and role.label not in self.labels:
            return False
        return role.kind is None or role.kind in self.kinds

    def sort(self) -> None:
        """From now on those without a free GPU are kept like all others."""
        self.is_sorted = True
        for node in self.spent.values():
            node.bucket = 0
            node.entry = (node.cpus, node.memory, node.number, node)
            self.buckets[0].append(node.entry)
        self.buckets[0].sort()
        self.filled |= bool(self.spent)
        self.spent = {}


class NodeIndex:
    def __init__(self) -> None:
        self.groups: dict[tuple[frozenset[str], tuple[str, ...]], Group] = {}
        # No node has more wholly free GPUs than this, unless it has shared ones too.
        self.most = -1
        # Numbers of nodes that have changed, in order. Whoever has read another log than this has
        # to look at all of them.
        self.log: list[int] = []

    def update(self, node: Node) -> None:
        """The node has changed."""
        node.ends = node.counts = node.by_time = None
        log = self.log
        log.append(node.number)
        if len(log) > LONG:
            self.log = []
        bucket, count = node.bucket, node.mask.bit_count()
        is_same = bucket == count and node.entry == (node.cpus, node.memory, node.number, node)
        if is_same and node.is_open:
            return
        group = node.shelf
        if group is None:
            group = node.shelf = self._group(node)
        if bucket != OUT:
            self._remove(group, node)
        if not node.is_open:
            node.bucket = OUT
        elif node.parts:
            node.bucket = MIXED
            group.mixed[node.number] = node
            self.most = MANY
        elif count or group.is_sorted:
            self._insert(group, node, count)
        else:
            node.bucket = SPENT
            group.spent[node.number] = node
            if self.most < 0:
                self.most = 0

    def _group(self, node: Node) -> Group:
        found = self.groups.get(node.group)
        if found is None:
            found = self.groups[node.group] = Group(*node.group)
        return found

    def _insert(self, group: Group, node: Node, count: int) -> None:
        node.bucket = count
        node.entry = entry = (node.cpus, node.memory, node.number, node)
        while len(group.buckets) <= count:
            group.buckets.append([])
        insort(group.buckets[count], entry)
        group.filled |= 1 << count
        if count > self.most:
            self.most = count

    def _remove(self, group: Group, node: Node) -> None:
        at = node.bucket
        if at == SPENT:
            del group.spent[node.number]
            if not group.spent and not self.most:
                self._find_most()
        elif at == MIXED:
            del group.mixed[node.number]
            self._find_most()
        else:
            bucket, entry, node.entry = group.buckets[at], node.entry, None
            assert entry is not None
            if len(bucket) > 1:
                del bucket[bisect_left(bucket, entry)]
                return
            bucket.clear()
            group.filled ^= 1 << at
            if at == self.most:
                self._find_most()

    def _find_most(self) -> None:
        self.most = -1
        for group in self.groups.values():
            if group.mixed:
                self.most = MANY
                return
            least = 0 if group.spent else -1
            self.most = max(self.most, group.filled.bit_length() - 1, least)

    def has_shared(self) -> bool:
        """Are there nodes with shared devices?"""
        return self.most == MANY

    def with_some(self, most: int) -> list[Node] | None:
        """Nodes with wholly free GPUs; None: there are more than so many, or some are shared."""
        found: list[Node] = []
        for group in self.groups.values():
            if group.mixed:
                return None
            filled = group.filled & ~1
            while filled:
                bucket = group.buckets[(filled & -filled).bit_length() - 1]
                if len(found) + len(bucket) > most:
                    return None
                found += [entry[3] for entry in bucket]
                filled &= filled - 1
        return found

    def only(self) -> Node | None:
        """The node that has wholly free GPUs; None: there are several or none, or shared ones."""
        found = None
        for group in self.groups.values():
            filled = group.filled & ~1
            if filled:
                bucket = group.buckets[filled.bit_length() - 1]
                if found is not None or filled & (filled - 1) or len(bucket) > 1:
                    return None
                found = bucket[0][3]
            if group.mixed:
                return None
        return found

    def may_fit(self, role: Role) -> bool:
        """False: no node has GPUs enough for one member."""
        for group in self.groups.values():
            has_room = group.filled >> role.gpus or group.mixed or (group.spent and not role.gpus)
            if has_room and group.suits(role):
                return True
        return False

    def best(
        self,
        role: Role,
        pivot: int,
        turn: Callable[[int], int],
        without: Container[int],
    ) -> tuple[Score, Node] | None:
        """The open node, not one of `without`, that one member (of whole GPUs) fills best."""
        best: tuple[Score, Node] | None = None
        for group in self.groups.values():
            if not group.suits(role):
                continue
            for found in self._in_group(group, role, pivot, without):
                score = (float(found.gpus_left), found.cpus, found.memory, turn(found.number))
                if best is None or score < best[0]:
                    best = (score, found)
        return best

    def first(self, role: Role, pivot: int, turn: Callable[[int], int]) -> Node | None:
        """The same node as of `best`, where nobody asks how well it is filled."""
        if len(self.groups) == 1:
            for group in self.groups.values():
                if not group.mixed:
                    return _in_buckets(group, role, pivot, ()) if group.suits(role) else None
        best = self.best(role, pivot, turn, ())
        return None if best is None else best[1]

    def _in_group(
        self, group: Group, role: Role, pivot: int, without: Container[int]
    ) -> Iterator[Node]:
        for node in group.mixed.values():
            if node.number not in without and fits(node, role):
                yield node
        found = _in_buckets(group, role, pivot, without)
        if found is not None:
            yield found


def _in_buckets(group: Group, role: Role, pivot: int, without: Container[int]) -> Node | None:
    if not role.gpus and not group.is_sorted:
        group.sort()
    filled = group.filled >> role.gpus << role.gpus
    while filled:
        bucket = group.buckets[(filled & -filled).bit_length() - 1]
        found = _first(bucket, role, pivot, without)
        if found is not None:
            return found
        filled &= filled - 1
    return None


def fits(node: Node, role: Role) -> bool:
    if role.is_bare:
        return node.mask.bit_count() >= role.gpus
    return (
        node.cpus >= role.cpus
        and node.memory >= role.memory
        and (node.mask & node.kind_mask(role.kind)).bit_count() >= role.gpus
    )


def _first(bucket: list[Entry], role: Role, pivot: int, without: Container[int]) -> Node | None:
    """The first that fits; among equals, the first from the pivot on, around the corner."""
    start = bisect_left(bucket, (role.cpus, 0)) if role.cpus else 0
    found: Entry | None = None
    for at in range(start, len(bucket)):
        entry = bucket[at]
        if found is not None and (entry[0] != found[0] or entry[1] != found[1]):
            break
        node = entry[3]
        if node.number in without or not fits(node, role):
            continue
        if entry[2] >= pivot:
            return node
        if found is None:
            found = entry
            # Equal ones from the pivot on come first; they lie further along.
            later = bisect_left(bucket, (entry[0], entry[1], pivot))
            for other in bucket[later:]:
                if other[0] != entry[0] or other[1] != entry[1]:
                    break
                if other[3].number not in without and fits(other[3], role):
                    return other[3]
            return node
    return found[3] if found is not None else None
