"""TensorFlow: `TF_CONFIG`.

The evaluator sees the cluster and is no part of it. No `environment` key: TensorFlow reads none
that Dromon could answer.
"""

import json
from typing import Dict, Iterable, List

from dromon.frameworks.framework import FOLLOWS, REQUIRED, SERVES, Framework, rank_of
from dromon.frameworks.world import Member, World

CLUSTER = ("chief", "worker", "ps")
EVALUATOR = "evaluator"


def environment(world: World, member: Member, process: int, directory: str) -> Dict[str, str]:
    cluster: Dict[str, List[str]] = {}
    for role in CLUSTER:
        addresses = [f"{m.host}:{port}" for m in world.of(role) for port in m.ports[: m.processes]]
        if addresses:
            cluster[role] = addresses
    # The place among those present, not `member.index`: a gang may start without some of a role.
    task = {"type": member.role, "index": rank_of(world.of(member.role), member, process)}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def ports(role: str, index: int, processes: int) -> int:
    return 0 if role == EVALUATOR else processes


def ending(role: str, roles: Iterable[str]) -> str:
    """Parameter servers never end. Under a chief, workers may block for ever in `join`."""
    if role == "ps":
        return SERVES
    if role == "worker" and "chief" in roles:
        return FOLLOWS
    return REQUIRED  # also the evaluator: it ends after the last checkpoint, and is waited for


TENSORFLOW = Framework(
    environment,
    reserved=frozenset(["TF_CONFIG"]),
    roles=frozenset([*CLUSTER, EVALUATOR]),
    first=(*CLUSTER, EVALUATOR),
    ports=ports,
    ending=ending,
)
