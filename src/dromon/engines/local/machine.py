"""What this machine has to give: processors, memory, GPUs, and which limits it can enforce."""

import os
import socket
from dataclasses import dataclass

from dromon.agent.devices import Device, discover
from dromon.engines.local.cgroups import Cgroups


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    cpus: float
    memory: int
    gpus: tuple[Device, ...]
    cgroups: Cgroups | None
    gated: bool = False  # the kernel keeps users off GPUs that are not theirs

    @property
    def enforced(self) -> dict[str, str]:
        """For each limit, how it is kept."""
        memory = (
            self.cgroups.describe()
            if self.cgroups
            else "best effort: the agent measures every second and ends a member over its limit "
            "(no cgroup may be made here)"
        )
        gpus = "by CUDA_VISIBLE_DEVICES and a lock shared by all users; not by the kernel"
        return {"memory": memory, "gpus": gpus, "cpus": "counted, not enforced"}


def survey(fake_gpus: int = 0) -> Machine:
    return having(tuple(discover(fake_gpus)))


def having(gpus: tuple[Device, ...], gated: bool = False) -> Machine:
    """With these GPUs, whoever has found them."""
    return Machine(
        name=socket.gethostname(),
        cpus=float(len(os.sched_getaffinity(0))),
        memory=_memory(),
        gpus=gpus,
        cgroups=Cgroups.probe(),
        gated=gated,
    )


def _memory() -> int:
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    return 0
