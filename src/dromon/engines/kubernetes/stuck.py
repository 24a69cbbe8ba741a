"""Why pods of a job cannot be made, or have a node and do not start. Pure; tried by ``why``.

Every function looks for one thing: ``(Situation, now) -> Waiting | None``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dromon.engines.base import Waiting
from dromon.engines.kubernetes import quantities, room
from dromon.engines.kubernetes.pods import NO_IMAGE, PodFacts, stuck
from dromon.engines.kubernetes.situation import Node, Situation
from dromon.units import format_duration

Case = Callable[[Situation, float], Waiting | None]

# Volcano prints the API server's answer as Go does, with the sentence somewhere inside.
_SENTENCE = re.compile(r'Message:"((?:[^"\\]|\\.)*)"')
_QUOTA = re.compile(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: ([^\s\]]+)")
_MISSING = re.compile(r'(secret|configmap) "([^"]+)" not found', re.IGNORECASE)
_KEY = re.compile(r"couldn't find key (\S+) in (Secret|ConfigMap) \S+?/(\S+)")
_WORDS = {"secret": "secret", "configmap": "ConfigMap"}


def members(names: list[str]) -> str:
    shown = names[:3] + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


# --- pods that are not made


def uncreated(s: Situation, now: float) -> Waiting | None:
    """Volcano wants to make pods and the API server does not let it."""
    wanted = sum(shape.most for shape in room.shapes(s.job))
    said = s.said("FailedCreatePod", "FailedCreate", "FailedCreatePodReason")
    if said is None or len(s.pods) >= wanted:
        return None
    there = f"{len(s.pods)} of its {wanted} pods are there" if s.pods else "its pods cannot be made"
    words = _sentence(said.message)
    quota = _QUOTA.search(words)
    if quota is None:
        return Waiting(
            f"{there}: {words.rpartition(' is forbidden: ')[2][:400]}",
            "impossible",
            unblock=("whoever runs the cluster allows it", "the job asks for something else"),
        )
    name = quota[1]
    asked, used, limited = (_amounts(text) for text in quota.groups()[1:])
    users = _holders_here(s)
    return Waiting(
        f"{there}: quota {name} of namespace {s.namespace} allows {quantities.told(limited)}, of"
        f" which {quantities.told(used)} {_is(used)} in use, and a pod asks for"
        f" {quantities.told(asked)}",
        "resources",
        holders=users,
        missing=quantities.short(quantities.total((asked, used)), limited, absent=float("inf")),
        unblock=(
            *(f"{user} ends" for user in users[:1]),
            f"quota {name} is raised",
            "the job asks for less",
        ),
    )


def _sentence(said: str) -> str:
    if found := _SENTENCE.search(said):
        return found[1].replace('\\"', '"')
    return said.partition(", err: ")[2].rstrip("]") or said


def _amounts(text: str) -> dict[str, float]:
    """Of "requests.cpu=10m,pods=3", by the plain names of resources."""
    pairs = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
    return {plain(kind): amount for kind, amount in quantities.vector(pairs).items()}


def plain(kind: str) -> str:
    return kind.removeprefix("requests.").removeprefix("limits.").removeprefix("count/")


def _is(amounts: Mapping[str, float]) -> str:
    return "is" if len(amounts) == 1 else "are"


def over_quota(s: Situation, now: float) -> Waiting | None:
    """By arithmetic: pods that are not made yet would go over what the namespace may use."""
    there: dict[str, int] = {}
    for pod in s.pods.values():
        there[pod.role] = there.get(pod.role, 0) + 1
    wanted = [shape for shape in room.shapes(s.job, there) if shape.most]
    more = quantities.total(quantities.times(shape.asks, shape.most) for shape in wanted)
    named = {**more, **{f"requests.{kind}": amount for kind, amount in more.items()},
             "count/pods": more.get("pods", 0.0)}  # fmt: skip
    for quota in s.quotas:
        relevant = {kind: named[kind] for kind in quota.hard if kind in named}
        after = quantities.total((relevant, {k: quota.used.get(k, 0.0) for k in relevant}))
        missing = quantities.short(after, quota.hard)
        if missing:
            most = {plain(kind): quota.hard[kind] for kind in missing}
            used = {plain(kind): quota.used.get(kind, 0.0) for kind in missing}
            users = _holders_here(s)
            return Waiting(
                f"quota {quota.name} of namespace {s.namespace} allows {quantities.told(most)}, of"
                f" which {quantities.told(used)} {_is(used)} in use: there is no room for its pods",
                "resources",
                holders=users,
                missing={plain(kind): amount for kind, amount in missing.items()},
                unblock=(*(f"{user} ends" for user in users[:1]), f"quota {quota.name} is raised"),
            )
    return None


def _holders_here(s: Situation) -> tuple[str, ...]:
    return tuple(peer.name for peer in s.peers if peer.namespace == s.namespace and peer.held)


def gated(s: Situation, now: float) -> Waiting | None:
    held = {gate: member for member, pod in s.pods.items() for gate in pod.gates}
    if not held:
        return None
    return Waiting(
        f"its pods are held back by the scheduling gate {members(sorted(held))}",
        "order",
        unblock=("whoever set the gate takes it away",),
    )


# --- pods with a node that do not start


def no_image(s: Situation, now: float) -> Waiting | None:
    found = [(m, p) for m, p in s.pods.items() if p.blocked and p.blocked.reason in NO_IMAGE]
    if not found:
        return None
    pod = found[0][1]
    names = members([member for member, _ in found])
    image = pod.blocked.image if pod.blocked else ""
    return Waiting(
        f"{names} cannot start: {stuck(pod)}",
        "impossible",
        unblock=(f"image {image} can be had on {pod.node}", "`image:` names another"),
    )


def unmade(s: Situation, now: float) -> Waiting | None:
    """A secret or ConfigMap that is not there, or another fault of the container's making."""
    for member, pod in s.pods.items():
        if pod.blocked is None:
            continue
        lacking = _lacking(pod.blocked.message)
        if lacking:
            return Waiting(
                f"{member} cannot start: {lacking} in namespace {s.namespace}",
                "impossible",
                unblock=("it is created; the pod goes on by itself",),
            )
        return Waiting(f"{member} cannot start: {stuck(pod)}", "impossible",
                       unblock=("the job asks for something else",))  # fmt: skip
    return None


