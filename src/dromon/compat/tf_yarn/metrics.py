"""What `run_on_yarn` returns: how long everything took."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple


class Metrics(NamedTuple):
    """Tasks are named as in "worker:1". None where a task did not come to its end by itself."""

    total_training_duration: timedelta | None
    total_eval_duration: timedelta | None
    container_duration: dict[str, timedelta | None]
    train_eval_time_per_node: dict[str, timedelta | None]

    @property
    def total_training_time(self) -> timedelta | None:
        """The name it had before 0.5."""
        return self.total_training_duration


def measured(members: Iterable[Any], returned: Iterable[Any]) -> Metrics:
    """From the members' statuses and from what each of them returned."""
    containers: dict[str, timedelta | None] = {}
    for member in members:
        exit = member.exit or {}
        began, ended = exit.get("started") or 0.0, exit.get("ended") or 0.0
        known = began > 0 and ended > 0
        containers[_task(member.member)] = timedelta(seconds=ended - began) if known else None
    spans = {each["task"]: (each["began"], each["ended"]) for each in returned if each}
    return Metrics(
        _from_first_to_last(spans, ("chief", "worker")),
        _from_first_to_last(spans, ("evaluator",)),
        containers,
        {
            task: timedelta(seconds=spans[task][1] - spans[task][0]) if task in spans else None
            for task in containers
        },
    )


def _task(member: str) -> str:
    role, _, index = member.rpartition("-")
    return f"{role}:{index}"


def _from_first_to_last(
    spans: Mapping[str, tuple[float, float]], roles: tuple[str, ...]
) -> timedelta | None:
    of_them = [span for task, span in spans.items() if task.partition(":")[0] in roles]
    if not of_them:
        return None
    return timedelta(seconds=max(e for _, e in of_them) - min(b for b, _ in of_them))
