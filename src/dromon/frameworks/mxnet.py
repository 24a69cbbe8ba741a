"""MXNet with ps-lite: scheduler, servers, workers, and `DMLC_…`.

A scheduler and a server need nothing but `import mxnet`: it sees its role and serves.
"""

from typing import Dict, Iterable

from dromon.frameworks.framework import FOLLOWS, REQUIRED, Framework, port_each, total
from dromon.frameworks.world import Member, World

SCHEDULER, SERVER, WORKER = "scheduler", "server", "worker"
SERVE = 'python -c "import mxnet"'


def environment(world: World, member: Member, process: int, directory: str) -> Dict[str, str]:
    root = world.of(SCHEDULER)[0]
    return {
        "DMLC_ROLE": member.role,
        "DMLC_PS_ROOT_URI": root.host,
        "DMLC_PS_ROOT_PORT": str(root.ports[0]),
        "DMLC_NUM_WORKER": str(total(world.of(WORKER))),
        "DMLC_NUM_SERVER": str(total(world.of(SERVER))),
        "DMLC_NODE_HOST": member.host,
        # ps-lite listens where a bare PORT says: without ours, a PORT left over in somebody's
        # shell would send every node of the machine to the same one.
        "PORT": str(member.ports[process]),
    }


def ending(role: str, roles: Iterable[str]) -> str:
    return REQUIRED if role == WORKER else FOLLOWS


MXNET = Framework(
    environment,
    reserved=frozenset(
        [
            "DMLC_ROLE",
            "DMLC_PS_ROOT_URI",
            "DMLC_PS_ROOT_PORT",
            "DMLC_NUM_WORKER",
            "DMLC_NUM_SERVER",
            "DMLC_NODE_HOST",
        ]
    ),
    roles=frozenset([SCHEDULER, SERVER, WORKER]),
    first=(WORKER, SERVER, SCHEDULER),
    ports=port_each,
    ending=ending,
    implied={
        SCHEDULER: {"replicas": 1, "command": SERVE, "cpus": 0.1},
        SERVER: {"replicas": 1, "command": SERVE, "cpus": 0.5},
    },
)
