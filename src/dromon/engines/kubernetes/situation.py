"""All that bears on a job that waits, as values, and how it is gathered.

What may not be looked at is left out and noted in words: who may only see a namespace still
hears what can be seen from there. What it all means is ``why``'s and ``watchdog``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from dromon.engines.kubernetes import pods as podfacts
from dromon.engines.kubernetes import quantities, status, volcano
from dromon.engines.kubernetes.pods import Condition, PodFacts, when
from dromon.engines.kubernetes.refusals import NotAllowed, NotFound
from dromon.engines.kubernetes.volcano import Kind
from dromon.errors import JobNotFound

Object = Mapping[str, Any]
Vector = Mapping[str, float]
ROOT = "root"  # Volcano's queue above all others
PLAIN_JOB_NAME = "batch.kubernetes.io/job-name"
LIVING = "status.phase!=Succeeded,status.phase!=Failed"


class Api(Protocol):
    """What is asked of an API server here."""

    def list(
        self, kind: Kind, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Sequence[Object]: ...
    def read(self, kind: Kind, namespace: str, name: str) -> Object | None: ...


class Event(NamedTuple):
    """Something Kubernetes or Volcano said of an object."""

    kind: str
    name: str
    reason: str
    message: str
    at: float
    is_warning: bool


class Group(NamedTuple):
    """The PodGroup: the gang as Volcano's scheduler sees it."""

    name: str
    phase: str  # Pending, Inqueue, Running, Unknown, Completed
    least: int
    asks: Vector  # of the least that must be there together
    created: float
    conditions: tuple[Condition, ...]


class Queue(NamedTuple):
    name: str
    state: str  # Open, Closed, Closing, Unknown
    capability: Vector  # the most it may use; kinds that are absent have no limit
    deserved: Vector
    guarantee: Vector
    allocated: Vector
    parent: str
    weight: int


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class Node(NamedTuple):
    name: str
    total: Vector
    used: Vector  # what the pods on it ask for
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    is_open: bool  # not cordoned
    is_ready: bool
    since: float | None  # it is ready, or not

    @property
    def free(self) -> dict[str, float]:
        return quantities.less(self.total, self.used)


class Quota(NamedTuple):
    name: str
    hard: Vector
    used: Vector


class Claim(NamedTuple):
    """`phase` is empty where there is no such PersistentVolumeClaim."""

    name: str
    phase: str = ""
    storage_class: str = ""


class Peer(NamedTuple):
    """Another job, or what else holds something."""

    name: str
    namespace: str
    queue: str
    priority: int
    phase: str  # of a Volcano Job; empty for anything else
    created: float
    held: Vector
    nodes: Mapping[str, Vector]  # what it holds on which
    ending: bool = False  # some pod of it is being taken away
    lives: bool = True  # it holds or wants something


