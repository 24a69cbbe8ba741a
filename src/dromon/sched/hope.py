"""Could anybody who waits still start? Asked after each job that was looked at. Lives for one
decision, and starts nobody."""

from dromon.sched.job import Role, Shape
from dromon.sched.later import Later
from dromon.sched.plan import Plan


class Hope:
    """`shut`: shape -> duration from which on it cannot start now; what is found out goes there."""

    def __init__(self, plan: Plan, later: Later, shut: dict[Shape, float]) -> None:
        self.plan = plan
        self.later = later
        self.shut = shut
        self._last: Shape | None = None  # of whom somebody could start, when last asked
        self._asked_at: dict[Shape, int] = {}

    def is_left(self) -> bool:
        cluster, shut, last = self.plan.cluster, self.shut, self._last
        index, accounts = cluster.index, cluster.accounts
        most = index.most
        if not most and not accounts.others:
            return False  # everybody asks for a device, none is free
        role = None if last is None or last in shut else last.plain
        if role is not None and index.may_fit(role):
            return True
        for shape in accounts.waiting_shapes:
            limit = shut.get(shape)
            if limit == 0.0:
                continue
            role = shape.plain
            if role is None:
                return True
            if role.gpus > most:
                pass
            elif limit is None:
                if index.may_fit(role):
                    self._last = shape
                    return True
            elif self._may_squeeze_in(shape, role):
                return True
            shut[shape] = 0.0
        return False

    def _may_squeeze_in(self, shape: Shape, role: Role) -> bool:
        """Is anybody of this shape short enough for what is free until it is booked? Asked again
        only when there are half as many bookings more: they only leave less."""
        plan = self.plan
        if plan.reservations:
            return True
        ends = plan.now + shape.crowd.shortest()
        if self.later.is_on():
            return ends <= self.later.until(shape, role)
        count = len(plan.bookings)
        if count < self._asked_at.get(shape, 0) * 1.5:
            return True
        self._asked_at[shape] = count
        booked = [plan.cluster.numbers[number] for number in plan.bookings]
        return ends <= plan.free_until(role, booked)
