"""How a member's run ended, and what that means for the job. Values only."""

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

# Causes. A verdict has exactly one.
SUCCESS = "success"
USER_ERROR = "user_error"
OUT_OF_MEMORY = "out_of_memory"
PREEMPTED = "preempted"
EVICTED = "evicted"
LOST = "lost"
TIMEOUT = "timeout"
ENVIRONMENT = "environment"
STOPPED = "stopped"
IMPOSSIBLE = "impossible"
INTERNAL = "internal"


@dataclass(frozen=True)
class Exit:
    """The exit record an agent leaves for one run of one member."""

    code: Optional[int] = None  # None when ended by a signal or never started
    signal: Optional[int] = None
    cause: str = SUCCESS  # as far as the agent can tell: success, user_error, out_of_memory, …
    message: str = ""
    last_lines: Tuple[str, ...] = ()
    started: float = 0.0
    ended: float = 0.0
    peak_memory: int = 0
    gpu: Mapping[str, float] = None  # type: ignore[assignment]  # peak_memory, mean_use
    stopped: bool = False  # it had been told to stop before it ended
    dropped_lines: int = 0

    @property
    def ok(self) -> bool:
        return self.code == 0

    def to_json(self) -> Dict[str, Any]:
        return dict(self.__dict__, last_lines=list(self.last_lines), gpu=dict(self.gpu or {}))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Exit":
        known = {k: v for k, v in data.items() if k in Exit.__dataclass_fields__}
        return Exit(**dict(known, last_lines=tuple(known.get("last_lines", ()))))


@dataclass(frozen=True)
class Verdict:
    """Why a job ended as it did: the first failing member, its exit, its cause, in words."""

    cause: str
    message: str
    member: str = ""  # "worker-3", the first that failed
    rank: Optional[int] = None
    attempt: int = 0
    code: Optional[int] = None
    signal: Optional[int] = None
    last_lines: Tuple[str, ...] = ()
    hint: str = ""

    @property
    def exit_code(self) -> int:
        """What a shell would show for it."""
        if self.cause == SUCCESS:
            return 0
        if self.signal is not None:
            return 128 + self.signal
        return self.code if self.code else 1

    def to_json(self) -> Dict[str, Any]:
        return dict(self.__dict__, last_lines=list(self.last_lines))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Verdict":
        return Verdict(**dict(data, last_lines=tuple(data.get("last_lines", ()))))
