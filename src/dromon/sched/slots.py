"""When one node has room for members of a kind, from when its jobs are expected to end."""

from bisect import bisect_left, insort
from math import inf
from operator import itemgetter
from typing import Final

from dromon.sched.board import State, slots
from dromon.sched.job import Job, Role, Seat
from dromon.sched.node import Node

Releases = list[tuple[float, tuple[Seat, ...]]]  # who gives back what, soonest first
NOW: Final = -inf  # a slot that is free already


def first_slot(node: Node, role: Role) -> float:
    """The first of `slot_times`; inf: none. Counts by itself where no device is shared."""
    if not role.is_bare or node.held or node.parts:
        return _first_of_its_kind(node, role)
    counts, gpus = node.counts or counted(node), role.gpus
    return counts[gpus] if gpus < len(counts) else inf


def _first_of_its_kind(node: Node, role: Role) -> float:
    if node.held or node.parts:
        times = slot_times(node, role, 1)
        return times[0] if times else inf
    if role.label is not None and role.label not in node.labels:
        return inf
    if role.cpus or role.memory or (role.kind is not None and len(node.kinds) > 1):
        return _first_release(node, role)
    if role.kind is not None and role.kind not in node.kinds:
        return inf
    counts = node.counts or counted(node)
    return counts[role.gpus] if role.gpus < len(counts) else inf


def _first_release(node: Node, role: Role) -> float:
    gpus, cpus, memory = role.gpus, role.cpus, role.memory
    kind = node.kind_mask(role.kind)
    total = node.total
    if kind.bit_count() < gpus or total.cpus < cpus or total.memory < memory:
        return inf
    mask, cpus_free, memory_free = node.mask, node.cpus, node.memory
    if (mask & kind).bit_count() >= gpus and cpus_free >= cpus and memory_free >= memory:
        return NOW
    for end, seats in releases(node):
        for seat in seats:
            mask |= seat.mask
            cpus_free += seat.cpus
            memory_free += seat.memory
        if (mask & kind).bit_count() >= gpus and cpus_free >= cpus and memory_free >= memory:
            return end
    return inf


def counted(node: Node) -> list[float]:
    """When so many devices are free there, by how many; no device may be shared. Kept until the
    node changes otherwise than `recounted` can tell."""
    mask = node.mask
    found = [NOW] * (mask.bit_count() + 1)
    for end, seats in releases(node):
        for seat in seats:
            mask |= seat.mask
        found += [end] * (mask.bit_count() + 1 - len(found))
    node.counts = found
    return found


def recounted(node: Node, counts: list[float], job: Job, seat: Seat, is_taken: bool) -> None:
    """What was counted, with one seat of a job that has just been taken, or given back."""
    if seat.part or node.held or job.going:
        return
    size, end = seat.mask.bit_count(), job.end
    if is_taken:
        for _ in range(size):
            counts.pop(0)
            insort(counts, end)
    else:
        at = bisect_left(counts, end)
        for gone in range(at, at + size):
            counts.pop(gone)
            counts.insert(0, NOW)
    node.counts = counts


def slot_times(node: Node, role: Role, most: int) -> list[float]:
    """When the first, second… member finds room there, if nobody else comes."""
    state = State.of(node)
    found = [NOW] * min(most, slots(node, state, role))
    if len(found) == most:
        return found
    if slots(node, State.whole(node), role) <= len(found):
        return found
    for end, seats in releases(node):
        if end == inf:
            break
        for seat in seats:
            state.give(node, seat)
        count = min(most, slots(node, state, role))
        found += [end] * (count - len(found))
        if len(found) >= most:
            break
    return found


def releases(node: Node) -> Releases:
    """Who gives back what there, soonest first. Kept until the node changes."""
    if node.ends is not None:
        return node.ends
    found: Releases = []
    for job in node.jobs.values():
        if len(job.seats) == 1 and not job.going:
            found.append((job.end, job.seats))
        else:
            _of_gang(node, job, found)
    if len(found) > 1:
        found.sort(key=_FIRST)
    node.ends = found
    return found


def free_by_time(node: Node) -> tuple[list[float], list[int]]:
    """When devices come free there, and which are free before that, from each of these times on,
    and in the end; no device may be shared. Kept until the node changes."""
    if node.by_time is not None:
        return node.by_time
    mask, times, masks = node.mask, [], [node.mask]
    for end, seats in node.ends or releases(node):
        for seat in seats:
            mask |= seat.mask
        times.append(end)
        masks.append(mask)
    node.by_time = times, masks
    return node.by_time


def mask_at(node: Node, time: float) -> int:
    """Which devices are free there then, where this is asked once; no device may be shared."""
    mask = node.mask
    for job in node.jobs.values():
        if job.end <= time or job.going:
            for seat in job.seats:
                if seat.node == node.name and (job.end <= time or seat.member in job.going):
                    mask |= seat.mask
    return mask


_FIRST: Final = itemgetter(0)


def _of_gang(node: Node, job: Job, found: Releases) -> None:
    """Of several members, those that are there; those told to go are as good as gone."""
    name, going = node.name, job.going
    if going:
        leaving = tuple([s for s in job.seats if s.node == name and s.member in going])
        if leaving:
            found.append((-1e300, leaving))
    staying = tuple([s for s in job.seats if s.node == name and s.member not in going])
    if staying:
        found.append((job.end, staying))
