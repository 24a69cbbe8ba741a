"""Is there room for a gang, on which nodes, and what keeps it from the others? Pure arithmetic.

Volcano's own word is "not enough resources"; here the resource and the nodes get their names.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dromon.engines.kubernetes import quantities
from dromon.engines.kubernetes.situation import Node, Taint
from dromon.engines.kubernetes.status import role_of

Vector = Mapping[str, float]
HOSTNAME = "kubernetes.io/hostname"
_BARS = frozenset({"NoSchedule", "NoExecute"})
# Taints that say nothing more than that a node is not ready or is cordoned.
_STATE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
          "node.kubernetes.io/unschedulable")  # fmt: skip


class Shape(NamedTuple):
    """Pods of one task: what one of them asks for, how many must be there together."""

    role: str
    asks: Vector
    least: int
    most: int
    spec: Mapping[str, Any]
    labels: Mapping[str, str]

    @property
    def is_alone(self) -> bool:
        """Each of its pods wants a node for itself."""
        terms = ((self.spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or ()
        return any(term.get("topologyKey") == HOSTNAME for term in terms)


def shapes(job: Mapping[str, Any], there: Mapping[str, int] | None = None) -> list[Shape]:
    """The tasks of a job, the hardest to place first; `there`: pods a role has already."""
    spec = job.get("spec") or {}
    tasks = spec.get("tasks") or []
    if not tasks and spec.get("template"):
        tasks = [{"template": spec["template"], "replicas": spec.get("parallelism") or 1}]
    found = []
    given = [int(task["minAvailable"]) for task in tasks if task.get("minAvailable") is not None]
    rest = int(spec.get("minAvailable") or sys.maxsize) - sum(given)
    for task in tasks:
        template = task.get("template") or {}
        replicas = int(task.get("replicas", 1))
        least = task.get("minAvailable")
        if least is None:  # as many as the job needs that no other task has to bring
            least = max(0, min(replicas, rest))
            rest -= least
        has = (there or {}).get(role_of(task), 0)
        found.append(
            Shape(
                role_of(task),
                {**quantities.asked(template.get("spec") or {}), "pods": 1.0},
                max(0, int(least) - has),
                max(0, replicas - has),
                template.get("spec") or {},
                (template.get("metadata") or {}).get("labels") or {},
            )
        )
    return sorted(found, key=_size, reverse=True)


def gang(wanted: Iterable[Shape]) -> dict[str, float]:
    """What the least of it asks for together, without the places of pods."""
    every = quantities.total(quantities.times(one.asks, one.least) for one in wanted)
    every.pop("pods", None)
    return every


def _size(shape: Shape) -> tuple[float, float, float]:
    gpus = sum(amount for kind, amount in shape.asks.items() if quantities.is_gpu(kind))
    return gpus, shape.asks.get("memory", 0.0), shape.asks.get("cpu", 0.0)


# --- which nodes


def objection(shape: Shape, node: Node) -> str:
    """Why pods of this shape may never go there, or nothing; nodes that say the same are counted
    together."""
    for key, value in (shape.spec.get("nodeSelector") or {}).items():
        if node.labels.get(key) != value:
            return f"without the label {key}={value}"
    required = ((shape.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = required.get("nodeSelectorTerms") or ()
    if terms and not any(_matches(term, node) for term in terms):
        return "outside its node affinity"
    if not node.is_ready:
        return "not ready"
    if not node.is_open:
        return "cordoned"
    for taint in node.taints:
        bars = taint.effect in _BARS and taint.key not in _STATE
        if bars and not _tolerated(taint, shape.spec.get("tolerations") or ()):
            value = f"={taint.value}" if taint.value else ""
            return f"with the taint {taint.key}{value}"
    return ""


def _tolerated(taint: Taint, tolerations: Iterable[Mapping[str, Any]]) -> bool:
    return any(
        one.get("effect") in (None, "", taint.effect)
        and one.get("key") in (None, "", taint.key)
        and (one.get("operator") == "Exists" or (one.get("value") or "") == taint.value)
        for one in tolerations
    )


def _matches(term: Mapping[str, Any], node: Node) -> bool:
    fields = term.get("matchFields") or ()
    named = all(node.name in (one.get("values") or ()) for one in fields)
    return named and all(_says(one, node.labels) for one in term.get("matchExpressions") or ())


def _says(one: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(one.get("key") or ""), list(one.get("values") or ())
    operator = one.get("operator")
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator == "NotIn":
        return value not in values
    if operator in ("Gt", "Lt"):
        try:
            gap = int(value or "") - int(values[0])
        except (ValueError, IndexError):
            return False
        return gap > 0 if operator == "Gt" else gap < 0
    return value in values


def suitable(shape: Shape, nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if not objection(shape, node)]


def objections(shape: Shape, nodes: Iterable[Node]) -> str:
    """ "3 nodes without the label kind=h100, 1 node cordoned"."""
    said = Counter(filter(None, (objection(shape, node) for node in nodes)))
    return ", ".join(
        f"{count} node{'' if count == 1 else 's'} {words}" for words, count in said.most_common(3)
    )


# --- how many fit


class Fit(NamedTuple):
    """How far a gang gets: the first shape that does not fit, and how many of it would."""

    shape: Shape | None = None  # None: all of it fits
    placed: int = 0
    room: Mapping[str, Vector] = {}  # what is left on the nodes that suit the shape


def fit(wanted: Sequence[Shape], nodes: Sequence[Node], have: Callable[[Node], Vector]) -> Fit:
    """Places the least of every shape, the hardest first, on what `have` says of nodes."""
    room = {node.name: dict(have(node)) for node in nodes}
    for shape in wanted:
        good = suitable(shape, nodes)
        left = shape.least
        for node in good:
            count = min(left, _holds(shape, room[node.name]))
            if count:
                taken = quantities.times(shape.asks, count)
                room[node.name] = quantities.less(room[node.name], taken)
                left -= count
        if left:
            before = {node.name: dict(have(node)) for node in good}
            return Fit(shape, shape.least - left, before)
    return Fit()


def _holds(shape: Shape, have: Vector) -> int:
    most = min(
        (
            int(have.get(kind, 0.0) / amount + 1e-9)
            for kind, amount in shape.asks.items()
            if amount > 0 and (kind != "pods" or kind in have)
        ),
        default=shape.most,
    )
    return min(most, 1) if shape.is_alone else most


def fits_one(shape: Shape, have: Vector) -> bool:
    return _holds(shape, have) > 0


def lacking(shape: Shape, have: Vector) -> dict[str, float]:
    """What one pod misses there; the places of pods only where a node counts them."""
    missing = quantities.short(shape.asks, have)
    if "pods" not in have:
        missing.pop("pods", None)
    return missing
