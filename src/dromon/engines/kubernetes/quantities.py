"""Amounts as Kubernetes writes them ("500m", "16Gi"), as numbers, and in words. Pure.

A vector is a mapping from a resource's name ("cpu", "memory", "nvidia.com/gpu") to a number in
its base unit: cores, bytes, pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dromon.units import format_size

Vector = Mapping[str, float]

_FACTORS = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
CLOSE = 1e-9  # of what is compared: sums of tenths are not exact
_BYTES = frozenset({"memory", "ephemeral-storage", "storage"})


def number(quantity: Any) -> float:
    """Raises ValueError if it is no quantity."""
    if isinstance(quantity, (int, float)) and not isinstance(quantity, bool):
        return float(quantity)
    text = str(quantity).strip()
    try:
        return float(text)  # "1e3" and "1E3" are a thousand; "1E" is an exa
    except ValueError:
        digits = text.rstrip("numkKMGTPEi")
        factor = _FACTORS.get(text[len(digits) :])
        if factor is None or not digits:
            raise ValueError(f"{text!r} is not a quantity") from None
        try:
            return float(digits) * factor
        except ValueError:
            raise ValueError(f"{text!r} is not a quantity") from None


def quantity(amount: float) -> str:
    """The shortest exact way to write it, down to thousandths."""
    if amount != int(amount):
        return f"{round(amount * 1000)}m"
    whole = int(amount)
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if whole and whole % int(_FACTORS[unit]) == 0:
            return f"{whole // int(_FACTORS[unit])}{unit}"
    return str(whole)


def vector(quantities: Any) -> dict[str, float]:
    """Of {"cpu": "500m"}; what nobody can read is left out, for it limits nothing."""
    found = {}
    for kind, given in (quantities or {}).items():
        try:
            found[kind] = number(given)
        except ValueError:
            continue
    return found


def total(vectors: Iterable[Vector]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in vectors:
        for kind, amount in one.items():
            found[kind] = found.get(kind, 0.0) + amount
    return found


def less(have: Vector, taken: Vector) -> dict[str, float]:
    """What is left of the kinds there are; never less than nothing."""
    return {kind: max(0.0, amount - taken.get(kind, 0.0)) for kind, amount in have.items()}


def times(one: Vector, count: int) -> dict[str, float]:
    return {kind: amount * count for kind, amount in one.items()}


def short(want: Vector, have: Vector, *, absent: float = 0.0) -> dict[str, float]:
    """How much is missing of what; `absent` is what there is of a kind `have` does not know."""
    missing = {}
    for kind, amount in want.items():
        there = have.get(kind, absent)
        if amount - there > CLOSE * max(1.0, abs(amount)):
            missing[kind] = amount - there
    return missing


def fits(want: Vector, have: Vector) -> bool:
    return not short(want, have)


def asked(spec: Mapping[str, Any]) -> dict[str, float]:
    """What the scheduler reserves for a pod: its containers together, or the largest step before
    them, whichever is more."""
    running = total(_container(c) for c in spec.get("containers") or ())
    peak: dict[str, float] = {}
    for container in spec.get("initContainers") or ():
        own = _container(container)
        if container.get("restartPolicy") == "Always":  # a sidecar stays beside all that follow
            running = total((running, own))
        else:
            for kind, amount in own.items():
                peak[kind] = max(peak.get(kind, 0.0), amount)
    most = {k: max(running.get(k, 0.0), peak.get(k, 0.0)) for k in {**running, **peak}}
    found = total((most, vector(spec.get("overhead"))))
    return {kind: amount for kind, amount in found.items() if amount}


def _container(container: Mapping[str, Any]) -> dict[str, float]:
    resources = container.get("resources") or {}
    return {**vector(resources.get("limits")), **vector(resources.get("requests"))}


# --- in words


def is_gpu(kind: str) -> bool:
    return kind.endswith("/gpu")


def told(amounts: Vector, kinds: Iterable[str] | None = None) -> str:
    """ "4 GPUs, 2 CPUs and 16 GiB of memory", the rare kinds first."""
    wanted = amounts if kinds is None else [kind for kind in kinds if kind in amounts]
    order = sorted(wanted, key=lambda kind: (not is_gpu(kind), kind in ("cpu", "memory"), kind))
    parts = [piece(kind, amounts[kind]) for kind in order]
    if len(parts) < 2:
        return parts[0] if parts else "nothing"
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def piece(kind: str, amount: float) -> str:
    if kind in _BYTES:
        name = "memory" if kind == "memory" else "disk"
        return f"{format_size(amount)} of {name}"
    count = f"{round(amount, 3):g}"
    s = "" if count == "1" else "s"
    if is_gpu(kind):
        return f"{count} GPU{s}"
    if kind == "cpu":
        return f"{count} CPU{s}"
    if kind == "pods":
        return f"{count} pod{s}"
    return f"{count} {kind}"
