"""How much memory and processor a tree of processes uses, from /proc; out-of-memory counters.

Numbers only: what is done about them is decided elsewhere.
"""

import os
from typing import Iterable, NamedTuple, Sequence

from dromon.agent.process import stat_of

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


class Use(NamedTuple):
    memory: int  # bytes, resident; pages that several processes share are counted for each
    cpu: float  # seconds since they started


def use(pids: Iterable[int]) -> Use:
    memory, ticks = 0, 0
    for pid in pids:
        fields = stat_of(pid)
        if fields:
            memory += int(fields[21]) * _PAGE
            ticks += int(fields[11]) + int(fields[12])
    return Use(memory, ticks / _TICKS)


def exact(pids: Iterable[int]) -> int:
    """Bytes with shared pages counted once. Dear: the kernel walks every page. A process whose
    figure cannot be had counts with its resident size."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                for line in file:
                    if line.startswith(b"Pss:"):
                        total += int(line.split()[1]) * 1024
                        break
        except OSError:
            total += use((pid,)).memory
    return total


def oom_kills(cgroups: Sequence[str]) -> int:
    """How many processes the kernel has killed for memory in these cgroups; v2 and v1."""
    return sum(
        _counter(os.path.join(cgroup, name))
        for cgroup in cgroups
        for name in ("memory.events", "memory.oom_control")
    )


def peak(cgroups: Sequence[str]) -> int:
    """The most these cgroups ever held, shared memory included, in bytes; 0 when nobody knows."""
    found = [0]
    for cgroup in cgroups:
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            try:
                with open(os.path.join(cgroup, name), "rb") as file:
                    found.append(int(file.read()))
            except (OSError, ValueError):
                pass
    return max(found)


def machine_oom_kills() -> int:
    """The same for the whole machine."""
    return _counter("/proc/vmstat")


def _counter(path: str) -> int:
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0
