"""Short form -> long form, and the roles a framework brings along. Copies only what it changes."""

from collections.abc import Mapping
from typing import Any

from dromon import frameworks
from dromon.spec.keys import ROLE, SHORT_KEYS
from dromon.spec.sentences import Wrong


def long_form(data: Mapping[str, Any]) -> tuple[dict[str, Any], bool, list[Wrong]]:
    """The data in its long form, whether it was short, and what is wrong about that."""
    if "roles" in data:
        if SHORT_KEYS.isdisjoint(data):
            return dict(data), False, []
        stray = [key for key in data if key in SHORT_KEYS]
        wrongs = [
            Wrong((key,), "cannot stand beside roles", "move it into a role", at_key=True)
            for key in stray
        ]
        return {key: data[key] for key in data if key not in SHORT_KEYS}, False, wrongs
    job: dict[str, Any] = {}
    role: dict[str, Any] = {}
    for key, value in data.items():
        (role if key in SHORT_KEYS else job)[key] = value
    job["roles"] = {ROLE: role}
    return job, True, []


def with_implied_roles(job: dict[str, Any]) -> dict[str, Any]:
    """The roles that a framework cannot do without, and the commands it runs them with."""
    framework, roles = job.get("framework"), job.get("roles")
    if framework is None or not isinstance(framework, str) or not isinstance(roles, dict):
        return job
    implied = frameworks.IMPLIED.get(framework)
    if not implied:
        return job
    whole = dict(roles)
    for name, given in implied.items():
        role = roles.get(name)
        if role is None and name not in roles:
            whole[name] = {
                "replicas": given["replicas"],
                "command": given["command"],
                "resources": {"cpus": given["cpus"]},
            }
        elif isinstance(role, dict) and "command" not in role:
            whole[name] = {**role, "command": given["command"]}
    return {**job, "roles": whole}
