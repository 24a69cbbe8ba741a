"""What differs between two jobs, as a flat list of places. Plain data in, plain data out."""

from collections.abc import Iterator, Mapping
from typing import Any

ABSENT = None


def flatten(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """("config.training.lr", 0.1) for every leaf. An empty mapping is a leaf."""
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from flatten(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, data


def difference(a: Any, b: Any) -> list[dict[str, Any]]:
    left, right = dict(flatten(a)), dict(flatten(b))
    places = list(dict.fromkeys([*left, *right]))
    return [
        {"path": place, "a": left.get(place, ABSENT), "b": right.get(place, ABSENT)}
        for place in places
        if left.get(place, ABSENT) != right.get(place, ABSENT)
    ]


def lines(a: str, b: str) -> list[dict[str, Any]]:
    """Lines only one of two texts has: a lock, for example."""
    left, right = a.splitlines(), b.splitlines()
    gone = [{"path": line, "a": line, "b": ABSENT} for line in left if line not in set(right)]
    new = [{"path": line, "a": ABSENT, "b": line} for line in right if line not in set(left)]
    return gone + new
