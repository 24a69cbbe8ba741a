"""A Hadoop token: who may do what, and the proof of it. Data only; ``credentials`` stores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

AM_RM = "YARN_AM_RM_TOKEN"
NODE_MANAGER = "NMToken"
CONTAINER = "ContainerToken"
RM_DELEGATION = "RM_DELEGATION_TOKEN"
HDFS_DELEGATION = "HDFS_DELEGATION_TOKEN"


@dataclass(frozen=True)
class Token:
    """``service`` may be empty, and is for the AMRMToken: choose tokens by kind, not by service."""

    identifier: bytes
    password: bytes = field(repr=False)  # never in a log, a traceback or a `show`
    kind: str
    service: str = ""

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Token:
        """The token as a message carried it (table TOKEN of ``messages.security``)."""
        return cls(
            identifier=message["identifier"],
            password=message["password"],
            kind=message["kind"],
            service=message["service"],
        )

    def to_message(self) -> dict[str, Any]:
        return {
            "identifier": self.identifier,
            "password": self.password,
            "kind": self.kind,
            "service": self.service,
        }
