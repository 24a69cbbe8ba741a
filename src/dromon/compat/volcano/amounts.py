"""Amounts and times of Kubernetes as a job file writes them."""

import math

from dromon.engines.kubernetes.quantities import number

SIZES = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
SPANS = (("d", 86400), ("h", 3600), ("m", 60))
SMALLEST = 2**20  # less is no size in a job file


def size(quantity: object) -> str | None:
    """Of memory; None where a job file could not say it. Raises ValueError."""
    amount = math.ceil(number(quantity))
    if amount < SMALLEST:
        return None
    return next((f"{amount // n}{unit}" for unit, n in SIZES if amount % n == 0), f"{amount}B")


def cores(quantity: object) -> int | float:
    amount = round(number(quantity), 3)
    return int(amount) if amount == int(amount) else amount


def span(seconds: float) -> str:
    for unit, n in SPANS:
        if seconds and seconds % n == 0:
            return f"{seconds / n:g}{unit}"
    return f"{seconds:g}s"
