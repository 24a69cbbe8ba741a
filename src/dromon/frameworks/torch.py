"""PyTorch: what torchrun would set, and what torchrun itself reads.

`python train.py` finds the variables torchrun gives its workers. A `torchrun` (or an `accelerate
launch`) written in the command finds the rendezvous in `PET_…`, from which torchrun takes the
defaults of its options, and overwrites the others for its own workers.
"""

from typing import Dict

from dromon.frameworks.framework import Framework, one_port, rank_of, total
from dromon.frameworks.world import Member, World


def environment(world: World, member: Member, process: int, directory: str) -> Dict[str, str]:
    members, peers = world.members, world.of(member.role)
    main = members[0]
    restarts = str(world.attempt - 1)  # attempts count from 1
    rank, size = str(rank_of(members, member, process)), str(total(members))
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": str(process),
        "LOCAL_WORLD_SIZE": str(member.processes),
        "GROUP_RANK": str(member.rank),
        "GROUP_WORLD_SIZE": str(len(members)),
        "ROLE_NAME": member.role,
        "ROLE_RANK": str(rank_of(peers, member, process)),
        "ROLE_WORLD_SIZE": str(total(peers)),
        "MASTER_ADDR": main.host,
        "MASTER_PORT": str(main.ports[0]),
        "TORCHELASTIC_RESTART_COUNT": restarts,
        "TORCHELASTIC_MAX_RESTARTS": restarts,  # restarts are Dromon's: none is left to torch
        "TORCHELASTIC_RUN_ID": world.job,
        # Every process is a node to torchrun, so that `processes: 2` with torchrun in the command
        # is still a world that meets. A member of one process gives torchrun all its GPUs.
        "PET_NNODES": size,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": str(max(member.gpus, 1) if member.processes == 1 else 1),
        "PET_MASTER_ADDR": main.host,
        "PET_MASTER_PORT": str(main.ports[0]),
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ID": world.job,
    }


TORCH = Framework(
    environment,
    reserved=frozenset(
        [
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "LOCAL_WORLD_SIZE",
            "GROUP_RANK",
            "GROUP_WORLD_SIZE",
            "ROLE_NAME",
            "ROLE_RANK",
            "ROLE_WORLD_SIZE",
            "MASTER_ADDR",
            "MASTER_PORT",
            "TORCHELASTIC_RESTART_COUNT",
            "TORCHELASTIC_MAX_RESTARTS",
            "TORCHELASTIC_RUN_ID",
            "PET_NNODES",
            "PET_NODE_RANK",
            "PET_NPROC_PER_NODE",
            "PET_MASTER_ADDR",
            "PET_MASTER_PORT",
            "PET_RDZV_BACKEND",
            "PET_RDZV_ID",
        ]
    ),
    ports=one_port,
)
