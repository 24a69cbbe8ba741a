"""Where a gang goes that may start now: through the node index, beside what is booked."""

from bisect import bisect_left

from dromon.sched.board import Board, Turn
from dromon.sched.cluster import Cluster
from dromon.sched.job import Job, Role, Seat
from dromon.sched.node import Node
from dromon.sched.plan import Plan


class Turning:
    """The number of a node in the order that settles ties; the seed turns it."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.pivot = 0
        self._numbers: list[int] = []
        count = len(cluster.numbers)
        self._by = seed % count if count else 0
        if self._by:
            self._numbers = sorted(cluster.numbers)
            self.pivot = self._numbers[count - self._by]

    def __call__(self, number: int) -> int:
        if not self._by:
            return number
        return (bisect_left(self._numbers, number) + self._by) % len(self._numbers)


def place_now(plan: Plan, turn: Turning, job: Job) -> list[Seat] | None:
    """Seats for `min` of each role on what is free throughout the job's time; None: no room."""
    role = job.shape.plain
    if plan.cluster.placer.name != "bestfit":
        seats = _by_score(plan, turn, job)
    elif role is None:
        seats = now_board(plan, turn, job).place(job.shape)
    else:
        seats = _through_index(plan, turn, job, role)
    if seats is not None and plan.reservations and not plan.respects(job, seats, plan.now):
        return None
    return seats


def now_board(plan: Plan, turn: Turn, job: Job) -> Board:
    nodes = [node for node in plan.cluster.nodes.values() if node.is_open]
    return Board(nodes, lambda node: plan.throughout_now(node, job), turn)


def _through_index(plan: Plan, turn: Turning, job: Job, role: Role) -> list[Seat] | None:
    if role.min == 1:
        found = _best(plan, turn, job, role)
        return None if found is None else [_seat(plan, job, role, found, 0)]
    if job.shape.one is not None:
        found = _best(plan, turn, job, job.shape.one)
        if found is not None:
            mask = plan.throughout_now(found, job).mask & found.kind_mask(role.kind)
            seats = []
            for at in range(role.min):
                chosen = found.lowest(mask, role.gpus)
                mask &= ~chosen
                seats.append(Seat(f"{role.name}-{at}", found.name, role.cpus, role.memory,
                                  chosen, 0))  # fmt: skip
            return seats
    nodes, index = plan.cluster.nodes, plan.cluster.index
    taken: list[Seat] = []
    for number in range(role.min):
        found = _best(plan, turn, job, role)
        if found is None:
            break
        seat = _seat(plan, job, role, found, number)
        taken.append(seat)
        found.take(seat)
        index.update(found)
    for seat in taken:
        nodes[seat.node].give(seat)
        index.update(nodes[seat.node])
    return taken if len(taken) == role.min else None


def _best(plan: Plan, turn: Turning, job: Job, role: Role) -> Node | None:
    bookings = plan.bookings
    if not bookings:
        return plan.cluster.index.first(role, turn.pivot, turn)
    best = plan.cluster.index.best(role, turn.pivot, turn, bookings)
    gpus = role.gpus
    for number in bookings:
        node = plan.cluster.numbers[number]
        if not node.is_open or node.mask.bit_count() < gpus:
            continue
        if plan.slots(node, role, plan.now, plan.now + job.duration):
            state = plan.throughout_now(node, job)
            score = (float(state.gpus_left()), state.cpus, state.memory, turn(number))
            if best is None or score < best[0]:
                best = (score, node)
    return best[1] if best is not None else None


def _seat(plan: Plan, job: Job, role: Role, node: Node, number: int) -> Seat:
    mask = node.mask
    if node.number in plan.bookings:
        mask = plan.throughout_now(node, job).mask
    chosen = node.lowest(mask & node.kind_mask(role.kind), role.gpus) if role.gpus else 0
    return Seat(f"{role.name}-{number}", node.name, role.cpus, role.memory, chosen, 0)


def _by_score(plan: Plan, turn: Turning, job: Job) -> list[Seat] | None:
    """As the site's scorer wants it, member by member."""
    cluster = plan.cluster
    taken: list[Seat] = []
    for role in job.shape.roles:
        apart: set[int] = set()
        for number in range(role.min):
            seat = score_one(plan, turn, job, role, f"{role.name}-{number}", apart)
            if seat is None:
                break
            taken.append(seat)
            cluster.nodes[seat.node].take(seat)
            cluster.index.update(cluster.nodes[seat.node])
        else:
            continue
        break
    for seat in taken:
        cluster.nodes[seat.node].give(seat)
        cluster.index.update(cluster.nodes[seat.node])
    return taken if len(taken) == sum(role.min for role in job.shape.roles) else None


def score_one(
    plan: Plan, turn: Turn, job: Job, role: Role, member: str, apart: set[int]
) -> Seat | None:
    """Booked nodes are looked at one by one; of all others the scores are kept."""
    cluster, placer = plan.cluster, plan.cluster.placer
    without = apart | plan.bookings.keys() if role.is_apart else plan.bookings.keys()
    node = cluster.scores.best(role, turn, without)
    board = now_board(plan, turn, job)
    booked = [cluster.numbers[number] for number in plan.bookings]
    fitting = [
        each for each in booked
        if each.is_open and not (role.is_apart and each.number in apart)
        and board.fits(each, board.state(each), role)
    ]  # fmt: skip
    if fitting:
        fitting += [node] if node is not None else []
        node = min(fitting, key=lambda each: (placer.score(each, role.ask), turn(each.number)))
    if node is None:
        return None
    apart.add(node.number)
    seat = board.seat(node, board.state(node), role, member)
    choose = getattr(placer, "device", None)
    if role.part and choose is not None and node.number not in plan.bookings:
        seat.mask = 1 << choose(node, role.ask)
    return seat
