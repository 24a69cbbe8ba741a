"""What a run's processes use, sampled: memory, processor, GPUs; and what the kernel killed.

Figures only. What a figure leads to (a beat, a kill, a cause) is decided in `run`.
"""

import os
from typing import Any, Dict, Optional, Sequence

from dromon.agent import memory, process
from dromon.agent.gpu import machine
from dromon.units import format_size


class Samples:
    """Of everything below this process."""

    def __init__(self, cgroups: Sequence[str]) -> None:
        self._cgroups = cgroups
        self.peak = 0  # bytes of memory
        self._has_gpus = False
        self._gpu_peak = 0.0
        self._gpu_use, self._gpu_count = 0.0, 0
        self._oom_kills: Optional[int] = None
        self._machine_oom_kills: Optional[int] = None

    def begin(self, *, gpus: bool) -> None:
        self._has_gpus = gpus
        if self._cgroups:
            self._oom_kills = memory.oom_kills(self._cgroups)

    def see(self, used: int) -> None:
        self.peak = max(self.peak, used)

    def take(self) -> Dict[str, Any]:
        """The figures of a beat."""
        pids = process.descendants(os.getpid())
        used = memory.use(pids)
        self.see(used.memory)
        return {"memory": used.memory, "cpu": used.cpu, "gpu": self._take_gpus(pids)}

    def _take_gpus(self, pids: Sequence[int]) -> Dict[str, float]:
        if not self._has_gpus:
            return {}
        figures = machine().use(pids)
        self._gpu_peak = max(self._gpu_peak, figures.get("memory", 0.0))
        if "use" in figures:
            self._gpu_use += figures["use"]
            self._gpu_count += 1
        return figures

    @property
    def gpu(self) -> Dict[str, float]:
        """For the exit record; {} where no GPU was seen in use."""
        if not self._gpu_count and not self._gpu_peak:
            return {}
        mean = self._gpu_use / self._gpu_count if self._gpu_count else 0.0
        return {"peak_memory": self._gpu_peak, "mean_use": mean}

    def over(self, limit: int) -> str:
        """In words what is over the limit of memory, or nothing."""
        pids = process.descendants(os.getpid())
        used = memory.use(pids).memory
        if used > limit:
            # Forked workers share most of their pages: look closely before killing for it.
            used = memory.exact(pids)
        self.see(used)
        if used <= limit:
            return ""
        return f"used {format_size(used)} of memory, more than its limit of {format_size(limit)}"

    def note_machine(self) -> None:
        """Called a second after the start, so that short members need not pay for it."""
        self._machine_oom_kills = memory.machine_oom_kills()

    def kernel_killed(self, *, was_killed: bool) -> bool:
        """Whether the kernel's out-of-memory killer has struck since the start: in our own cgroup,
        whichever process it took; elsewhere only a killed process may have been meant."""
        before = self._oom_kills
        if before is not None and memory.oom_kills(self._cgroups) > before:
            return True
        before = self._machine_oom_kills
        return was_killed and before is not None and memory.machine_oom_kills() > before

    def at_limit(self, limit: int) -> str:
        """What was used when the kernel put an end to it."""
        self.see(memory.peak(self._cgroups))
        return f"used {format_size(self.peak)} of memory, its limit is {format_size(limit)}"
