"""A site -> the rules the scheduler goes by. Pure; what rules cannot hold is told by `notes`."""

from dromon.sched import rules
from dromon.site import access
from dromon.site.model import (
    DEFAULT,
    ROOT,
    Budget,
    PriorityClass,
    Queue,
    Reservation,
    Site,
    User,
    known,
    promised,
)

# Where jobs go that name no queue, if the file does not say: it is owed nothing.
SPARE = rules.QueueRule(DEFAULT, deserved={"cpus": 0.0, "memory": 0.0, "gpus": 0.0})


def rules_of(site: Site) -> rules.Rules:
    queues = [_queue(site, name, queue) for name, queue in site.queues.items()]
    if queues and DEFAULT not in site.queues:
        queues.append(SPARE)
    return rules.Rules(
        queues=tuple(queues),
        priorities=tuple(_priority(name, each) for name, each in site.priorities.items()),
        users=tuple(_user(name, user) for name, user in site.users.items()),
        reservations=tuple(_reservation(n, each) for n, each in site.reservations.items()),
        half_life=site.half_life,
        min_run_time=site.min_run_time,
        policy=site.policy,
        placement=site.placement,
    )


def notes(site: Site) -> list[str]:
    """What stands in the file and has no effect on this product's own scheduler."""
    found = []
    for name, queue in site.queues.items():
        if not queue.reclaimable:
            found.append(
                f"queue {name}: reclaimable: false has an effect on Volcano only; here what is "
                "borrowed is always given back"
            )
        if queue.priority:
            found.append(
                f"queue {name}: priority has an effect on Volcano only; here shares decide"
            )
    for name, each in site.priorities.items():
        if each.preempt == "never":
            found.append(f"priority {name}: preempt: never has an effect on Volcano only")
    return found


def _queue(site: Site, name: str, queue: Queue) -> rules.QueueRule:
    return rules.QueueRule(
        name=name,
        parent=queue.parent or ROOT,
        weight=float(queue.weight or 1),
        guarantee=promised(queue.guarantee),
        deserved=None if queue.deserved is None else promised(queue.deserved),
        limit=known(queue.limit),
        user_limit=known(queue.user_limit),
        max_running=queue.max_running,
        max_queued=queue.max_queued,
        user_max_running=queue.user_max_running,
        user_max_queued=queue.user_max_queued,
        max_duration=queue.max_duration,
        budgets=_budgets(queue.budget, "queue") + _budgets(queue.user_budget, "user"),
        non_preemptible=queue.non_preemptible,
        aging=queue.aging,
        is_open=queue.open,
        for_all=access.is_for_all(site, name),
    )


def _budgets(budget: Budget | None, of: str) -> tuple[rules.Budget, ...]:
    hours = budget.known() if budget is not None else {}
    return tuple(rules.Budget(amount, per, of) for per, amount in hours.items())


def _priority(name: str, each: PriorityClass) -> rules.PriorityRule:
    week = each.user_budget.week if each.user_budget is not None else None
    return rules.PriorityRule(name, each.value, week, for_all=each.submit is None)


def _user(name: str, user: User) -> rules.UserRule:
    return rules.UserRule(
        name, float(user.weight), known(user.limit), _budgets(user.budget, "user")
    )


def _reservation(name: str, each: Reservation) -> rules.Reservation:
    kind, number = None, each.gpus
    if isinstance(number, dict):
        ((kind, number),) = number.items()
    return rules.Reservation(
        name, each.start, each.end, int(number), kind, each.user, each.queue, each.release_after
    )
