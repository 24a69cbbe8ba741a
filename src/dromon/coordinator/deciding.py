"""What a job's deciding process is to the parts that are the same on every cluster. Types only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dromon.agent.frames import Message
from dromon.coordinator.coordinator import Coordinator
from dromon.lifecycle import events as ev
from dromon.lifecycle.gang import Gang


class Deciding(Protocol):
    """The one thread that decides for a gang; `post` alone may be called from any other."""

    request: Mapping[str, Any]
    gang: Gang
    coordinator: Coordinator

    def now(self) -> float: ...
    def post(self, call: Callable[[], None]) -> None: ...
    def happen(self, event: ev.Event) -> None: ...
    def after_keeping(self, call: Callable[[], None]) -> None:
        """Do it once all that has happened so far is in the journal."""
        ...

    def send(self, peer: int, message: Message) -> None: ...
    def has_place(self, member: str) -> bool:
        """Whether an agent that is gone may come back."""
        ...

    def read_log(
        self, member: str, name: str, offset: int, answer: Callable[[Message | None], None]
    ) -> None: ...
    def status(self) -> dict[str, Any]: ...
