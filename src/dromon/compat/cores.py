"""Jobs written for a cluster, tried on one machine."""

import math
from typing import Any


def share(roles: dict[str, Any], cores: int) -> bool:
    """Fit the CPUs asked for by all members into this machine's cores. Whether that was needed."""
    wanted = sum(role.get("replicas", 1) * role["resources"]["cpus"] for role in roles.values())
    if wanted <= cores:
        return False
    for role in roles.values():
        part = role["resources"]["cpus"] * cores / wanted
        role["resources"]["cpus"] = max(math.floor(part * 100), 1) / 100
    return True
