"""The roles of the plays, and the way to their end."""

from collections.abc import Sequence
from typing import Any

from dromon.lifecycle.events import Command, Finish
from dromon.lifecycle.plan import FOLLOWS, SERVES, RolePlan

PS = RolePlan("ps", 1, 1, ending=SERVES)
CHIEF = RolePlan("chief", 1, 1)
EVALUATOR = RolePlan("evaluator", 1, 1, ending=FOLLOWS)
THREE = RolePlan("worker", 3, 3)
ELASTIC = RolePlan("worker", 4, 2)


def workers(n: int, **settings: Any) -> RolePlan:
    return RolePlan("worker", n, n, **settings)


def finish(commands: Sequence[Command]) -> Finish:
    """The one Finish among these, which must be the last."""
    last = commands[-1]
    assert isinstance(last, Finish)
    return last
