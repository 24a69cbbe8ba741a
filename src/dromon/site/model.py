"""What a site file may say, as models.

    total: {cpus: 256, memory: 2TiB, gpus: 32}
    queues:
      research: {weight: 2, limit: {gpus: 24}, max_duration: 2d}
      product: {deserved: {gpus: 8}, guarantee: {gpus: 4}, submit: {groups: [product]}}
    priorities:
      low: 100
      normal: {value: 1000, default: true}
      urgent: {value: 10000, user_budget: {week: 20}}
    users:
      ann: {weight: 2, limit: {gpus: 8}}
    reservations:
      deadline: {start: 2026-11-20T08:00Z, end: 2026-11-21T08:00Z, gpus: 4, user: ann}

Models only: what spans several keys is in `consistency`. No engine's words here but under the
engine's own key; each engine's configuration is made from it elsewhere.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from dromon.site.moments import Moment
from dromon.spec.model import Part
from dromon.spec.names import Filled, Text, word
from dromon.spec.path import Path
from dromon.spec.quantities import Cpus, Duration, Gpus, PositiveDuration, Size
from dromon.spec.words import told, wrong

ROOT = "root"  # of every tree of queues, on YARN and on Volcano
DEFAULT = "default"  # where jobs go that name no queue
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def _name(value: object) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    slug = re.sub(r"[^a-z0-9]+", "-", str(value).lower()).strip("-")[:63]
    raise wrong(
        f"{told(value)} is not a name: small letters, digits and dashes, at most 63",
        f"did you mean {slug}?" if slug else "",
    )


def _many_gpus(value: object) -> float | dict[str, float]:
    """None of a kind can be meant here, as in `limit: {gpus: {h100: 0}}`."""
    if not isinstance(value, dict):
        return _number(value)
    return {word(kind): _number(number, (kind,)) for kind, number in value.items()}


def _number(value: object, path: Path = ()) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong(f"expected a number of GPUs or {{a100: 2}}, got {told(value)}", "", path)
    if not 0 <= value <= 1_000_000:
        raise wrong(f"{value:g} GPUs cannot be", "", path)
    return value


Name = Annotated[str, PlainValidator(_name)]
ManyGpus = Annotated[float | dict[str, float], PlainValidator(_many_gpus)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Weight = Annotated[int, Field(ge=1, le=1_000_000)]
Hours = Annotated[float, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)]


class Amounts(Part):
    """So much of each kind; of what is left out, nothing is said."""

    cpus: Cpus | None = Field(default=None, description="CPU cores.")
    memory: Size | None = Field(default=None, description="Main memory.")
    gpus: ManyGpus | None = Field(
        default=None, description="GPUs: a number, or by kind, as in `{a100: 4}`."
    )

    def known(self) -> dict[str, float]:
        """By resource: "cpus", "memory", "gpus", and "gpus.KIND" for a kind of them."""
        plain = {"cpus": self.cpus, "memory": self.memory}
        found: dict[str, float] = {key: value for key, value in plain.items() if value is not None}
        if isinstance(self.gpus, dict):
            found |= {f"gpus.{kind}": number for kind, number in self.gpus.items()}
        elif self.gpus is not None:
            found["gpus"] = self.gpus
        return found


class Budget(Part):
    """GPU-hours, counted anew from midnight, from Monday, from the first of the month, in UTC."""

    day: Hours | None = Field(default=None, description="A day.")
    week: Hours | None = Field(default=None, description="A week.")
    month: Hours | None = Field(default=None, description="A month.")

    def known(self) -> dict[str, float]:
        return {key: value for key, value in self if value is not None}


class WeekBudget(Part):
    """GPU-hours, counted anew from Monday, 00:00 UTC."""

    week: Hours = Field(description="A week.")


class People(Part):
    """Some of those who have an account."""

    users: list[Filled] = Field(default_factory=list, description="By name.")
    groups: list[Filled] = Field(default_factory=list, description="All who are in such a group.")


class Queue(Part):
    """Where jobs of one tenant wait."""

    parent: Name | None = Field(
        default=None, description="The queue above it, whose deserved and limit it divides."
    )
    weight: Weight | None = Field(
        default=None,
        description="Its part of what there is, or of what its parent deserves, after the amounts "
        "that are given. 1 when left out.",
    )
    deserved: Amounts | None = Field(
        default=None,
        description="What it is owed when it has work. What it leaves idle is lent to the others. "
        "Of CPUs and memory that are not named, as large a part as of the GPUs.",
    )
    limit: Amounts | None = Field(default=None, description="What it never has more of.")
    guarantee: Amounts | None = Field(
        default=None,
        description="The part of it that is to be had within one grace: while it is idle it is "
        "lent only to jobs that give way.",
    )
    user_limit: Amounts | None = Field(
        default=None, description="What one user never has more of in this queue."
    )
    max_running: Count | None = Field(default=None, description="Jobs that run at once.")
    max_queued: Count | None = Field(default=None, description="Jobs that wait at once.")
    user_max_running: Count | None = Field(
        default=None, description="Jobs of one user that run at once."
    )
    user_max_queued: Count | None = Field(
        default=None, description="Jobs of one user that wait at once."
    )
    max_duration: PositiveDuration | None = Field(
        default=None,
        description="A job that asks for more is refused. One that says nothing is stopped "
        "after it.",
    )
    budget: Budget | None = Field(default=None, description="GPU-hours of all its jobs.")
    user_budget: Budget | None = Field(default=None, description="GPU-hours of each user in it.")
    non_preemptible: bool = Field(
        default=True, description="Whether jobs may say `preemptible: false`."
    )
    aging: Annotated[float, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Points that a job's priority grows by for each hour it waits. Once it runs, "
        "it is not sent away for those whose priority it had come to.",
    )
    submit: People | None = Field(
        default=None, description="Who may submit to it. Everybody when left out."
    )
    open: bool = Field(
        default=True,
        description="`false`: nothing new is accepted, and what waits does not start.",
    )
    reclaimable: bool = Field(
        default=True,
        description="Volcano: whether others get back what it has beyond what it deserves.",
    )
    priority: Annotated[int, Field(ge=0, le=1_000_000_000)] = Field(
        default=0, description="Volcano: queues of a higher one are served first."
    )

    @property
    def above(self) -> str:
        return self.parent or ROOT


class PriorityClass(Part):
    """A name for a priority. A number alone stands for `{value: NUMBER}`."""

    value: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)] = Field(
        description="The higher runs first."
    )
    preempt: Literal["lower", "never"] = Field(
        default="lower",
        description="Volcano: whether its jobs push out jobs of lower priority.",
    )
    default: bool = Field(default=False, description="Whether jobs that name no class are in it.")
    description: Text = Field(default="", description="When to use it.")
    submit: People | None = Field(
        default=None, description="Who may use it. Everybody when left out."
    )
    user_budget: WeekBudget | None = Field(
        default=None, description="GPU-hours of each user in this class."
    )


class User(Part):
    """What is said of one user, in all queues together."""

    weight: Weight = Field(
        default=1, description="Their part of a queue's, against the other users of it."
    )
    limit: Amounts | None = Field(default=None, description="What they never have more of.")
    budget: Budget | None = Field(default=None, description="GPU-hours.")


class Reservation(Part):
    """GPUs kept for a user or a queue between two moments, wherever they are."""

    start: Moment = Field(description="From when on, as `2026-11-20T08:00Z`.")
    end: Moment = Field(description="Until when.")
    gpus: Gpus = Field(description="How many: a number, or of a kind, as in `{a100: 4}`.")
    user: Filled | None = Field(default=None, description="For whose jobs.")
    queue: Name | None = Field(default=None, description="For the jobs of which queue.")
    release_after: Duration | None = Field(
        default=None, description="Unused for so long after its start it is given up."
    )


class Kubernetes(Part):
    """What Kubernetes clusters call things."""

    gpu_resource: Filled = Field(default="nvidia.com/gpu", description="The resource of a GPU.")


class Site(Part):
    """All that is said of a cluster, or of a machine that several people share."""

    total: Amounts | None = Field(
        default=None,
        description="What the cluster has; Volcano needs it for weights, and sums are checked "
        "against it. A machine is counted, not told.",
    )
    queues: dict[Name, Queue] = Field(default_factory=dict, description="The queues, by name.")
    priorities: dict[Name, PriorityClass] = Field(
        default_factory=dict, description="The classes of priority, by name."
    )
    users: dict[Filled, User] = Field(
        default_factory=dict, description="What is said of single users, by name."
    )
    admins: People | None = Field(
        default=None,
        description="Who may change queues and stop anything. A list stands for its groups.",
    )
    reservations: dict[Name, Reservation] = Field(
        default_factory=dict, description="What is kept for whom and when, by name."
    )
    half_life: PositiveDuration | None = Field(
        default=None,
        description="Past use counts against a queue and a user, half as much after each of "
        "these. Only what is held now counts when left out.",
    )
    min_run_time: Duration = Field(
        default=0.0,
        description="For so long after its start a job is not pushed out by a higher priority.",
    )
    policy: Literal["fair", "fifo", "sjf"] = Field(
        default="fair",
        description="Who is next: by fair share, who came first, or the shortest.",
    )
    placement: Literal["bestfit", "fgd"] = Field(
        default="bestfit", description="Where among several nodes that have room."
    )
    kubernetes: Kubernetes = Field(
        default_factory=Kubernetes, description="What Kubernetes clusters call things."
    )

    def children(self, parent: str) -> dict[str, Queue]:
        return {n: q for n, q in self.queues.items() if q.above == parent}

    def is_leaf(self, name: str) -> bool:
        """Only a queue with none below it takes jobs."""
        return not self.children(name)


def known(amounts: Amounts | None) -> dict[str, float]:
    return amounts.known() if amounts is not None else {}


def promised(amounts: Amounts | None) -> dict[str, float]:
    """As `known`; who is owed GPUs of some kinds is owed as many GPUs."""
    found = known(amounts)
    kinds = sum(value for key, value in found.items() if key.startswith("gpus."))
    return {**found, "gpus": kinds} if kinds and "gpus" not in found else found
