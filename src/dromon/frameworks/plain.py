"""No framework: a process learns which of its member's processes it is, and no more.

Who the member itself is (`$DROMON_RANK` and the like) every member learns from its agent.
"""

from typing import Dict

from dromon.frameworks.framework import Framework
from dromon.frameworks.world import Member, World


def environment(world: World, member: Member, process: int, directory: str) -> Dict[str, str]:
    return {"DROMON_PROCESS": str(process), "DROMON_PROCESSES": str(member.processes)}


PLAIN = Framework(environment, reserved=frozenset())  # all of DROMON_… is reserved by its prefix
