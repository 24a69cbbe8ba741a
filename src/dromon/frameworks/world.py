"""Who takes part in one attempt: the values every framework's variables are made from.

A world is fixed for an attempt. No I/O here. LIGHT: standard library only, Python 3.9.
"""

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Tuple


@dataclass(frozen=True)
class Member:
    """One member of the gang: a place in a role, a rank in the world, an address."""

    role: str
    index: int  # within its role, 0-based, as asked for (stays the same over attempts)
    rank: int  # within the world, 0..len-1, given when the barrier opens
    host: str
    ports: Tuple[int, ...] = ()  # reserved by its agent, as many as `ports_needed` said
    processes: int = 1
    gpus: int = 0

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"


@dataclass(frozen=True)
class World:
    """All members of one attempt, ordered by rank."""

    job: str
    attempt: int
    framework: str
    members: Tuple[Member, ...]

    def of(self, role: str) -> Tuple[Member, ...]:
        return tuple(m for m in self.members if m.role == role)

    @property
    def roles(self) -> Tuple[str, ...]:
        """Role names in rank order."""
        return tuple(dict.fromkeys(m.role for m in self.members))

    def to_json(self) -> Dict[str, Any]:
        return {
            "job": self.job,
            "attempt": self.attempt,
            "framework": self.framework,
            "members": [
                [m.role, m.index, m.rank, m.host, list(m.ports), m.processes, m.gpus]
                for m in self.members
            ],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "World":
        return World(
            job=data["job"],
            attempt=data["attempt"],
            framework=data["framework"],
            members=tuple(
                Member(role, index, rank, host, tuple(ports), processes, gpus)
                for role, index, rank, host, ports, processes, gpus in data["members"]
            ),
        )
