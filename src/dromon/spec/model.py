"""The job file as models: every key, its kind, its default and its description.

Long form only: `shape` turns the short form into it first. What spans several keys is in `rules`.
The descriptions become the JSON Schema and the reference page.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dromon.spec.names import (
    Filled,
    JobName,
    RelativePath,
    RoleName,
    Text,
    Variable,
    VolumeName,
    Word,
)
from dromon.spec.quantities import Cpus, Duration, Gpus, PositiveDuration, Priority, Replicas, Size
from dromon.spec.values import Action, Command, Event, Plain


class Part(BaseModel):
    """Strict: "4" is no number and 3.10 is no text, so nothing is guessed.

    Defaults of containers are factories: pydantic would deep-copy a literal for every job.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Resources(Part):
    """What one member gets."""

    cpus: Cpus = Field(default=1.0, description="CPU cores; fractions are allowed.")
    memory: Size | None = Field(default=None, description="Main memory. Not limited when left out.")
    gpus: Gpus = Field(
        default=0, description="GPUs: a number, a part of one (`0.5`), or `{a100: 2}`."
    )
    shm: Size | None = Field(default=None, description="Size of `/dev/shm`.")

    @property
    def gpu_count(self) -> float:
        """GPUs of any kind."""
        return float(sum(self.gpus.values()) if isinstance(self.gpus, dict) else self.gpus)

    @property
    def gpu_kinds(self) -> dict[str, float]:
        """GPUs by kind; empty when no kind was asked for."""
        return {k: float(n) for k, n in self.gpus.items()} if isinstance(self.gpus, dict) else {}


class Role(Part):
    """A group of like members."""

    replicas: Replicas = Field(default=1, description="How many members.")
    min: Replicas = Field(
        default_factory=lambda given: given.get("replicas", 1),
        description="The gang: with fewer than this nothing starts. All `replicas` when left out.",
    )
    command: Command | None = Field(
        default=None,
        description="What each member runs: a text runs under `bash -c`, a list is the arguments.",
    )
    processes: Replicas = Field(
        default=1,
        description="Processes per member, each with its own rank; torchrun's nproc-per-node.",
    )
    resources: Resources = Field(default_factory=Resources, description="What each member gets.")
    node_label: Word | None = Field(
        default=None,
        description="Only nodes with this label: through the site file a YARN label, a Kubernetes "
        "selector or a local tag.",
    )
    spread: Literal["none", "node"] = Field(
        default="none", description="`node`: no two members of this role on one node."
    )
    env: dict[Variable, Text | None] = Field(
        default_factory=dict, description="Variables of this role; they beat the job's."
    )
    policies: dict[Event, Action] = Field(
        default_factory=dict, description="What to do at an event in this role; beats the job's."
    )


class Environment(Part):
    """What the code needs installed. At most one of the sources below."""

    python: Filled | None = Field(
        default=None,
        description='Version of Python, in quotes: `"3.11"`. The caller\'s when left out.',
    )
    packages: list[Filled] = Field(
        default_factory=list, description="Packages to install, as pip names them."
    )
    requirements: Filled | None = Field(default=None, description="A requirements file.")
    lock: Filled | None = Field(default=None, description="A lock file such as `uv.lock`.")
    pyproject: Filled | None = Field(
        default=None, description="A `pyproject.toml` to install from."
    )
    image: Filled | None = Field(default=None, description="A container image, `NAME@sha256:…`.")


class Volume(Part):
    """Data from somewhere, given to each member as a path."""

    source: Filled = Field(
        description="Where it is: a path, an address such as `hdfs:///data`, or `node` for scratch "
        "space on the node."
    )
    access: Literal["copy", "mount", "url"] = Field(
        default_factory=lambda given: "mount" if given.get("source") == "node" else "copy",
        description="`copy`: read-only, cached per node. `mount`: the source itself. `url`: the "
        "address as it is. `copy` when left out, `mount` for the source `node`.",
    )


class Retries(Part):
    """How often a failed job starts again. Preemption and lost nodes never count."""

    max: int = Field(default=0, ge=0, le=1_000_000, description="How many times.")
    backoff: Duration = Field(
        default=10.0, description="Wait before the first retry, doubled for each further one."
    )


