"""What one framework says about itself, and how processes are counted over a world.

A framework is a value of this class in its own file; `dromon.frameworks` looks it up by name.
No I/O here. LIGHT: standard library only, Python 3.9.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, Tuple, Union

from dromon.frameworks.world import Member, World

# How a role takes part in the job's end; `lifecycle.plan` has the same words.
REQUIRED, FOLLOWS, SERVES = "required", "follows", "serves"

Command = Union[str, List[str]]


def no_files(world: World, member: Member) -> Dict[str, str]:
    return {}


def as_written(
    world: World, member: Member, process: int, command: Command, directory: str
) -> Command:
    return command


def all_required(role: str, roles: Iterable[str]) -> str:
    return REQUIRED


def no_ports(role: str, index: int, processes: int) -> int:
    return 0


def one_port(role: str, index: int, processes: int) -> int:
    """In every member: a gang may start without some, and whoever is rank 0 needs one."""
    return 1


def port_each(role: str, index: int, processes: int) -> int:
    return processes


@dataclass(frozen=True)
class Framework:
    """One framework: its roles, its variables, its ports, its end."""

    # (world, member, process, directory) -> variables. `directory` is where `files` were written.
    environment: Callable[[World, Member, int, str], Dict[str, str]]
    reserved: FrozenSet[str]
    roles: Optional[FrozenSet[str]] = None  # None: any
    first: Tuple[str, ...] = ("chief", "master", "worker")  # roles in rank order, others after
    ports: Callable[[str, int, int], int] = no_ports
    ending: Callable[[str, Iterable[str]], str] = all_required
    implied: Mapping[str, Dict[str, Any]] = field(default_factory=dict)
    files: Callable[[World, Member], Dict[str, str]] = no_files
    command: Callable[[World, Member, int, Command, str], Command] = as_written


def total(members: Iterable[Member]) -> int:
    """How many processes these members run together."""
    return sum(m.processes for m in members)


def rank_of(members: Iterable[Member], member: Member, process: int) -> int:
    """The place of one process among all processes of these members."""
    return sum(m.processes for m in members if m.rank < member.rank) + process


def is_loopback(world: World) -> bool:
    """Whether the whole world lives on this machine and says so."""
    return all(m.host == "localhost" or m.host.startswith("127.") for m in world.members)
