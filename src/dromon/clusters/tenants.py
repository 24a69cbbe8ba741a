"""Rules about Queues and PriorityClasses, and how they go with the scheduler's configuration."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dromon.clusters.conf import Conf
from dromon.clusters.evictions import PREEMPT, RECLAIM, has
from dromon.clusters.findings import ERROR, WARNING, Finding
from dromon.clusters.objects import Object
from dromon.clusters.vocabulary import QUEUE_KEYS, QUEUE_PLUGINS
from dromon.engines.kubernetes.quantities import Vector, number, piece, short, told, total
from dromon.spec.path import Path
from dromon.spec.words import choice

ROOT, DEFAULT = "root", "default"
LARGEST = 1_000_000_000  # above it priorities are Kubernetes' own
TURNED_AWAY = "the admission webhook refuses it; where that is not installed "


@dataclass(frozen=True, slots=True)
class Queue:
    source: Object
    name: str
    spec: dict[str, Any]
    deserved: Vector
    capability: Vector
    guarantee: Vector

    @property
    def parent(self) -> str:
        return str(self.spec.get("parent") or ROOT)

    def finding(
        self, path: Path, severity: str, rule: str, what: str, why: str, remedy: str
    ) -> Finding:
        place = self.source.place(*path) if path else self.source.place("metadata", "name")
        return Finding(self.source.file, *place, severity, rule, what, why, remedy)


def read_queue(source: Object) -> tuple[Queue, list[Finding]]:
    spec = source.data.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    findings: list[Finding] = []

    def amounts(path: Path, given: Any) -> Vector:
        found = {}
        for key, value in given.items() if isinstance(given, dict) else ():
            try:
                found[key] = number(value)
            except ValueError as error:
                findings.append(
                    Finding(source.file, *source.place(*path, key), ERROR, "no-quantity",
                            "the API server refuses this queue", str(error),
                            "write for example 8, 500m or 64Gi")
                )  # fmt: skip
        return found

    guarantee = spec.get("guarantee")
    kept = guarantee.get("resource") if isinstance(guarantee, dict) else None
    queue = Queue(
        source, source.name, spec,
        amounts(("spec", "deserved"), spec.get("deserved")),
        amounts(("spec", "capability"), spec.get("capability")),
        amounts(("spec", "guarantee", "resource"), kept),
    )  # fmt: skip
    for key in spec:
        if key not in QUEUE_KEYS:
            findings.append(
                Finding(source.file, *source.place("spec", key, at_key=True), ERROR, "ignored",
                        f"{key} of queue {queue.name} has no effect",
                        "the API server drops keys that a Queue does not have, without a word",
                        choice(key, QUEUE_KEYS))
            )  # fmt: skip
    if isinstance(guarantee, dict) and guarantee and "resource" not in guarantee:
        findings.append(
            queue.finding(("spec", "guarantee"), ERROR, "ignored",
                          f"the guarantee of queue {queue.name} has no effect",
                          "amounts stand one level deeper",
                          "write guarantee: {resource: {…}}")
        )  # fmt: skip
    weight = spec.get("weight")
    if weight is not None and (type(weight) is not int or weight < 1):
        findings.append(
            queue.finding(("spec", "weight"), ERROR, "no-quantity",
                          "the API server refuses this queue", "a weight is a whole number from 1",
                          "write weight: 1")
        )  # fmt: skip
    return queue, findings


def judge_queues(queues: list[Queue], conf: Conf | None) -> Iterator[Finding]:
    by_name = {queue.name: queue for queue in queues}
    for queue in queues:
        if queue.name != ROOT:
            yield from _within(queue)
            yield from _tree(queue, by_name)
        yield from _below(queue, [each for each in queues if _is_child(each, queue)])
    if conf is not None:
        yield from _with_conf(queues, conf)


def _is_child(queue: Queue, parent: Queue) -> bool:
    return queue.name != ROOT and queue.parent == parent.name and parent.name != ROOT


def _within(queue: Queue) -> Iterator[Finding]:
    for kind, amount in queue.deserved.items():
        if amount > queue.capability.get(kind, amount):
            yield queue.finding(
                ("spec", "deserved", kind), ERROR, "deserved-over-limit",
                f"queue {queue.name} never gets all it deserves, {piece(kind, amount)}",
                f"its capability is {piece(kind, queue.capability[kind])}; {TURNED_AWAY}the "
                "smaller counts", "lower deserved or raise capability",
            )  # fmt: skip
    for kind, amount in queue.guarantee.items():
        if amount > queue.deserved.get(kind, 0):
            yield queue.finding(
                ("spec", "guarantee", "resource", kind), ERROR, "guarantee-over-deserved",
                f"queue {queue.name} cannot be guaranteed {piece(kind, amount)}",
                f"a guarantee is a part of deserved, which is "
                f"{piece(kind, queue.deserved.get(kind, 0))}; {TURNED_AWAY}the share grows",
                "raise deserved or lower the guarantee",
            )  # fmt: skip
    if queue.spec.get("reclaimable") is False:
        loose = [k for k, v in queue.deserved.items() if v < queue.capability.get(k, float("inf"))]
        if loose or not queue.deserved:
            kinds = ", ".join(loose) or "anything"
            yield queue.finding(
                ("spec", "reclaimable"), ERROR, "never-gives-back",
                f"queue {queue.name} borrows {kinds} and never gives it back: reclaim does "
                "nothing for the others",
                "with reclaimable: false its pods are no victims, and its capability lets it have "
                "more than it deserves",
                "remove reclaimable: false, or set capability to what it deserves",
            )  # fmt: skip


def _tree(queue: Queue, by_name: dict[str, Queue]) -> Iterator[Finding]:
    path: Path = ("spec", "parent")
    stops = "with enableHierarchy nothing at all is scheduled on the cluster"
    if queue.parent == ROOT:
        return
    if queue.parent == DEFAULT:
        yield queue.finding(
            path, ERROR, "default-is-parent", f"{stops} as soon as a job names no queue",
            "only a queue with none below it takes jobs, and jobs that name no queue go to default",
            "choose another parent",
        )  # fmt: skip
    if queue.parent not in by_name:
        yield queue.finding(
            path, WARNING, "unknown-parent", f"{stops} if there is no queue {queue.parent}",
            "it is not in these files", f"name its file too; {choice(queue.parent, by_name)}",
        )  # fmt: skip
        return
    seen, at = {queue.name}, by_name[queue.parent]
    while at.name not in seen and at.parent in by_name:
        seen.add(at.name)
        at = by_name[at.parent]
    if at.name == queue.name:
        yield queue.finding(path, ERROR, "circle", stops, f"{queue.name} is above itself",
                            "remove one of the parents")  # fmt: skip
    for kind, amount in queue.capability.items():
        limit = _cap_above(queue, by_name, kind)
        if amount > limit:
            yield queue.finding(
                ("spec", "capability", kind), ERROR, "limit-over-parent",
                f"queue {queue.name} never gets to its capability, {piece(kind, amount)}",
                f"a queue above it ends at {piece(kind, limit)}; {TURNED_AWAY}that counts",
                "lower it",
            )  # fmt: skip


def _cap_above(queue: Queue, by_name: dict[str, Queue], kind: str) -> float:
    seen = {queue.name}
    at = by_name.get(queue.parent)
    while at is not None and at.name not in seen:
        if kind in at.capability:
            return at.capability[kind]
        seen.add(at.name)
        at = by_name.get(at.parent)
    return float("inf")


def _below(queue: Queue, children: list[Queue]) -> Iterator[Finding]:
    if not children:
        return
    for word, path in (("deserved", ("deserved",)), ("guarantee", ("guarantee", "resource"))):
        asked = total(getattr(child, word) for child in children)
        have: Vector = getattr(queue, word)
        if missing := short(asked, have):
            yield queue.finding(
                ("spec", *path), ERROR, "children-over-parent",
                f"the queues below {queue.name} cannot all have what they are promised ({word})",
                f"together {told(asked, missing)}, {queue.name} has {told(have, missing)}; "
                f"{TURNED_AWAY}they take it from each other",
                f"raise {word} of {queue.name} to {told(asked, missing)}, or lower theirs",
            )  # fmt: skip


def _with_conf(queues: list[Queue], conf: Conf) -> Iterator[Finding]:
    own = [queue for queue in queues if queue.name != ROOT]
    kind = next((name for name in QUEUE_PLUGINS if conf.find(name)), "")
    capacity = conf.find("capacity")
    parents = {queue.parent for queue in own}
    for queue in own:
        if capacity and queue.parent != ROOT and not capacity.has("enableHierarchy"):
            yield queue.finding(
                ("spec", "parent"), ERROR, "no-hierarchy",
                f"queue {queue.name} is not below {queue.parent}: its parent has no effect",
                "capacity reads parents only with enableHierarchy",
                "write enableHierarchy: true at capacity",
            )  # fmt: skip
        if kind == "proportion" and queue.deserved:
            yield queue.finding(
                ("spec", "deserved"), ERROR, "deserved-not-read",
                f"what queue {queue.name} deserves has no effect",
                "proportion takes shares from weight; deserved is read by capacity",
                "use capacity in place of proportion",
            )  # fmt: skip
        is_leaf = queue.name not in parents
        if kind == "capacity" and is_leaf and not queue.deserved and has(conf, RECLAIM):
            yield queue.finding(
                (), WARNING, "no-deserved",
                f"queue {queue.name} reclaims nothing, and all it runs can be taken at any time",
                "it deserves nothing; weight is not read by capacity",
                "give it deserved, unless it is meant to live on what is idle",
            )  # fmt: skip


# --- priorities


def judge_priorities(classes: list[Object], conf: Conf | None) -> Iterator[Finding]:
    values: dict[str, int] = {}
    defaults: list[Object] = []
    for each in classes:
        value = each.data.get("value")
        if type(value) is not int or not -(2**31) <= value <= LARGEST:
            yield _of(
                each,
                ("value",),
                ERROR,
                "no-quantity",
                "the API server refuses this class",
                f"a value is a whole number up to {LARGEST}",
                "write value: 1000",
            )
            continue
        values[each.name] = value
        if each.data.get("globalDefault") is True:
            defaults.append(each)
    for extra in defaults[1:]:
        yield _of(extra, ("globalDefault",), ERROR, "two-defaults",
                  "the API server refuses this class", f"{defaults[0].name} is the default already",
                  "keep one globalDefault: true")  # fmt: skip
    preempt = has(conf, PREEMPT) if conf is not None else ""
    if classes and not defaults and preempt:
        yield _of(classes[0], ("metadata", "name"), WARNING, "no-default",
                  "pods that name no priority class are the first to be pushed out, bystanders "
                  "among them", "without a default their priority is 0",
                  "write globalDefault: true at one class, or give every job a class")  # fmt: skip
    if not (preempt or (conf is not None and has(conf, RECLAIM))):
        return
    for each in classes:
        lower = [name for name, value in values.items() if value < values.get(each.name, -LARGEST)]
        if each.data.get("preemptionPolicy") == "Never" and lower:
            yield _of(each, ("preemptionPolicy",), WARNING, "never-preempts",
                      f"jobs of class {each.name} wait behind {', '.join(sorted(lower))} however "
                      "long those run, and reclaim nothing for their queue either",
                      "Volcano passes over pods with preemptionPolicy Never in preempt and in "
                      "reclaim", "remove preemptionPolicy, unless that is meant")  # fmt: skip
    if preempt and len(values) > 1 and len(set(values.values())) == 1:
        yield _of(classes[0], ("value",), ERROR, "one-priority", "preempt never evicts anybody",
                  "all classes have the same value", "give urgent work a higher value")  # fmt: skip


def _of(
    source: Object, path: Path, severity: str, rule: str, what: str, why: str, remedy: str
) -> Finding:
    return Finding(source.file, *source.place(*path), severity, rule, what, why, remedy)
