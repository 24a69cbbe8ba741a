"""Who takes part in one attempt: the values every framework's variables are made from.

A world is fixed for an attempt. No I/O here. LIGHT: standard library only, Python 3.9.
"""

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Sequence, Tuple


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

    def __getattr__(self, name: str) -> Tuple[Member, ...]:
        """The members of a world that came as JSON are made when they are first asked for: each
        of a thousand agents is sent a thousand of them, and most need only their own."""
        rows = self.__dict__.get("_rows")
        if name != "members" or rows is None:
            raise AttributeError(name)
        members = tuple(map(_member, rows))
        self.__dict__["members"] = members
        return members

    @property
    def size(self) -> int:
        return len(self.__dict__.get("_rows") or self.members)

    def member(self, role: str, index: int) -> Member:
        rows = self.__dict__.get("_rows")
        if rows is None:
            return next(m for m in self.members if m.role == role and m.index == index)
        return _member(next(row for row in rows if row[0] == role and row[1] == index))

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
        world = object.__new__(World)
        world.__dict__.update(
            job=data["job"], attempt=data["attempt"], framework=data["framework"],
            _rows=data["members"],
        )  # fmt: skip
        return world


def _member(row: Sequence[Any]) -> Member:
    role, index, rank, host, ports, processes, gpus = row
    return Member(role, index, rank, host, tuple(ports), processes, gpus)
