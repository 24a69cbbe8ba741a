"""The identities of YARN as text and as messages: application, attempt, container, node.

A container's number holds the ResourceManager's epoch in its upper bits; it grows with every
restart of the ResourceManager, so an id is never rebuilt without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dromon.hadoop.faults import ProtocolError

_EPOCH_SHIFT = 40
_CONTAINER = re.compile(
    r"container_(?:e([0-9]{1,7})_)?([0-9]{1,18})_([0-9]{1,9})_([0-9]{1,9})_([0-9]{1,12})"
)
_APPLICATION = re.compile(r"application_([0-9]{1,18})_([0-9]{1,9})")


def application(message: Mapping[str, Any]) -> str:
    return f"application_{message['cluster_timestamp']}_{message['id']:04d}"


def attempt(message: Mapping[str, Any]) -> str:
    of = message["application_id"]
    return f"appattempt_{of['cluster_timestamp']}_{of['id']:04d}_{message['attempt_id']:06d}"


def container(message: Mapping[str, Any]) -> str:
    of = message["app_attempt_id"]
    app = of["application_id"]
    epoch, number = message["id"] >> _EPOCH_SHIFT, message["id"] & ((1 << _EPOCH_SHIFT) - 1)
    prefix = f"e{epoch:02d}_" if epoch > 0 else ""
    return (
        f"container_{prefix}{app['cluster_timestamp']}_{app['id']:04d}"
        f"_{of['attempt_id']:02d}_{number:06d}"
    )


def node(message: Mapping[str, Any]) -> str:
    return f"{message['host']}:{message['port']}"


def parse_application(text: str) -> dict[str, Any]:
    """``application_1700000000000_0007`` as a message (table APPLICATION_ID)."""
    match = _APPLICATION.fullmatch(text)
    if match is None:
        hint = "Like application_1700000000000_0007."
        raise ProtocolError(f"{text!r} is no application id", hint=hint)
    return {"cluster_timestamp": int(match[1]), "id": int(match[2])}


def parse_container(text: str) -> dict[str, Any]:
    """What CONTAINER_ID holds in a container, as a message (table CONTAINER_ID)."""
    match = _CONTAINER.fullmatch(text)
    if match is None:
        raise ProtocolError(
            f"{text!r} is no container id", hint="Like container_17000_0001_01_000001."
        )
    app = {"cluster_timestamp": int(match[2]), "id": int(match[3])}
    number = int(match[1] or 0) << _EPOCH_SHIFT | int(match[5])
    return {"app_attempt_id": {"application_id": app, "attempt_id": int(match[4])}, "id": number}