def unmounted(s: Situation, now: float) -> Waiting | None:
    for member, pod in s.pods.items():
        if pod.phase != "Pending" or not pod.node:
            continue
        said = s.said("FailedMount", "FailedAttachVolume", "FailedMapVolume", of=pod.name)
        if said is None or (pod.started or 0.0) > said.at:
            continue
        lacking = _lacking(said.message)
        if lacking:
            words, way = f"{lacking} in namespace {s.namespace}", "it is created"
        else:
            words = f"its volume cannot be mounted on {pod.node}: {said.message[:400]}"
            way = "the volume becomes reachable from that node"
        return Waiting(f"{member} cannot start: {words}", "impossible",
                       unblock=(f"{way}; the pod goes on by itself",))  # fmt: skip
    return None


def _lacking(said: str) -> str:
    if found := _MISSING.search(said):
        return f"there is no {_WORDS[found[1].lower()]} {found[2]}"
    if found := _KEY.search(said):
        return f"{_WORDS[found[2].lower()]} {found[3]} has no key {found[1]}"
    return ""


def no_sandbox(s: Situation, now: float) -> Waiting | None:
    for member, pod in s.pods.items():
        said = s.said("FailedCreatePodSandBox", of=pod.name)
        if said is not None and pod.phase == "Pending" and pod.node and not pod.started:
            return Waiting(
                f"{member} cannot start on {pod.node}: {said.message[:400]}",
                "impossible",
                unblock=(f"node {pod.node} is repaired or cordoned",),
            )
    return None


def unclaimed(s: Situation, now: float) -> Waiting | None:
    """A PersistentVolumeClaim that is not there, or has no volume."""
    for claim in s.claims.values():
        if claim.phase == "Bound":
            continue
        if not claim.phase:
            return Waiting(
                f"there is no PersistentVolumeClaim {claim.name} in namespace {s.namespace}",
                "impossible",
                unblock=("it is created; the job goes on by itself",),
            )
        if claim.phase == "Lost":
            return Waiting(f"the volume of PersistentVolumeClaim {claim.name} is gone",
                           "impossible", unblock=("the claim is made anew",))  # fmt: skip
        said = s.said("ProvisioningFailed", "FailedBinding", "WaitForFirstConsumer",
                      "ExternalProvisioning", of=claim.name)  # fmt: skip
        if said is not None and said.reason == "WaitForFirstConsumer":
            continue  # it gets its volume with the first pod
        words = f": {said.message}" if said is not None else ""
        return Waiting(
            f"PersistentVolumeClaim {claim.name} has no volume yet{words}",
            "resources",
            unblock=("a volume is provided for it",),
        )
    return None


# --- pods that do not go away


def lost(s: Situation, now: float) -> Waiting | None:
    """Kubernetes keeps the pods of a node that does not answer: they may still run."""
    if s.nodes is None:
        return None
    nodes = {node.name: node for node in s.nodes}
    away = [pod for pod in s.pods.values() if pod.is_bound and _is_away(nodes.get(pod.node))]
    if not away:
        return None
    node = nodes.get(away[0].node)
    since = f" for {format_duration(now - node.since)}" if node and node.since else ""
    silent = (
        f"node {away[0].node} does not answer{since}" if node else f"node {away[0].node} is gone"
    )
    back = "the node comes back"
    kept = [pod.member for pod in away if pod.deleted is not None and pod.deleted < now]
    if kept:
        return Waiting(
            f"{members(kept)} cannot be ended: {silent}",
            "backoff",
            unblock=(back, "its pods are deleted by force, if it is certainly off"),
        )
    there = [pod.member for pod in away if pod.node == away[0].node]
    is_there = f"{members(there)} {'is' if len(there) == 1 else 'are'} on it"
    return Waiting(f"{silent}, and {is_there}", "backoff", unblock=(back, "Kubernetes gives it up"))


def _is_away(node: Node | None) -> bool:
    return node is None or not node.is_ready


def starting(s: Situation, now: float) -> Waiting | None:
    """All of them have a node, and some do not run yet."""
    late = [pod for pod in s.pods.values() if pod.phase == "Pending" and pod.node]
    if not late or any(not pod.node and not pod.is_over for pod in s.pods.values()):
        return None
    said = _doing(s, late[0])
    more = f" ({len(late)} of {len(s.pods)} pods do not run yet)" if len(s.pods) > 1 else ""
    return Waiting(f"{late[0].member} starts on {late[0].node}{said}{more}", "about to start")


def _doing(s: Situation, pod: PodFacts) -> str:
    said = s.said("Pulling", "Pulled", of=pod.name)
    return ": its image is being pulled" if said is not None and said.reason == "Pulling" else ""


BEFORE: tuple[Case, ...] = (uncreated, unclaimed, gated)
AFTER: tuple[Case, ...] = (no_image, unmade, unmounted, no_sandbox, starting)
