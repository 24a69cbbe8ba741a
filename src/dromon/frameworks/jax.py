"""JAX: what makes `jax.distributed.initialize()` without arguments work.

JAX reads the coordinator's address and the visible devices from variables of its own, but the
number of processes and the process' number only from a scheduler it knows. The simplest of those
to be is Open MPI, whose variables carry our numbers; `JAX_NUM_PROCESSES` and `JAX_PROCESS_ID` are
for scripts that pass them on themselves.
"""

from typing import Dict

from dromon.frameworks.framework import Framework, one_port, rank_of, total
from dromon.frameworks.world import Member, World


def environment(world: World, member: Member, process: int, directory: str) -> Dict[str, str]:
    main = world.members[0]
    address = f"{main.host}:{main.ports[0]}"
    rank, size = str(rank_of(world.members, member, process)), str(total(world.members))
    variables = {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_NUM_PROCESSES": size,
        "JAX_PROCESS_ID": rank,
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{address}",  # its presence is what JAX looks for
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_LOCAL_RANK": str(process),
    }
    if member.gpus:
        # Among the member's own GPUs. Without this JAX would take one GPU per process.
        share = max(member.gpus // member.processes, 1)
        mine = [(process * share + n) % member.gpus for n in range(share)]
        variables["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, mine))
    return variables


JAX = Framework(
    environment,
    reserved=frozenset(
        [
            "JAX_COORDINATOR_ADDRESS",
            "JAX_COORDINATOR_PORT",
            "JAX_NUM_PROCESSES",
            "JAX_PROCESS_ID",
            "JAX_LOCAL_DEVICE_IDS",
            "OMPI_MCA_orte_hnp_uri",
        ]
    ),
    ports=one_port,
)
