"""A packed request as the message that submits it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dromon.engines.yarn.am import launch
from dromon.hadoop import ids

TYPE = "DROMON"
TAG = "dromon:"
# Attempts of the master that failed longer ago are forgiven: a week's job may see several nodes go.
FORGIVEN = 3600 * 1000


def tag(id: str) -> str:
    return f"{TAG}{id}"


def id_of(tags: tuple[str, ...]) -> str:
    """The job an application is; "" when it is none of ours."""
    return next((t.removeprefix(TAG) for t in tags if t.startswith(TAG)), "")


def context(application: str, id: str, request: Mapping[str, Any], tokens: bytes) -> dict[str, Any]:
    """Table APPLICATION_SUBMISSION_CONTEXT. What a job says under `yarn.application` goes last."""
    master = request["master"]
    made: dict[str, Any] = {
        "application_id": ids.parse_application(application),
        "application_name": id,
        "application_type": TYPE,
        "application_tags": [tag(id)],
        "queue": request["queue"],
        "priority": {"priority": request["priority"]},
        "am_container_spec": launch.master(request, tokens, {}),
        "resource": {"memory": master["memory"], "virtual_cores": master["vcores"]},
        "max_app_attempts": master["attempts"],
        "attempt_failures_validity_interval": FORGIVEN,
        "keep_containers_across_application_attempts": True,
    }
    return _merged(made, request["application"])


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(known, value) if both else value  # type: ignore[arg-type]
    return merged
