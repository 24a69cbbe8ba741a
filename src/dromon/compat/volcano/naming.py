"""Names of Kubernetes as names of ours, which are shorter."""

import re


def label(name: str, limit: int, otherwise: str) -> str:
    """Small letters, digits and dashes, a letter first, no more than the limit."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").lstrip("0123456789-")
    return slug[:limit].rstrip("-") or otherwise


def distinct(names: list[str], limit: int, otherwise: str) -> dict[str, str]:
    """A name of ours for each, no two the same."""
    found: dict[str, str] = {}
    for name in names:
        ours, at = label(name, limit, otherwise), 1
        while ours in found.values():
            at += 1
            ours = f"{label(name, limit - 3, otherwise)}-{at}"
        found[name] = ours
    return found
