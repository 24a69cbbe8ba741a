"""What is kept on a node for a blocked job of which nobody can know when it will start."""

from collections.abc import Iterator

from dromon.sched.board import State
from dromon.sched.job import Job, Seat
from dromon.sched.node import Node
from dromon.sched.plan import Plan


def set_aside(plan: Plan, node: Node, job: Job) -> Iterator[Seat]:
    """All that it may come to need there, as far as it is free throughout its time; each is to be
    kept before the next is asked for."""
    whole = State.whole(node)
    for role in job.shape.roles:
        if role.label is not None and role.label not in node.labels:
            continue
        if role.cpus > whole.cpus or role.memory > whole.memory:
            continue
        mask = node.kind_mask(role.kind)
        if role.gpus > (whole.mask & mask).bit_count() or (role.part and not mask):
            continue
        for _ in range(min(role.min, 1) if role.is_apart else role.min):
            state = plan.throughout_now(node, job)
            free = state.mask & mask
            kept = node.lowest(free, min(role.gpus, free.bit_count()))
            cpus = min(max(0, state.cpus), role.cpus)
            memory = min(max(0, state.memory), role.memory)
            seat = Seat("", node.name, cpus, memory, kept, 0)
            if role.part:
                position = node.device_for(role, state.mask, state.parts)
                if position >= 0:
                    seat.mask, seat.part = 1 << position, role.part
            yield seat
