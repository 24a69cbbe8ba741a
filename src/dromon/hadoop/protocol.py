"""An RPC protocol: the name a server knows it by, and the messages of each of its methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dromon.hadoop.faults import LocalProtocolError
from dromon.hadoop.protobuf import Table


class Method(NamedTuple):
    request: Table
    response: Table


class Protocol:
    def __init__(
        self, name: str, methods: Mapping[str, tuple[Table, Table]], version: int = 1
    ) -> None:
        self.name = name
        self.version = version
        self.methods = {name: Method(*tables) for name, tables in methods.items()}

    def method(self, name: str) -> Method:
        found = self.methods.get(name)
        if found is None:
            raise LocalProtocolError(f"{self.name} has no method {name!r}")
        return found

    def __repr__(self) -> str:
        return f"<{self.name}>"
