"""Where a value stands: a tuple of keys and list indexes, and how messages write it."""

from collections.abc import Sequence

Key = str | int
Path = tuple[Key, ...]


def shown(path: Sequence[Key]) -> str:
    """`roles.worker.command[2]`; on one line whatever the keys are."""
    text = ""
    for key in path:
        if not isinstance(key, str):
            text += f"[{key}]"
        else:
            name = clipped(key) if key.isprintable() and key else repr(clipped(key))
            text += f".{name}" if text else name
    return text


def clipped(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def starts_with_any(path: Path, others: Sequence[Path]) -> bool:
    return any(path[: len(other)] == other for other in others)
