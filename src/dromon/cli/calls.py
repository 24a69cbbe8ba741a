"""The shape of `dromon.api` as the commands use it. For the type checker; nothing imports it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from dromon.engines.base import JobStatus, LogLine, Node, Waiting
from dromon.errors import Problem


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


class Api(Protocol):
    def start(
        self,
        *,
        file: str | None = None,
        command: list[str] | str | None = None,
        overrides: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        on: str = "local",
        supplied: Mapping[str, str] | None = None,
    ) -> Accepted: ...
    def jobs(
        self, *, all: bool = False, limit: int | None = None, on: str = "local"
    ) -> Sequence[JobStatus]: ...
    def status(self, ref: str) -> JobStatus: ...
    def watch(self, ref: str) -> Iterator[JobStatus]: ...
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
    ) -> Iterator[LogLine]: ...
    def why(self, ref: str) -> Waiting | None: ...
    def stop(self, refs: Sequence[str], *, grace: float | None = None) -> Sequence[str]: ...
    def show(self, ref: str) -> dict[str, Any]: ...
    def rerun(
        self, ref: str, *, overrides: Sequence[str] = (), supplied: Mapping[str, str] | None = None
    ) -> Accepted: ...
    def diff(self, a: str, b: str) -> list[dict[str, Any]]: ...
    def remove(self, refs: Sequence[str]) -> Sequence[str]: ...
    def gc(self, *, older_than: float | None = None, dry_run: bool = False) -> dict[str, Any]: ...
    def nodes(self, on: str = "local") -> Sequence[Node]: ...
    def check(self, file: str, overrides: Sequence[str] = ()) -> Sequence[Problem]: ...
    def plan(
        self,
        *,
        file: str | None = None,
        command: list[str] | str | None = None,
        overrides: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        on: Sequence[str] = ("local",),
        supplied: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]: ...
    def daemon(
        self, action: str, *, stay: bool = False, fake_gpus: int = 0
    ) -> dict[str, Any]: ...
    def daemon_log(self) -> str: ...
