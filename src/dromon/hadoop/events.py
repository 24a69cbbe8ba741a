"""What a connection reports: answers, and what the server says went wrong. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from dromon.hadoop.protobuf import Record


@dataclass(frozen=True)
class Reply:
    """A call's answer."""

    call_id: int
    method: str
    message: Record


@dataclass(frozen=True)
class RpcError:
    """The server refused one call; the connection goes on."""

    call_id: int
    method: str
    exception: str  # the Java class, in full
    text: str
    trace: str = ""
    detail: int = 0


@dataclass(frozen=True)
class Fatal:
    """The server gave up on the connection and says why. ``lost`` calls get no answer."""

    exception: str
    text: str
    trace: str = ""
    detail: int = 0
    lost: tuple[int, ...] = ()


@dataclass(frozen=True)
class Closed:
    """The connection is over. ``lost`` calls get no answer: if they were done is not known."""

    lost: tuple[int, ...] = ()


Event = Union[Reply, RpcError, Fatal, Closed]
