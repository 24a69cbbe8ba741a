"""The site file: what an administrator says once of queues, shares, caps and priorities.

    total: {cpus: 256, memory: 2TiB, gpus: 32}
    queues:
      research: {weight: 2, cap: {gpus: 24}}
      product: {share: {gpus: 8}, guarantee: {gpus: 4}}
    priorities:
      low: 100
      normal: {value: 1000, default: true}
      urgent: {value: 10000, description: Deadlines only.}

Models only: what spans several keys is in `sitefile`. No engine's words here; each engine's
configuration is made from it elsewhere.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from dromon.spec.model import Part
from dromon.spec.names import Filled, Text
from dromon.spec.quantities import Cpus, Size
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


Name = Annotated[str, PlainValidator(_name)]


class Amounts(Part):
    """So much of each kind; of what is left out, nothing is said."""

    cpus: Cpus | None = Field(default=None, description="CPU cores.")
    memory: Size | None = Field(default=None, description="Main memory.")
    gpus: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        default=None, description="GPUs."
    )

    def known(self) -> dict[str, float]:
        return {key: value for key, value in self if value is not None}


class Queue(Part):
    """Where jobs of one tenant wait."""

    parent: Name | None = Field(
        default=None, description="The queue above it, whose share and cap it divides."
    )
    weight: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="Its part of what `total`, or its parent's share, leaves after the shares "
        "that are given as amounts.",
    )
    share: Amounts | None = Field(
        default=None,
        description="What it is owed when it has work. What it leaves idle is lent to the others.",
    )
    cap: Amounts | None = Field(default=None, description="What it never has more of.")
    guarantee: Amounts | None = Field(
        default=None, description="What is kept for it even while it is idle."
    )
    reclaimable: bool = Field(
        default=True, description="Whether others get back what it has beyond its share."
    )
    priority: Annotated[int, Field(ge=0, le=1_000_000_000)] = Field(
        default=0, description="Queues of a higher one are served first."
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
        default="lower", description="Whether its jobs push out jobs of lower priority."
    )
    default: bool = Field(default=False, description="Whether jobs that name no class are in it.")
    description: Text = Field(default="", description="When to use it.")


class Kubernetes(Part):
    """What Kubernetes clusters call things."""

    gpu_resource: Filled = Field(default="nvidia.com/gpu", description="The resource of a GPU.")


class Site(Part):
    """All that is said of a cluster."""

    total: Amounts | None = Field(
        default=None, description="What the cluster has; needed for weights, and to check sums."
    )
    queues: dict[Name, Queue] = Field(default_factory=dict, description="The queues, by name.")
    priorities: dict[Name, PriorityClass] = Field(
        default_factory=dict, description="The classes of priority, by name."
    )
    kubernetes: Kubernetes = Field(default_factory=Kubernetes)

    def children(self, parent: str) -> dict[str, Queue]:
        return {n: q for n, q in self.queues.items() if q.above == parent}


def known(amounts: Amounts | None) -> dict[str, float]:
    return amounts.known() if amounts is not None else {}
