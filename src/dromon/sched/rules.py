"""What the site has ordered: queues, priorities, users, reservations. Values only.

Amounts are maps from a resource to how much of it: "cpus" (cores), "memory" (bytes), "gpus" (of
all kinds together) and "gpus.KIND". What a map does not name is not limited, not promised.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Amounts = Mapping[str, float]
ROOT: Final = "root"
DAY: Final = "day"
WEEK: Final = "week"
MONTH: Final = "month"


@dataclass(frozen=True, slots=True)
class Budget:
    """GPU-hours that may be used in each day, week (from Monday) or month, in UTC."""

    gpu_hours: float
    per: str = WEEK  # day, week, month
    of: str = "queue"  # or "user": each of its users has as much


@dataclass(frozen=True, slots=True)
class QueueRule:
    name: str
    parent: str = ROOT
    weight: float = 1.0
    guarantee: Amounts = field(default_factory=dict)  # lent to others only as preemptible
    deserved: Amounts | None = None  # None: by weight, from what the parent has
    limit: Amounts = field(default_factory=dict)
    user_limit: Amounts = field(default_factory=dict)  # of each user inside this queue
    max_running: int | None = None
    max_queued: int | None = None
    user_max_running: int | None = None
    user_max_queued: int | None = None
    max_duration: float | None = None  # most that may be asked; assumed of jobs that ask none
    budgets: tuple[Budget, ...] = ()
    non_preemptible: bool = True  # whether jobs here may say `preemptible: false`
    aging: float | None = None  # points of priority for each hour of waiting
    is_open: bool = True  # closed: nothing new is accepted, and what waits does not start
    for_all: bool = True  # else only some may submit to it, and it is not proposed to anybody


@dataclass(frozen=True, slots=True)
class PriorityRule:
    name: str
    value: int
    user_budget: float | None = None  # GPU-hours of each user in each week, in this class
    for_all: bool = True  # as of a queue


@dataclass(frozen=True, slots=True)
class UserRule:
    name: str
    weight: float = 1.0
    limit: Amounts = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs in total, wherever they are, for a user or a queue between two times."""

    id: str
    start: float
    end: float
    gpus: int
    kind: str | None = None
    user: str | None = None
    queue: str | None = None
    release_after: float | None = None  # seconds after the start without any use

    def is_for(self, user: str, queue: str) -> bool:
        return self.user in (None, user) and self.queue in (None, queue)


@dataclass(frozen=True, slots=True)
class Rules:
    """The default is one open queue of whatever name, priority first, then submit order."""

    queues: tuple[QueueRule, ...] = ()
    priorities: tuple[PriorityRule, ...] = ()
    users: tuple[UserRule, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    half_life: float | None = None  # of past usage, in seconds; None: only what is held now counts
    min_run_time: float = 0.0  # after a start, nobody of the same queue sends the job away
    policy: str = "fair"
    placement: str = "bestfit"