class Situation(NamedTuple):
    namespace: str
    job: Object
    pods: Mapping[str, PodFacts]
    group: Group | None = None
    queue: Queue | None = None
    queues: tuple[Queue, ...] = ()
    events: tuple[Event, ...] = ()  # the newest first
    nodes: tuple[Node, ...] | None = None  # None: they may not be looked at
    quotas: tuple[Quota, ...] = ()
    claims: Mapping[str, Claim] = {}
    classes: Mapping[str, int] = {}  # priority classes
    peers: tuple[Peer, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be looked at, in words

    @property
    def priority(self) -> int:
        return _priority(self.job, self.classes)

    def said(self, *reasons: str, of: str = "") -> Event | None:
        """The newest event of one of these reasons, of this object where one is named."""
        return next(
            (e for e in self.events if e.reason in reasons and of in ("", e.name)), None
        )  # fmt: skip


def gather(api: Api, namespace: str, name: str) -> Situation:
    looking = _Looking(api, namespace)
    job = looking.job(name)
    meta = job["metadata"]
    is_volcano = not status.is_plain(job)
    label = volcano.VOLCANO_JOB if is_volcano else PLAIN_JOB_NAME
    own = looking.all(volcano.POD, "pods", labels=f"{label}={name}")
    pods = [pod for pod in own if _belongs(pod, meta)]
    everywhere = looking.everywhere(volcano.POD, "pods of other namespaces", fields=LIVING)
    facts = podfacts.newest(pods)
    queues = tuple(map(_queue, looking.all(volcano.QUEUE, "queues"))) if is_volcano else ()
    own_queue = (job.get("spec") or {}).get("queue") or "default"
    groups = looking.all(volcano.POD_GROUP, "PodGroups") if is_volcano else []
    group = next((_group(one) for one in groups if _is_of(one, meta)), None)
    classes = {
        one["metadata"]["name"]: int(one.get("value") or 0)
        for one in looking.all(volcano.PRIORITY_CLASS, "priority classes")
    }
    jobs = looking.everywhere(volcano.JOB, "jobs of other namespaces") if is_volcano else []
    claims = {
        claim: looking.claim(claim)
        for claim in sorted({c for spec in _specs(job) for c in podfacts.claims(spec)})
    }
    about = {name, *(one["metadata"]["name"] for one in pods), *_pod_names(job), *claims}
    if group is not None:
        about.add(group.name)
    return Situation(
        namespace=namespace,
        job=job,
        pods=facts,
        group=group,
        queue=next((one for one in queues if one.name == own_queue), None),
        queues=queues,
        events=_events(looking.all(volcano.EVENT, "events"), about),
        nodes=looking.nodes(everywhere),
        quotas=tuple(map(_quota, looking.all(volcano.QUOTA, "quotas"))),
        claims=claims,
        classes=classes,
        peers=peers_of(jobs, everywhere, classes, job),
        notes=tuple(dict.fromkeys(looking.notes)),
    )


def nodes(api: Api, *, is_empty: bool = False) -> tuple[Node, ...] | None:
    """Of the whole cluster, `is_empty`: as if nobody used them; None: we may not look."""
    looking = _Looking(api, "")
    return looking.nodes([] if is_empty else looking.everywhere(volcano.POD, "pods", fields=LIVING))


class _Looking:
    """One look around. What is forbidden is noted, and reads as nothing."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.notes: list[str] = []

    def job(self, name: str) -> Object:
        for kind in (volcano.JOB, volcano.PLAIN_JOB):
            try:
                found = self.api.read(kind, self.namespace, name)
            except NotFound:  # a cluster without Volcano
                continue
            if found is not None:
                return found
        raise JobNotFound(f"there is no job {name} in namespace {self.namespace}")

    def all(self, kind: Kind, words: str, labels: str = "", fields: str = "") -> Sequence[Object]:
        try:
            within = self.namespace if kind.namespaced else ""
            return self.api.list(kind, within, labels=labels, fields=fields)
        except NotAllowed:
            self.notes.append(f"may not look at {words}")
        except NotFound:
            pass
        return []

    def everywhere(self, kind: Kind, words: str, fields: str = "") -> Sequence[Object]:
        try:
            return self.api.list(kind, "", fields=fields)
        except NotAllowed:
            self.notes.append(f"may not look at {words}")
        except NotFound:
            return []
        return self.all(kind, kind.plural, fields=fields)

    def claim(self, name: str) -> Claim:
        try:
            found = self.api.read(volcano.CLAIM, self.namespace, name)
        except NotAllowed:
            self.notes.append("may not look at volume claims")
            return Claim(name, "Bound")  # nothing speaks against it
        if found is None:
            return Claim(name)
        now, spec = found.get("status") or {}, found.get("spec") or {}
        return Claim(name, now.get("phase") or "Pending", spec.get("storageClassName") or "")

    def nodes(self, pods: Sequence[Object]) -> tuple[Node, ...] | None:
        found = self.all(volcano.NODE, "nodes")
        if any(note.endswith("nodes") for note in self.notes):
            return None
        used: dict[str, list[Vector]] = {}
        for pod in pods:
            if _holds(pod):
                used.setdefault(pod["spec"]["nodeName"], []).append(
                    {**quantities.asked(pod["spec"]), "pods": 1.0}
                )
        return tuple(_node(one, used.get(one["metadata"]["name"], [])) for one in found)


# --- what is whose


def _belongs(pod: Object, job: Object) -> bool:
    """Not of a job of the same name that was there before."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return not owners or any(owner.get("uid") == job.get("uid") for owner in owners)


def _is_of(group: Object, job: Object) -> bool:
    owners = group["metadata"].get("ownerReferences") or ()
    uid = job.get("uid")
    if any(owner.get("uid") == uid for owner in owners):
        return True
    return group["metadata"]["name"] in (job["name"], f"{job['name']}-{uid}")


def _specs(job: Object) -> list[Object]:
    spec = job.get("spec") or {}
    templates = [task.get("template") or {} for task in spec.get("tasks") or ()]
    if not templates and spec.get("template"):
        templates = [spec["template"]]
    return [template.get("spec") or {} for template in templates]


def _pod_names(job: Object) -> Iterable[str]:
    """Those Volcano gives, also to pods that are gone: what was said of them is still of use."""
    for task in (job.get("spec") or {}).get("tasks") or ():
        for index in range(int(task.get("replicas", 1))):
            yield f"{job['metadata']['name']}-{task.get('name', '')}-{index}"


def _holds(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return bool((pod.get("spec") or {}).get("nodeName")) and phase not in ("Succeeded", "Failed")


def _priority(job: Object, classes: Mapping[str, int]) -> int:
    return classes.get((job.get("spec") or {}).get("priorityClassName") or "", 0)


def peers_of(
    jobs: Iterable[Object], pods: Iterable[Object], classes: Mapping[str, int], own: Object
) -> tuple[Peer, ...]:
    """Everybody else: jobs by name, pods that belong to none by their owner's."""
    held: dict[tuple[str, str], dict[str, list[Vector]]] = {}
    ending: set[tuple[str, str]] = set()
    for pod in pods:
        if not _holds(pod):
            continue
        key = (pod["metadata"].get("namespace") or "", holder(pod))
        on = held.setdefault(key, {})
        on.setdefault(pod["spec"]["nodeName"], []).append(quantities.asked(pod["spec"]))
        if pod["metadata"].get("deletionTimestamp"):
            ending.add(key)
    found = []
    own_key = (own["metadata"].get("namespace") or "", own["metadata"]["name"])
    for job in jobs:
        meta, spec = job["metadata"], job.get("spec") or {}
        key = (meta.get("namespace") or "", meta["name"])
        nodes = held.pop(key, {})
        if key == own_key:
            continue
        phase = ((job.get("status") or {}).get("state") or {}).get("phase") or ""
        found.append(
            Peer(
                meta["name"], key[0], spec.get("queue") or "default", _priority(job, classes),
                phase or "Pending", when(meta.get("creationTimestamp")) or 0.0,
                quantities.total(v for vs in nodes.values() for v in vs),
                {node: quantities.total(vs) for node, vs in nodes.items()},
                key in ending,
                phase not in volcano.ENDED and phase != volcano.ABORTED,
            )
        )  # fmt: skip
    for key, nodes in held.items():
        if key != own_key:
            every = quantities.total(v for vs in nodes.values() for v in vs)
            each = {node: quantities.total(vs) for node, vs in nodes.items()}
            found.append(Peer(key[1], key[0], "", 0, "", 0.0, every, each, key in ending))
    return tuple(sorted(found, key=lambda one: (one.created, one.name)))


def holder(pod: Object) -> str:
    """The name under which people know what a pod belongs to."""
    meta = pod["metadata"]
    known = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
    owners = meta.get("ownerReferences") or ()
    return str(
        known.get(volcano.VOLCANO_JOB)
        or known.get(volcano.JOB_LABEL)
        or next((owner["name"] for owner in owners), "")
        or meta["name"]
    )


# --- objects as values


def _group(given: Object) -> Group:
    spec, now = given.get("spec") or {}, given.get("status") or {}
    return Group(
        given["metadata"]["name"],
        now.get("phase") or "Pending",
        int(spec.get("minMember") or 0),
        quantities.vector(spec.get("minResources")),
        when(given["metadata"].get("creationTimestamp")) or 0.0,
        tuple(podfacts.condition(one) for one in now.get("conditions") or ()),
    )


def _queue(given: Object) -> Queue:
    spec, now = given.get("spec") or {}, given.get("status") or {}
    return Queue(
        given["metadata"]["name"],
        now.get("state") or "Open",
        quantities.vector(spec.get("capability")),
        quantities.vector(spec.get("deserved")),
        quantities.vector((spec.get("guarantee") or {}).get("resource")),
        quantities.vector(now.get("allocated")),
        spec.get("parent") or "",
        int(spec.get("weight") or 1),
    )


def _node(given: Object, used: Iterable[Vector]) -> Node:
    spec, now = given.get("spec") or {}, given.get("status") or {}
    conditions = [podfacts.condition(one) for one in now.get("conditions") or ()]
    ready = next((one for one in conditions if one.kind == "Ready"), None)
    return Node(
        given["metadata"]["name"],
        quantities.vector(now.get("allocatable")),
        quantities.total(used),
        given["metadata"].get("labels") or {},
        tuple(
            Taint(one["key"], one.get("value") or "", one["effect"])
            for one in spec.get("taints") or ()
        ),
        not spec.get("unschedulable"),
        ready is not None and ready.is_true,
        ready.since if ready is not None else None,
    )


def _quota(given: Object) -> Quota:
    now = given.get("status") or {}
    hard = now.get("hard") or (given.get("spec") or {}).get("hard")
    return Quota(
        given["metadata"]["name"], quantities.vector(hard), quantities.vector(now.get("used"))
    )


def _events(given: Iterable[Object], about: set[str]) -> tuple[Event, ...]:
    found = []
    for one in given:
        of = one.get("involvedObject") or {}
        if of.get("name") not in about:
            continue
        times = (one.get("lastTimestamp"), (one.get("series") or {}).get("lastObservedTime"),
                 one.get("eventTime"), one.get("firstTimestamp"),
                 one["metadata"].get("creationTimestamp"))  # fmt: skip
        at = next((time for time in map(when, times) if time), 0.0)
        found.append(
            Event(
                of.get("kind") or "", of["name"], one.get("reason") or "",
                " ".join((one.get("message") or "").split()), at, one.get("type") == "Warning",
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda one: -one.at))
