"""Where a gang would go on nodes as they might be: all of it or nothing.

A board holds what each node would have free, whatever that supposes: an empty cluster, a later
time, some jobs gone. It looks at every node it has; the node index is for what is free now.
"""

from collections.abc import Callable, Container, Iterable
from typing import Final

from dromon.sched.asks import CPUS, DIMENSIONS, GPUS, MEMORY, Placement, Share
from dromon.sched.job import Role, Seat, Shape
from dromon.sched.node import WHOLE, Node

Turn = Callable[[int], int]
# Before a gang of several roles is taken not to fit:
LOOKS: Final = 20_000  # at nodes
DEEPEST: Final = 200  # members


class State:
    """What is free on one node."""

    __slots__ = ("cpus", "is_whole", "mask", "memory", "parts")

    def __init__(
        self, cpus: int, memory: int, mask: int, parts: dict[int, int], is_whole: bool = False
    ) -> None:
        self.cpus = cpus
        self.memory = memory
        self.mask = mask
        self.parts = parts
        self.is_whole = is_whole  # nobody outside counts

    @staticmethod
    def of(node: Node) -> "State":
        return State(node.cpus, node.memory, node.mask, dict(node.usable_parts))

    @staticmethod
    def whole(node: Node) -> "State":
        """As if nothing ran there and nobody outside held a device."""
        return State(node.total.cpus, node.total.memory, node.all, {}, True)

    def give(self, node: Node, seat: Seat) -> None:
        self.cpus += seat.cpus
        self.memory += seat.memory
        mask = seat.mask
        if seat.part:
            position = mask.bit_length() - 1
            left = self.parts.get(position, 0) - seat.part
            if left > 0:
                self.parts[position] = left
                return
            self.parts.pop(position, None)
        for id in node.held:
            if id in node.position:
                mask &= ~(1 << node.position[id])
        self.mask |= mask

    def take(self, seat: Seat) -> None:
        self.cpus -= seat.cpus
        self.memory -= seat.memory
        if seat.part:
            position = seat.mask.bit_length() - 1
            self.parts[position] = self.parts.get(position, 0) + seat.part
        self.mask &= ~seat.mask

    def gpus_left(self) -> float:
        if not self.parts:
            return self.mask.bit_count()
        return self.mask.bit_count() + sum(WHOLE - used for used in self.parts.values()) / WHOLE

    def parts_left(self) -> int:
        """In thousandths of a device."""
        return self.mask.bit_count() * WHOLE + sum(WHOLE - used for used in self.parts.values())

    def is_like(self, other: "State") -> bool:
        return (self.cpus, self.memory, self.mask, self.parts, self.is_whole) == (
            other.cpus, other.memory, other.mask, other.parts, other.is_whole,
        )  # fmt: skip

    def copy(self) -> "State":
        return State(self.cpus, self.memory, self.mask, dict(self.parts), self.is_whole)


