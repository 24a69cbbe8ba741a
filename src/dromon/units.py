"""Sizes and durations as people write them: "16GiB", "2h". LIGHT: standard library only."""

import re
from typing import Union

SIZES = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip
DURATIONS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

# Compiled by `re` when first used: most commands only format, and would wait for it.
_SIZE = r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*$"
_DURATION = r"([0-9]+(?:\.[0-9]+)?)\s*(ms|[smhdw])\s*"


def parse_size(text: Union[str, int]) -> int:
    """Bytes. Raises ValueError with a sentence fit for the user."""
    if isinstance(text, bool):
        raise ValueError("expected a size such as 16GiB")
    if isinstance(text, int):
        if text < 0:
            raise ValueError("a size cannot be negative")
        return text
    found = re.match(_SIZE, text)
    if not found or found.group(2).lower() not in SIZES:
        raise ValueError(f"{text!r} is not a size; write for example 512MiB or 16GiB")
    return int(float(found.group(1)) * SIZES[found.group(2).lower()])


def parse_duration(text: Union[str, int, float]) -> float:
    """Seconds. Raises ValueError with a sentence fit for the user."""
    if isinstance(text, bool):
        raise ValueError("expected a duration such as 90s or 2h")
    if isinstance(text, (int, float)):
        if text < 0:
            raise ValueError("a duration cannot be negative")
        return float(text)
    rest = text.strip().lower()
    total, end = 0.0, 0
    for found in re.finditer(_DURATION, rest):
        if found.start() != end:
            break
        total += float(found.group(1)) * DURATIONS[found.group(2)]
        end = found.end()
    if not rest or end != len(rest):
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 10m, 2h or 1h30m")
    return total


def format_size(size: float) -> str:
    """Three significant figures at most: 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def counted(number: float, word: str) -> str:
    """ "1 job", "2 jobs", "0.5 GPUs"."""
    return f"{number:g} {word}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """As short as it stays clear: 42s, 3m12s, 2h05m, 4d3h."""
    if seconds < 0:
        return "0s"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"
