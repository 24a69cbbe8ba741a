"""What an agent is told before it starts. Values only, sent as JSON.

Engine words (which variable hides a GPU, which directory is a cgroup) are resolved by the engine
before they come here.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from dromon import frameworks

HERE = "127.0.0.1"  # where members of one machine reach each other


@dataclass(frozen=True)
class AgentPlan:
    job: str
    role: str
    index: int
    run: int  # 0: given later, by the coordinator's `again`, and the attempt with it
    attempt: int
    record: str  # the job's record directory on this node
    work: str  # working directory of the member; exists already
    command: Union[str, List[str]]  # a string runs under `bash -c`; a list is argv
    framework: str
    processes: int = 1
    ports: int = 0  # how many to reserve, `frameworks.ports_needed`
    host: str = HERE  # under which other members reach this one
    env: Mapping[str, str] = field(default_factory=dict)  # host's, user's and engine's, merged
    secrets: str = ""  # path of a 0600 JSON file {name: value}; read when the member starts
    grace: float = 30.0  # told to the member in $DROMON_GRACE
    memory: Optional[int] = None  # bytes for the whole tree; watched by the agent
    cgroups: Tuple[str, ...] = ()  # directories whose cgroup.procs the member joins
    inside: str = ""  # the cgroup of the agent and its member alone, where nobody joins another
    lease: Optional[float] = None  # stop after so long without the coordinator; None: never
    beat: float = 5.0  # seconds between two words about what the member uses
    buffer: int = 64 * 1024 * 1024  # captured output held in memory while the disk stalls
    place: str = ""  # which of several places of this member it is, where one may outlive its time
    together: bool = False  # its exit record goes with those of other members, on the same disk
    keep_fds: Tuple[int, ...] = ()  # descriptors (GPU locks) held open until the member has ended

    @property
    def member(self) -> str:
        return f"{self.role}-{self.index}"

    def like(self, **changes: Any) -> "AgentPlan":
        """The same but for these; a tenth of the work that `dataclasses.replace` is."""
        made = object.__new__(AgentPlan)
        made.__dict__.update(self.__dict__, **changes)
        return made

    def beyond(self, other: "AgentPlan") -> Dict[str, Any]:
        """What differs from the other's, as JSON has it."""
        theirs = other.__dict__
        return {
            name: value
            for name, value in self.__dict__.items()
            if theirs[name] is not value and theirs[name] != value
        }

    def to_json(self) -> Dict[str, Any]:
        return dict(
            self.__dict__, env=dict(self.env), cgroups=list(self.cgroups),
            keep_fds=list(self.keep_fds),
        )  # fmt: skip

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "AgentPlan":
        return AgentPlan(**_restored(data))

    def with_json(self, data: Mapping[str, Any]) -> "AgentPlan":
        """`beyond`, undone."""
        return self.like(**_restored(data))


def _restored(data: Mapping[str, Any]) -> Dict[str, Any]:
    tuples = {name: tuple(data[name]) for name in ("cgroups", "keep_fds") if name in data}
    return {**data, **tuples}


def in_place(
    request: Mapping[str, Any], member: str, record: str, command: Union[str, List[str]], **own: Any
) -> AgentPlan:
    """For an agent that is there before its member is to run: which run it is there for, and which
    attempt, the coordinator says. `request` is a compiled one; `own` is what only the place knows.
    """
    role, _, index = member.rpartition("-")
    asked, framework = request["roles"][role], request["framework"]
    return AgentPlan(
        job=request["gang"]["job"],
        role=role,
        index=int(index),
        run=0,
        attempt=0,
        record=record,
        work=record,
        command=command,
        framework=framework,
        processes=asked["processes"],
        ports=frameworks.ports_needed(framework, role, int(index), asked["processes"]),
        **own,
    )