class Board:
    def __init__(
        self, nodes: Iterable[Node], base: Callable[[Node], State], turn: Turn,
        dimensions: frozenset[str] = DIMENSIONS,
    ) -> None:  # fmt: skip
        self.nodes = list(nodes)
        self._base = base
        self._states: dict[int, State] = {}
        self.turn = turn
        self.dimensions = dimensions  # only these are counted and taken
        self._looks = 0  # left, in `_elsewhere`

    def state(self, node: Node) -> State:
        found = self._states.get(node.number)
        if found is None:
            found = self._states[node.number] = self._base(node)
        return found

    def place(self, shape: Shape) -> list[Seat] | None:
        """Seats for `min` of each role, on one node where one has room for all; None and nothing
        taken when they do not fit."""
        roles = [role for role in shape.roles if role.min]
        if sum(role.min for role in roles) > 1:
            seats = self._on_one_node(roles)
            if seats is not None:
                return seats
        return self._anywhere(roles)

    def _on_one_node(self, roles: list[Role]) -> list[Seat] | None:
        if any(role.is_apart and role.min > 1 for role in roles):
            return None
        best: tuple[tuple[float, int, int, int], Node] | None = None
        cpus = sum(role.cpus * role.min for role in roles)
        gpus = sum(role.gpus * role.min for role in roles)
        for node in self.nodes:
            state = self.state(node)
            if (state.cpus < cpus and CPUS in self.dimensions) or (
                state.mask.bit_count() < gpus and GPUS in self.dimensions
            ):
                continue
            score = self._score(node, state)
            if best is not None and score >= best[0]:
                continue
            alone = self._alone(node)
            if all(alone._fill(role, set()) is not None for role in roles):
                best = (score, node)
        if best is None:
            return None
        node = best[1]
        alone = self._alone(node)
        seats = [seat for role in roles for seat in alone._fill(role, set()) or ()]
        self._states[node.number] = alone.state(node)
        return seats

    def _alone(self, node: Node) -> "Board":
        state = self.state(node).copy()
        return Board([node], lambda _: state, self.turn, self.dimensions)

    def _anywhere(self, roles: list[Role]) -> list[Seat] | None:
        before = dict(self._states)
        self._states = {number: state.copy() for number, state in before.items()}
        seats: list[Seat] = []
        for role in roles:
            found = self._fill(role, set())
            if found is None:
                self._states = before
                return self._elsewhere(roles) if self._may_fit(roles) else None
            seats += found
        return seats

    def _may_fit(self, roles: list[Role]) -> bool:
        """Several roles, for all of which together there is enough, and for each alone room."""
        if len(roles) < 2:
            return False
        states = [self.state(node) for node in self.nodes]
        for dimension, free, asked in (
            (CPUS, [s.cpus for s in states], [r.cpus * r.min for r in roles]),
            (MEMORY, [s.memory for s in states], [r.memory * r.min for r in roles]),
            (GPUS, [s.parts_left() for s in states],
             [(r.gpus * WHOLE + r.part) * r.min for r in roles]),
        ):  # fmt: skip
            if dimension in self.dimensions and sum(each for each in free if each > 0) < sum(asked):
                return False
        return all(
            Board(self.nodes, lambda node: self.state(node).copy(), self.turn, self.dimensions)
            ._fill(role, set()) is not None
            for role in roles
        )  # fmt: skip

    def _elsewhere(self, roles: list[Role]) -> list[Seat] | None:
        """Where the node that each fills best leaves no room for another role: other nodes are
        tried, in the same order, as long as that does not take too long."""
        members = [(role, f"{role.name}-{at}") for role in roles for at in range(role.min)]
        self._looks = LOOKS
        return self._seek(members, 0, set()) if len(members) <= DEEPEST else None

    def _seek(self, members: list[tuple[Role, str]], at: int, shut: set[int]) -> list[Seat] | None:
        """Seats for these from there on, the first not on a node that is shut; or nothing taken."""
        if at == len(members):
            return []
        role, member = members[at]
        is_same = at + 1 < len(members) and members[at + 1][0] is role
        shut = set(shut)
        while self._looks > 0 and (node := self._best(role, shut)) is not None:
            self._looks -= len(self.nodes)
            state = self.state(node)
            tried = state.copy()
            seat = self.seat(node, state, role, member)
            state.take(seat)
            apart = {node.number} if role.is_apart else set()
            rest = self._seek(members, at + 1, shut | apart if is_same else set())
            if rest is not None:
                return [seat, *rest]
            self._states[node.number] = tried
            if members[-1][0] is role:
                return None  # of one role it does not matter who is where
            # Nor would it help if another of its role were there, or it were where it is alike.
            shut |= {
                n.number for n in self.nodes if n.is_like(node) and self.state(n).is_like(tried)
            }
        return None

    def _fill(self, role: Role, apart: set[int]) -> list[Seat] | None:
        seats = []
        for index in range(role.min):
            seat = self.add(role, f"{role.name}-{index}", apart)
            if seat is None:
                return None
            seats.append(seat)
        return seats

    def add(self, role: Role, member: str, apart: set[int]) -> Seat | None:
        """One member, on the node that it fills best."""
        node = self._best(role, apart if role.is_apart else ())
        if node is None:
            return None
        apart.add(node.number)
        seat = self.seat(node, self.state(node), role, member)
        self.state(node).take(seat)
        return seat

    def _best(self, role: Role, without: Container[int]) -> Node | None:
        best: tuple[tuple[float, int, int, int], Node] | None = None
        for node in self.nodes:
            if node.number in without:
                continue
            state = self.state(node)
            if self.fits(node, state, role):
                score = self._score(node, state)
                if best is None or score < best[0]:
                    best = (score, node)
        return None if best is None else best[1]

    def _score(self, node: Node, state: State) -> tuple[float, int, int, int]:
        return (state.gpus_left(), state.cpus, state.memory, self.turn(node.number))

    def fits(self, node: Node, state: State, role: Role) -> bool:
        if role.label is not None and role.label not in node.labels:
            return False
        if role.cpus and state.cpus < role.cpus and CPUS in self.dimensions:
            return False
        if role.memory and state.memory < role.memory and MEMORY in self.dimensions:
            return False
        if GPUS not in self.dimensions:
            return True
        if role.part:
            return node.device_for(role, state.mask, state.parts, state.is_whole) >= 0
        return (state.mask & node.kind_mask(role.kind)).bit_count() >= role.gpus

    def seat(self, node: Node, state: State, role: Role, member: str) -> Seat:
        cpus = role.cpus if CPUS in self.dimensions else 0
        memory = role.memory if MEMORY in self.dimensions else 0
        if GPUS not in self.dimensions:
            return Seat(member, node.name, cpus, memory, 0, 0)
        if role.part:
            mask = 1 << node.device_for(role, state.mask, state.parts, state.is_whole)
        else:
            mask = node.lowest(state.mask & node.kind_mask(role.kind), role.gpus)
        return Seat(member, node.name, cpus, memory, mask, role.part)


def slots(node: Node, state: State, role: Role) -> int:
    """How many members of a plain role fit there."""
    if role.label is not None and role.label not in node.labels:
        return 0
    most = 1 << 30
    if role.gpus:
        most = (state.mask & node.kind_mask(role.kind)).bit_count() // role.gpus
    if role.cpus:
        most = min(most, max(0, state.cpus) // role.cpus)
    if role.memory:
        most = min(most, max(0, state.memory) // role.memory)
    return most


def placement_of(seats: Iterable[Seat], shape: Shape, nodes: dict[str, Node]) -> Placement:
    only = shape.plain
    roles = {} if only is not None else {role.name: role.ask for role in shape.roles}
    placement = {}
    for seat in seats:
        ask = only.ask if only is not None else roles[seat.member.rpartition("-")[0]]
        gpus = nodes[seat.node].devices(seat.mask) if seat.mask else ()
        if seat.part:
            placement[seat.member] = Share(seat.node, ask.cpus, ask.memory, gpus, seat.part / 1000)
        else:
            placement[seat.member] = Share(seat.node, ask.cpus, ask.memory, gpus)
    return placement