class Acls(Part):
    """Who else may look or act."""

    view: list[Filled] = Field(default_factory=list, description="Users and groups who may see it.")
    modify: list[Filled] = Field(
        default_factory=list, description="Users and groups who may stop it."
    )


class Job(Part):
    """One job: a gang of members in roles, and all that is said about it."""

    name: JobName | None = Field(
        default=None,
        description="Name of the job. Taken from the file or the script when left out.",
    )
    framework: Word = Field(
        default="none",
        description="Whose variables each member gets, so that scripts run unmodified.",
    )
    queue: Word = Field(default="default", description="Queue it waits in.")
    priority: Priority = Field(
        default="normal", description="A priority class of the site file, or a whole number."
    )
    preemptible: bool = Field(
        default=True, description="Whether a job of higher priority may push it out."
    )
    max_duration: PositiveDuration | None = Field(
        default=None, description="Running time after which it is stopped. No limit when left out."
    )
    stop_grace: Duration = Field(
        default=30.0,
        description="Time between being asked to checkpoint and stop, and being killed.",
    )
    gang_wait: Duration = Field(
        default=60.0, description="How long to wait for more than `min` members before starting."
    )
    workdir: Filled | None = Field(
        default=None,
        description="Directory snapshotted at submit: later edits do not reach the job.",
    )
    files: dict[RelativePath, Filled] = Field(
        default_factory=dict,
        description="Further files: the path in the working directory, and where it comes from.",
    )
    environment: Environment | None = Field(
        default=None,
        description="What the code needs installed. The caller's interpreter when left out.",
    )
    env: dict[Variable, Text | None] = Field(
        default_factory=dict,
        description="Variables of every member, all texts. `null`: must be supplied at submit.",
    )
    secrets: list[Variable] = Field(
        default_factory=list,
        description="Names of variables whose values are supplied at submit and stored nowhere.",
    )
    volumes: dict[VolumeName, Volume] = Field(
        default_factory=dict,
        description="Data by name; the path is `${volumes.NAME}` and `$DROMON_VOLUME_NAME`.",
    )
    roles: dict[RoleName, Role] = Field(description="The members, by role.")
    policies: dict[Event, Action] = Field(
        default_factory=dict,
        description="What to do at an event. Events: `member_failed`, `member_evicted`, "
        "`member_lost`, `role_completed`, `exit_code:N`, `pending:10m`.",
    )
    retries: Retries = Field(
        default_factory=Retries, description="How often a failed job starts again."
    )
    outputs: list[RelativePath] = Field(
        default_factory=list,
        description="Paths in the working directory kept in the store when the job ends.",
    )
    tensorboard: RelativePath | None = Field(
        default=None, description="Directory of TensorBoard event files."
    )
    hdfs: list[Filled] = Field(
        default_factory=list, description="Further HDFS name nodes to get tokens for."
    )
    acls: Acls = Field(default_factory=Acls, description="Who else may see it or stop it.")
    config: Plain = Field(
        default_factory=dict, description="Yours: any shape, overridable, delivered to the task."
    )
    yarn: Plain = Field(default_factory=dict, description="Merged last into the request to YARN.")
    kubernetes: Plain = Field(
        default_factory=dict, description="Merged last into the manifest for Kubernetes."
    )
    total_gpus: Replicas | None = Field(
        default=None, description="In place of `replicas` and `gpus`: the engine picks the split."
    )

    def to_data(self) -> dict[str, Any]:
        """Canonical: JSON-able, in the order of the keys above, defaults left out."""
        data = self.model_dump(exclude_defaults=True)
        for name, role in data["roles"].items():
            # A default that depends on another key is not one to `exclude_defaults`.
            if role.get("min") == self.roles[name].replicas:
                del role["min"]
        for volume in data.get("volumes", {}).values():
            if volume.get("access") == ("mount" if volume["source"] == "node" else "copy"):
                del volume["access"]
        return data

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Job":
        """What `to_data` gave, trusted: a resolved job's texts are not filled in again."""
        return cls.model_validate(data)
