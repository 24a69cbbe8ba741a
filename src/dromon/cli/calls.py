"""The shape of `dromon.api` as the commands use it. For the type checker; nothing imports it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from dromon.contexts.file import Context, Contexts
from dromon.engines.base import JobStatus, LogLine, Node, Progress, Queue, Waiting
from dromon.errors import Problem
from dromon.places import Listing


class Accepted(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def state(self) -> str: ...
    @property
    def created(self) -> bool: ...
    @property
    def on(self) -> str: ...
    @property
    def links(self) -> Mapping[str, str]: ...
    @property
    def is_known(self) -> bool: ...


class Api(Protocol):
    def start(
        self,
        *,
        file: str | None = None,
        command: list[str] | str | None = None,
        overrides: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        on: str | None = None,
        supplied: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Accepted: ...
    def jobs(
        self, *, all: bool = False, limit: int | None = None, on: str | None = None
    ) -> Listing: ...
    def status(self, ref: str, *, on: str | None = None) -> JobStatus: ...
    def attach(self, ref: str, *, on: str | None = None) -> JobStatus: ...
    def watch(self, ref: str, *, on: str | None = None) -> Iterator[JobStatus]: ...
    def logs(
        self,
        ref: str,
        *,
        follow: bool = False,
        ranks: Sequence[int] | None = None,
        members: Sequence[str] | None = None,
        since: float | None = None,
        tail: int | None = None,
        all_runs: bool = False,
        on: str | None = None,
    ) -> Iterator[LogLine]: ...
    def why(self, ref: str, *, on: str | None = None) -> Waiting | None: ...
    def stop(
        self, refs: Sequence[str], *, grace: float | None = None, on: str | None = None
    ) -> Sequence[str]: ...
    def show(self, ref: str, *, on: str | None = None) -> dict[str, Any]: ...
    def rerun(
        self,
        ref: str,
        *,
        overrides: Sequence[str] = (),
        supplied: Mapping[str, str] | None = None,
        on: str | None = None,
        progress: Progress | None = None,
    ) -> Accepted: ...
    def diff(self, a: str, b: str, *, on: str | None = None) -> list[dict[str, Any]]: ...
    def remove(self, refs: Sequence[str], *, on: str | None = None) -> Sequence[str]: ...
    def gc(
        self, *, older_than: float | None = None, dry_run: bool = False, on: str | None = None
    ) -> dict[str, Any]: ...
    def nodes(self, on: str | None = None) -> Sequence[Node]: ...
    def queues(self, on: str | None = None) -> Sequence[Queue]: ...
    def tend(self, on: str | None = None) -> Sequence[str]: ...
    def check(self, file: str, overrides: Sequence[str] = ()) -> Sequence[Problem]: ...
    def plan(
        self,
        *,
        file: str | None = None,
        command: list[str] | str | None = None,
        overrides: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        on: Sequence[str] | None = None,
        supplied: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]: ...
    def daemon(self, action: str, *, stay: bool = False, fake_gpus: int = 0) -> dict[str, Any]: ...
    def daemon_log(self) -> str: ...
    def contexts(self) -> Contexts: ...
    def add_context(
        self,
        name: str,
        kind: str,
        where: str,
        *,
        settings: Mapping[str, str] | None = None,
        default: bool = False,
        check: bool = True,
    ) -> tuple[Context, Mapping[str, Any]]: ...
    def remove_context(self, name: str) -> None: ...
    def use_context(self, name: str) -> None: ...
