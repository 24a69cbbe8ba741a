"""When nodes have room for members of one kind, in order."""

from array import array
from bisect import bisect_left, bisect_right
from math import inf

from dromon.sched.index import NodeIndex
from dromon.sched.job import Role
from dromon.sched.node import Node
from dromon.sched.slots import first_slot


class SlotTimes:
    """For members of one kind: when each node has room for the first of them. Kept between
    decisions; only nodes that changed are looked at again, and only once somebody has to know."""

    def __init__(self, nodes: dict[int, Node], role: Role, index: NodeIndex) -> None:
        self.role = role
        self.nodes = nodes
        self.index = index
        self.times: dict[int, float] = {}
        # When nodes have room, soonest first, and their numbers beside it; packed, for they are
        # searched all the time.
        self.moments = array("d")
        self.numbers = array("i")
        self._look_at_all()

    def _look_at_all(self) -> None:
        self.log, self.seen = self.index.log, len(self.index.log)
        nodes = self.nodes.items()
        times = {number: first_slot(node, self.role) for number, node in nodes if node.is_open}
        order = sorted((time, number) for number, time in times.items() if time < inf)
        self.times = times
        self.moments = array("d", [time for time, _ in order])
        self.numbers = array("i", [number for _, number in order])

    def last_read(self) -> tuple[bool, int]:
        """The larger, the later: how far it has read the log of changes."""
        return self.log is self.index.log, self.seen

    def refresh(self) -> None:
        log = self.index.log
        if self.log is not log:
            return self._look_at_all()
        if self.seen == len(log):
            return
        times, role, nodes = self.times, self.role, self.nodes
        gpus, is_bare = role.gpus, role.is_bare
        for number in set(log[self.seen :]):
            node, before = nodes.get(number), times.get(number, inf)
            if node is None or not node.is_open:
                first = inf
            elif is_bare and node.counts and gpus < len(node.counts):
                first = node.counts[gpus]  # as `first_slot` says: there are many to be asked
            else:
                first = first_slot(node, role)
            if before != first:
                times[number] = first
                if before < inf:
                    self._take_out(number, before)
                if first < inf:
                    self._put_in(number, first)
        self.seen = len(log)

    def _take_out(self, number: int, time: float) -> None:
        at = bisect_left(self.moments, time)
        if self.numbers[at] != number:
            at = self._among_equals(number, time, at)
        del self.moments[at], self.numbers[at]

    def _put_in(self, number: int, time: float) -> None:
        moments = self.moments
        at = bisect_left(moments, time)
        if at < len(moments) and moments[at] == time:
            at = self._among_equals(number, time, at)
        moments.insert(at, time)
        self.numbers.insert(at, number)

    def _among_equals(self, number: int, time: float, at: int) -> int:
        return bisect_left(self.numbers, number, at, bisect_right(self.moments, time, at))

    def soonest(self) -> tuple[float, int] | None:
        """The one node that has room before all others; None: there are several, or none."""
        self.refresh()
        moments = self.moments
        if not moments or (len(moments) > 1 and moments[1] <= moments[0]):
            return None
        return moments[0], self.numbers[0]

    def first(self) -> float:
        """When the first node has room; inf: none ever has."""
        self.refresh()
        return self.moments[0] if self.moments else inf

    def before(self, time: float, enough: int) -> int:
        """How many nodes have room before then; where it is enough, there may be more."""
        log = self.index.log
        if self.log is log:
            at, changed = bisect_left(self.moments, time), len(log) - self.seen
            if at - changed >= enough:
                return at - changed
            if changed and at >= enough:
                sure = 0  # of those that had room, most still have it: each is asked again
                for place in range(at):
                    node = self.nodes.get(self.numbers[place])
                    if node is not None and node.is_open and first_slot(node, self.role) < time:
                        sure += 1
                        if sure == enough:
                            return sure
        self.refresh()
        return bisect_left(self.moments, time)
