"""LIGHT, PURE. World, Member -> the environment variables of one process of one member.

One file per framework, one table here. Nothing is read, written or started: what a framework
needs besides variables it returns as values, `files` to write and the `command` to run.
"""

from typing import Any, Dict, FrozenSet, List, Optional, Sequence

from dromon.frameworks.framework import Command, Framework
from dromon.frameworks.horovod import HOROVOD
from dromon.frameworks.jax import JAX
from dromon.frameworks.mpi import MPI
from dromon.frameworks.mxnet import MXNET
from dromon.frameworks.plain import PLAIN
from dromon.frameworks.tensorflow import TENSORFLOW
from dromon.frameworks.torch import TORCH
from dromon.frameworks.world import Member, World

FRAMEWORKS: Dict[str, Framework] = {
    "none": PLAIN,
    "torch": TORCH,
    "tensorflow": TENSORFLOW,
    "mxnet": MXNET,
    "jax": JAX,
    "mpi": MPI,
    "horovod": HOROVOD,
}

# Which roles a framework knows; None: any.
ROLES: Dict[str, Optional[FrozenSet[str]]] = {n: f.roles for n, f in FRAMEWORKS.items()}

# Roles a job gets without asking, and the command of those that need none: {replicas command cpus}.
IMPLIED: Dict[str, Dict[str, Dict[str, Any]]] = {
    n: dict(f.implied) for n, f in FRAMEWORKS.items() if f.implied
}

# What a job file may not set: the names a framework gives, and those that hand out GPUs.
RESERVED: FrozenSet[str] = frozenset(
    ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"]
).union(*(f.reserved for f in FRAMEWORKS.values()))
RESERVED_PREFIXES = ("DROMON_", "OMPI_COMM_WORLD_")


def is_reserved(name: str) -> bool:
    """Whether only Dromon may set this variable. What merely tunes a framework stays free."""
    return name in RESERVED or name.startswith(RESERVED_PREFIXES)


def environment(
    world: World, member: Member, process: int = 0, directory: str = ""
) -> Dict[str, str]:
    """The variables of one process of the member; `directory` is where its `files` lie."""
    variables = PLAIN.environment(world, member, process, directory)
    variables.update(FRAMEWORKS[world.framework].environment(world, member, process, directory))
    return variables


def files(world: World, member: Member) -> Dict[str, str]:
    """Name -> content of what the agent writes, executable, before the member starts.

    Into one directory for the whole attempt, which all members of a machine share.
    """
    return FRAMEWORKS[world.framework].files(world, member)


def command(
    world: World, member: Member, process: int, command: Command, directory: str
) -> Command:
    """What the agent really starts where the job file says `command`."""
    return FRAMEWORKS[world.framework].command(world, member, process, command, directory)


def ports_needed(framework: str, role: str, index: int, processes: int) -> int:
    """How many ports the agent of this member reserves before the barrier."""
    return FRAMEWORKS[framework].ports(role, index, processes)


def ending(framework: str, role: str, roles: Sequence[str]) -> str:
    """How the role takes part in the job's end: required, follows or serves."""
    return FRAMEWORKS[framework].ending(role, roles)


def rank_order(framework: str, roles: Sequence[str]) -> List[str]:
    """The roles in the order in which their members get ranks."""
    first = FRAMEWORKS[framework].first
    return sorted(roles, key=lambda role: first.index(role) if role in first else len(first))
