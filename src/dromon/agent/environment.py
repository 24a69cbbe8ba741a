"""The one place where variables meet, and the variables every member gets from Dromon."""

import os
from typing import Dict, Mapping

from dromon.agent.plan import AgentPlan
from dromon.agent.process import MARKER
from dromon.agent.record import Record
from dromon.frameworks import is_reserved
from dromon.frameworks.world import Member, World


def merge(
    host: Mapping[str, str],
    user: Mapping[str, str],
    secrets: Mapping[str, str],
    framework: Mapping[str, str],
    engine: Mapping[str, str],
) -> Dict[str, str]:
    """A later one wins over an earlier one: host, user, secrets, framework, engine. But what a
    framework sets only as tuning, not as its contract, stays as the user has it."""
    theirs = {**host, **user, **secrets}
    ours = {k: v for k, v in framework.items() if k not in theirs or is_reserved(k)}
    return {**theirs, **ours, **engine}


def marker(job: str, member: str, run: int) -> str:
    """What every process of a run carries in $DROMON_MEMBER; `process.survivors` looks for it."""
    return f"{job}/{member}/{run}"


def member_variables(plan: AgentPlan, world: World, member: Member) -> Dict[str, str]:
    """Who and where the member is, in $DROMON_…, and what else it needs from us."""
    record = Record(plan.record)
    variables = {
        "DROMON_JOB_ID": plan.job,
        "DROMON_ROLE": plan.role,
        "DROMON_INDEX": str(plan.index),
        "DROMON_RANK": str(member.rank),
        "DROMON_WORLD_SIZE": str(world.size),
        "DROMON_ATTEMPT": str(plan.attempt),
        "DROMON_RUN": str(plan.run),
        "DROMON_GRACE": f"{plan.grace:g}",
        "DROMON_CHECKPOINT_DIR": record.checkpoints,
        "DROMON_MEMBER_DIR": record.run(plan.member, plan.run),
        MARKER: marker(plan.job, plan.member, plan.run),
        "PWD": plan.work,
    }
    if os.path.exists(record.config):
        variables["DROMON_CONFIG"] = record.config
    if "PYTHONUNBUFFERED" not in plan.env:
        variables["PYTHONUNBUFFERED"] = "1"
    return variables
