"""Where a job's pods may be, and who goes first: selectors, affinity, priority, queue. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from dromon.engines.gang import PRIORITIES
from dromon.engines.gang import priority as number_of
from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.target import Target
from dromon.errors import Refused
from dromon.spec import Resources, Role
from dromon.spec.words import nearest

HOST = "kubernetes.io/hostname"
NORMAL = "normal"  # what a job has that says nothing


def priority(asked: str | int, target: Target) -> tuple[int, str]:
    """The number, and the class: the one of that name, else the nearest that is not above.

    A job that says nothing has the class the site calls its default, whatever its number.
    """
    classes = {n: v for n, v in target.priority_classes.items() if not n.startswith("system-")}
    default = target.default_priority_class
    if isinstance(asked, str) and asked in classes:
        return classes[asked], asked
    if isinstance(asked, str) and asked not in PRIORITIES:
        known = [*PRIORITIES, *sorted(classes)]
        raise Refused(f"priority {asked!r} is no class of this cluster",
                      hint=f"Use a number, or one of {', '.join(known)}.")  # fmt: skip
    number = number_of(asked)
    below = [(value, name) for name, value in classes.items() if value <= number]
    if asked == NORMAL and default:
        return classes.get(default, number), default
    if below:
        value, name = max(below, key=lambda found: (found[0], found[1] == default, found[1]))
        return value, name
    return (classes.get(default, number), default) if default else (number, "")


def queue(asked: str, target: Target) -> str:
    if not target.volcano:
        if asked != "default":
            raise Refused(f"queue {asked}: there are no queues on a cluster without Volcano",
                          hint="Leave `queue:` out, or have Volcano installed.")  # fmt: skip
    elif target.queues and asked not in target.queues:
        close = nearest(asked, target.queues)
        raise Refused(
            f"there is no queue {asked} on this cluster",
            hint=f"Queues: {', '.join(target.queues)}{f'; {close}' if close else '.'}",
        )
    return asked


def placement(id: str, name: str, role: Role, target: Target) -> dict[str, Any]:
    """What a pod of this role says about nodes."""
    made: dict[str, Any] = {}
    affinity: dict[str, Any] = {}
    if role.node_label is not None:
        made["nodeSelector"] = _selector(name, role.node_label, target)
    if role.resources.gpu_kinds:
        kinds = {"key": target.gpu_kinds, "operator": "In",
                 "values": _products(name, role.resources, target)}  # fmt: skip
        terms = {"nodeSelectorTerms": [{"matchExpressions": [kinds]}]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if role.spread == "node":
        alike = {volcano.JOB_LABEL: id, volcano.ROLE_LABEL: name}
        term = {"labelSelector": {"matchLabels": alike}, "topologyKey": HOST}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if affinity:
        made["affinity"] = affinity
    if role.resources.gpu_count:
        taint = {"key": target.gpu_resource, "operator": "Exists", "effect": "NoSchedule"}
        made["tolerations"] = [taint]
    return made


def _selector(name: str, word: str, target: Target) -> Mapping[str, str]:
    if word in target.node_labels:
        return dict(target.node_labels[word])
    key, equals, value = word.partition("=")
    if equals:
        return {key: value}
    known = ", ".join(sorted(target.node_labels))
    raise Refused(
        f"roles.{name}.node_label: nothing says which nodes are {word}",
        hint=(f"Known here: {known}. " if known else "")
        + f"The context says so by --set label.{word}=KEY=VALUE.",
    )


def _products(name: str, resources: Resources, target: Target) -> list[str]:
    """The models that answer to a kind: `a100` is an NVIDIA-A100-SXM4-80GB, and others."""
    kinds = list(resources.gpu_kinds)
    if len(kinds) > 1:
        raise Refused(
            f"roles.{name}.resources.gpus: a pod gets GPUs of one kind, not of {len(kinds)}",
            hint="Give each kind a role of its own.",
        )
    kind = kinds[0]
    found = sorted(product for product in target.gpu_products if _answers(product, kind))
    if found or not target.gpu_products:
        return found or [kind]
    raise Refused(f"roles.{name}.resources.gpus: no node has GPUs of the kind {kind}",
                  hint=f"There are {', '.join(target.gpu_products)}.")  # fmt: skip


def _answers(product: str, kind: str) -> bool:
    """`a100`, `a100-80gb` and `rtx4090` by whole words of a label, so that `a10` is no A100."""
    words, wanted = _words(product), _words(kind)
    runs = {
        "".join(words[start:end])
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
    }
    return set(wanted) <= set(words) or "".join(wanted) in runs


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())
