"""One node: what it has, what is free of it. Devices are bits, in the node's own order."""

from typing import TYPE_CHECKING, Final

from dromon.sched.asks import Free, Gpu, Placement, Share
from dromon.sched.job import Job, Role, Seat

if TYPE_CHECKING:
    from dromon.sched.index import Group

Given = tuple[tuple[Seat, ...], Placement]
OFTEN: Final = 64  # different ways to give one member something
WHOLE: Final = 1000  # thousandths of a device
# Where a node is that is in no bucket of the node index: nowhere, with the shared ones, with those
# that have no free device.
OUT: Final = -1
MIXED: Final = -2
SPENT: Final = -3


class Node:
    __slots__ = (
        "_given", "all", "bucket", "by_time", "counts", "cpus", "ends", "entry", "group", "held",
        "ids", "is_open", "jobs", "kinds", "labels", "mask", "memory", "name", "number", "parts",
        "position", "shelf", "singles", "total",
    )  # fmt: skip

    def __init__(self, name: str, number: int, total: Free, labels: frozenset[str]) -> None:
        self.name = name
        self.number = number  # in the order in which nodes joined
        self.total = total
        self.labels = labels
        self.is_open = True
        self.ids = [gpu.id for gpu in total.gpus]
        self.position = {id: position for position, id in enumerate(self.ids)}
        self.kinds: dict[str, int] = {}  # kind -> mask
        for position, gpu in enumerate(total.gpus):
            self.kinds[gpu.kind] = self.kinds.get(gpu.kind, 0) | 1 << position
        # Most of what is asked for is one of them: one tuple for all who ask.
        self.singles: list[tuple[str, ...]] = [(id,) for id in self.ids]
        self.all = (1 << len(self.ids)) - 1
        self.group = (labels, tuple(sorted(self.kinds)))
        self.cpus = total.cpus
        self.memory = total.memory
        self.mask = self.all  # devices that nobody has any of
        self.parts: dict[int, int] = {}  # position -> thousandths given away
        self.held: dict[str, str] = {}  # device -> who, outside of our control
        self.jobs: dict[str, Job] = {}
        self.entry: tuple[int, int, int, Node] | None = None  # its place in the index
        self.shelf: Group | None = None  # its group in the index
        self.bucket = OUT
        self.ends: list[tuple[float, tuple[Seat, ...]]] | None = None  # kept by `slots.releases`
        self.counts: list[float] | None = None  # kept by `slots.counted`
        self.by_time: tuple[list[float], list[int]] | None = None  # kept by `slots.free_by_time`
        self._given: dict[tuple[Role, int], Given] = {}

    @property
    def free(self) -> Free:
        return Free(self.cpus, self.memory, self._gpus(self.mask))

    @property
    def gpus_left(self) -> float:
        """Devices, and what is left of shared ones."""
        left = sum(WHOLE - used for used in self.usable_parts.values())
        return self.mask.bit_count() + left / WHOLE

    @property
    def usable_parts(self) -> dict[int, int]:
        """Of devices that nobody outside holds."""
        if not self.held or not self.parts:
            return self.parts
        return {p: used for p, used in self.parts.items() if self.ids[p] not in self.held}

    def _gpus(self, mask: int) -> tuple[Gpu, ...]:
        return tuple(gpu for position, gpu in enumerate(self.total.gpus) if mask >> position & 1)

    def kind_mask(self, kind: str | None) -> int:
        return self.all if kind is None else self.kinds.get(kind, 0)

    def is_bare(self) -> bool:
        """Nobody there has CPUs or memory."""
        return self.cpus == self.total.cpus and self.memory == self.total.memory

    def take(self, seat: Seat) -> None:
        self.cpus -= seat.cpus
        self.memory -= seat.memory
        if seat.part:
            position = seat.mask.bit_length() - 1
            self.parts[position] = self.parts.get(position, 0) + seat.part
        self.mask &= ~seat.mask

    def give(self, seat: Seat) -> None:
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
        if self.held:
            for id in self.held:
                if id in self.position:
                    mask &= ~(1 << self.position[id])
        self.mask |= mask & self.all

    def is_like(self, other: "Node") -> bool:
        """Whoever may be here may be there, were as much free."""
        return (self.labels, self.kinds, self.held) == (other.labels, other.kinds, other.held)

    def recount(self) -> None:
        """What is free follows from what there is and who has it."""
        self.cpus, self.memory = self.total.cpus, self.total.memory
        self.mask, self.parts = self.all, {}
        for id in self.held:
            if id in self.position:
                self.mask &= ~(1 << self.position[id])
        for job in self.jobs.values():
            for seat in job.seats:
                if seat.node == self.name:
                    self.take(seat)

    def lowest(self, mask: int, count: int) -> int:
        """The first `count` devices of these."""
        if mask.bit_count() == count:
            return mask
        chosen = 0
        for _ in range(count):
            bit = mask & -mask
            chosen |= bit
            mask ^= bit
        return chosen

    def device_for(
        self, role: Role, mask: int, parts: dict[int, int], is_whole: bool = False
    ) -> int:
        """Where a part of a device is best taken: from the fullest shared one that has room, else
        from a free one. -1: nowhere. `is_whole`: as if nobody outside held any."""
        usable = self.kind_mask(role.kind)
        shared = [
            (WHOLE - used, position)
            for position, used in parts.items()
            if WHOLE - used >= role.part and usable >> position & 1
            and (is_whole or self.ids[position] not in self.held)
        ]  # fmt: skip
        if shared:
            return min(shared)[1]
        free = mask & usable
        return (free & -free).bit_length() - 1 if free else -1

    def give_one(self, role: Role, mask: int) -> Given:
        """One member, with these devices. On a full node the same are given again and again, so
        they are kept."""
        key = (role, mask)
        found = self._given.get(key)
        if found is None:
            if len(self._given) >= OFTEN:
                self._given.clear()
            seat = Seat(role.first, self.name, role.cpus, role.memory, mask, 0)
            share = Share(self.name, role.ask.cpus, role.ask.memory, self.devices(mask))
            found = self._given[key] = ((seat,), {role.first: share})
        return found

    def devices(self, mask: int) -> tuple[str, ...]:
        """By their names."""
        if not mask & (mask - 1):
            return self.singles[mask.bit_length() - 1] if mask else ()
        found = []
        while mask:
            bit = mask & -mask
            found.append(self.ids[bit.bit_length() - 1])
            mask ^= bit
        return tuple(found)
