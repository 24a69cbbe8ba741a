"""FGD: where what is left stays most useful for the jobs that usually come.

A node's fragment is what of its free GPUs a member, drawn from the usual ones, could not use: all
of it when the member does not fit there, else the devices that have too little left for it. The
node whose fragment grows least is taken. After Weng et al., "Beware of Fragmentation" (ATC '23).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from math import exp
from typing import Final

from dromon.sched.asks import RoleAsk, milli
from dromon.sched.node import Node
from dromon.sched.placers.devices import after, asked, lefts

COVERED: Final = 0.95  # of the members that came; the rarest asks are left out
FORGOTTEN: Final = 200_000  # fragments remembered at most
USUAL: Final = tuple(RoleAsk("worker", 1, 1, gpus=gpus) for gpus in (1, 2, 4, 8))

Wanted = tuple[int, int, str | None, str | None]  # devices, thousandths of each, kind, label


class Workload:
    """Which members usually come, as weights that add up to 1."""

    def __init__(self, members: Mapping[RoleAsk, float] | Iterable[RoleAsk] = USUAL) -> None:
        counts: Counter[tuple[int, int, int, str | None, str | None]] = Counter()
        weights = members if isinstance(members, Mapping) else Counter(members)
        for role, weight in weights.items():
            count, part = asked(role)
            # A Counter adds up whatever has a plus; weights may be fractions.
            counts[milli(role.cpus), part, count, role.gpu_kind, role.node_label] += weight  # type: ignore[assignment]
        total = sum(counts.values())
        order = sorted(counts.items(), key=lambda item: (item[1], _sortable(item[0])), reverse=True)
        kept, sum_kept = [], 0.0
        for ask, weight in order:
            if sum_kept >= COVERED * total:
                break
            kept.append((ask, weight))
            sum_kept += weight
        rows: dict[Wanted, list[tuple[int, float]]] = {}
        for (cpus, part, count, kind, label), weight in kept:
            if count:  # who asks for no GPU can use none of them
                rows.setdefault((count, part, kind, label), []).append((cpus, weight / sum_kept))
        self.rows = [(wanted, *_steps(row)) for wanted, row in rows.items()]

    def fragment(
        self, cpus: int, left: list[int], kinds: frozenset[str], labels: frozenset[str]
    ) -> float:
        """Thousandths of GPUs that a usual member could not use, on a node with this much left."""
        served = wasted = 0.0
        for (count, part, kind, label), steps, sums in self.rows:
            if (kind is not None and kind not in kinds) or (
                label is not None and label not in labels
            ):
                continue
            fitting = small = 0
            for each in left:
                if each >= part:
                    fitting += 1
                else:
                    small += each
            if fitting >= count:
                weight = sums[bisect_right(steps, cpus)]
                served += weight
                wasted += weight * small
        return sum(left) * (1 - served) + wasted


def _sortable(ask: tuple[int, int, int, str | None, str | None]) -> tuple[int, int, int, str, str]:
    return (*ask[:3], ask[3] or "", ask[4] or "")


def _steps(row: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """For a look-up by CPUs: the weight of all that ask for at most so many."""
    row.sort()
    sums = [0.0]
    for _, weight in row:
        sums.append(sums[-1] + weight)
    return [cpus for cpus, _ in row], sums


class Fgd:
    name = "fgd"

    def __init__(self, workload: Workload | None = None) -> None:
        self.workload = workload or Workload()
        self._known: dict[tuple[int, tuple[int, ...], int], float] = {}
        self._sorts: dict[tuple[frozenset[str], tuple[str, ...]], int] = {}

    def score(self, node: Node, role: RoleAsk) -> tuple[float, ...]:
        return (-self._best(node, role)[0],)

    def device(self, node: Node, role: RoleAsk) -> int:
        return self._best(node, role)[1]

    def _best(self, node: Node, role: RoleAsk) -> tuple[int, int]:
        """A whole number out of 100, and for a part of a device which one."""
        count, part = asked(role)
        left, cpus = lefts(node), node.cpus - milli(role.cpus)
        now = self.fragment(node, node.cpus, left)
        if count != 1 or part == 1000:
            return _worth(now - self.fragment(node, cpus, after(left, count, part))), -1
        best, device = 0, -1
        tried: set[int] = set()
        for position, each in enumerate(left):
            if each < part or each in tried:
                continue
            tried.add(each)
            changed = left[:]
            changed[position] -= part
            worth = _worth(now - self.fragment(node, cpus, changed))
            if device < 0 or worth > best:
                best, device = worth, position
        return best, device

    def fragment(self, node: Node, cpus: int, left: list[int]) -> float:
        sort = self._sorts.setdefault(node.group, len(self._sorts))
        key = (cpus, tuple(sorted(left)), sort)
        found = self._known.get(key)
        if found is None:
            if len(self._known) > FORGOTTEN:
                self._known.clear()
            found = self.workload.fragment(cpus, left, frozenset(node.kinds), node.labels)
            self._known[key] = found
        return found


def _worth(less: float) -> int:
    """How much less fragment there is, in thousandths of a GPU, as a number out of 100."""
    return int(100 / (1 + exp(-less / 1000)))
