"""Horovod over Gloo: what horovodrun would set.

Ranks meet at an HTTP key-value store at HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT (`PUT` and `GET`
of `/scope/key`, 404 while a key is not there, `DELETE` of a scope when a rank is done with it).
Somebody has to serve it: these variables only say where, the first port of rank 0.
"""

from typing import Dict, Tuple

from dromon.frameworks.framework import Framework, one_port, rank_of, total
from dromon.frameworks.world import Member, World


def environment(world: World, member: Member, process: int, directory: str) -> Dict[str, str]:
    main = world.members[0]
    here = tuple(m for m in world.members if m.host == member.host)
    local = rank_of(here, member, process)
    hosts = _with_local_rank(world, local)
    return {
        "HOROVOD_HOSTNAME": member.host,
        "HOROVOD_RANK": str(rank_of(world.members, member, process)),
        "HOROVOD_SIZE": str(total(world.members)),
        "HOROVOD_LOCAL_RANK": str(local),
        "HOROVOD_LOCAL_SIZE": str(total(here)),
        "HOROVOD_CROSS_RANK": str(hosts.index(member.host)),
        "HOROVOD_CROSS_SIZE": str(len(hosts)),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": main.host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(main.ports[0]),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


def _with_local_rank(world: World, local: int) -> Tuple[str, ...]:
    """The hosts, in rank order, that have a process of this local rank."""
    hosts = dict.fromkeys(m.host for m in world.members)
    return tuple(h for h in hosts if total(m for m in world.members if m.host == h) > local)


HOROVOD = Framework(
    environment,
    reserved=frozenset(
        [
            "HOROVOD_HOSTNAME",
            "HOROVOD_RANK",
            "HOROVOD_SIZE",
            "HOROVOD_LOCAL_RANK",
            "HOROVOD_LOCAL_SIZE",
            "HOROVOD_CROSS_RANK",
            "HOROVOD_CROSS_SIZE",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR",
            "HOROVOD_GLOO_RENDEZVOUS_PORT",
            "HOROVOD_CONTROLLER",
            "HOROVOD_CPU_OPERATIONS",
        ]
    ),
    ports=one_port,
)
