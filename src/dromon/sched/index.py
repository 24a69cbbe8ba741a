"""Open nodes by what is free on them, so that the one a member fills best is found at once.

Nodes of the same labels and kinds of GPUs form a group; in it they lie in buckets by wholly free
GPUs, sorted by CPUs, memory and number. Nodes with shared devices stand apart and are looked at
one by one.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterator

from dromon.sched.job import Role
from dromon.sched.node import Node

MANY = 1 << 30
Entry = tuple[int, int, int, Node]
Score = tuple[float, int, int, int]  # GPUs, CPUs, memory left, number in turn


class Group:
    __slots__ = ("buckets", "filled", "kinds", "labels", "mixed")

    def __init__(self, labels: frozenset[str], kinds: tuple[str, ...]) -> None:
        self.labels = labels
        self.kinds = kinds
        self.buckets: list[list[Entry]] = []
        self.filled = 0  # bit n: bucket n has somebody
        self.mixed: dict[int, Node] = {}

    def suits(self, role: Role) -> bool:
        if role.label is not None and role.label not in self.labels:
            return False
        return role.kind is None or role.kind in self.kinds


class NodeIndex:
    def __init__(self) -> None:
        self.groups: dict[tuple[frozenset[str], tuple[str, ...]], Group] = {}
        # No node has more wholly free GPUs than this, unless it has shared ones too.
        self.most = -1
        self.listeners: list[dict[int, Node]] = []  # told which nodes have changed
        self._changed: dict[int, Node] = {}  # of which they were not told yet

    def update(self, node: Node) -> None:
        """The node has changed."""
        node.ends = node.counts = None
        self._changed[node.number] = node
        entry, count, is_open = node.entry, node.mask.bit_count(), node.is_open
        group = self.groups.get(node.group)
        if group is None:
            group = self.groups[node.group] = Group(*node.group)
        if entry is not None:
            is_same = node.bucket == count and entry[0] == node.cpus and entry[1] == node.memory
            if is_same and is_open:
                return
            self._remove(group, node, entry)
        if not is_open:
            return
        node.entry = entry = (node.cpus, node.memory, node.number, node)
        if node.parts:
            node.bucket = -1
            group.mixed[node.number] = node
            self.most = MANY
            return
        node.bucket = count
        while len(group.buckets) <= count:
            group.buckets.append([])
        insort(group.buckets[count], entry)
        group.filled |= 1 << count
        if count > self.most:
            self.most = count

    def _remove(self, group: Group, node: Node, entry: Entry) -> None:
        node.entry = None
        if node.bucket < 0:
            del group.mixed[node.number]
            return self._find_most()
        bucket = group.buckets[node.bucket]
        if len(bucket) > 1:
            del bucket[bisect_left(bucket, entry)]
            return
        bucket.clear()
        group.filled ^= 1 << node.bucket
        if node.bucket == self.most:
            self._find_most()

    def tell(self) -> None:
        """Each listener which nodes have changed since the last time."""
        if self._changed:
            for changed in self.listeners:
                changed.update(self._changed)
            self._changed.clear()

    def _find_most(self) -> None:
        self.most = -1
        for group in self.groups.values():
            if group.mixed:
                self.most = MANY
                return
            self.most = max(self.most, group.filled.bit_length() - 1)

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
            if (group.filled >> role.gpus or group.mixed) and group.suits(role):
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
