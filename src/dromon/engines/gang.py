"""A job's gang on any engine: what `lifecycle` is told before it starts, what users see of it."""

from collections.abc import Mapping
from typing import Any

from dromon import frameworks
from dromon.engines.base import MemberStatus
from dromon.errors import Refused
from dromon.lifecycle.members import MemberState
from dromon.lifecycle.plan import GangPlan, RolePlan
from dromon.spec import Job

PRIORITIES = {"low": 10, "normal": 50, "high": 90, "urgent": 100}


def gang_plan(id: str, job: Job) -> GangPlan:
    names = list(job.roles)
    roles = tuple(
        RolePlan(
            name=role,
            replicas=job.roles[role].replicas,
            min=job.roles[role].min,
            ending=frameworks.ending(job.framework, role, names),
            policies=job.roles[role].policies,
        )
        for role in frameworks.rank_order(job.framework, names)
    )
    return GangPlan(
        job=id,
        framework=job.framework,
        roles=roles,
        policies=job.policies,
        max_retries=job.retries.max,
        backoff=job.retries.backoff,
        max_duration=job.max_duration,
        stop_grace=job.stop_grace,
        gang_wait=job.gang_wait,
    )


def priority(asked: str | int) -> int:
    if isinstance(asked, int):
        return asked
    if asked not in PRIORITIES:
        raise Refused(
            f"priority {asked!r} is no class",
            hint=f"Use a number, or one of {', '.join(PRIORITIES)}.",
        )
    return PRIORITIES[asked]


def shapes(request: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Of each role in a compiled request: processes and GPUs of a member, for the coordinator."""
    return {name: (role["processes"], int(role["gpus"])) for name, role in request["roles"].items()}


def member_status(name: str, member: MemberState, **more: Any) -> MemberStatus:
    """What the gang knows of a member, and `more` that only the engine knows."""
    return MemberStatus(
        member=name,
        run=member.run,
        rank=member.rank,
        state=member.state,
        host=member.host,
        pid=member.pid,
        exit=None if member.exit is None else member.exit.to_json(),
        **more,
    )
