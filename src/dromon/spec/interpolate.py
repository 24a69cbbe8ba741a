"""`${config.…}`, `${job.…}` and `${volumes.…}` in texts. Any other `${X}` is the shell's.

`$${` stands for `${`. A text that is one placeholder and nothing else takes the value as it is,
so a number in `config` stays a number where another key of `config` refers to it.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dromon.spec.path import Path
from dromon.spec.values import DEPTH_LIMIT
from dromon.spec.words import closest, nearest

FACTS = ("id", "name", "queue", "framework", "priority")  # what `${job.…}` knows
BUDGET = 50_000  # values and pieces of text one job may grow to
MOST = 100  # problems worth collecting
PIECE = 100  # characters to a piece

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(config|job|volumes)\.([^}]*)(\}?)")
_VOLUME = re.compile(r"\$\$\{(?=volumes\.)|\$\{volumes\.([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Unfilled:
    """A placeholder that cannot be filled in, and the path it would have been filled from."""

    text: str
    suggestion: str = ""
    about: Path = ()
    loop: frozenset[Path] = frozenset()
    is_limit: bool = False  # too big or too deep: nothing more can be said


def volume_paths(text: str, paths: Mapping[str, str]) -> str:
    """Fills in what `resolve` left for the node: the volumes. Unknown ones stay as they are."""
    if "${" not in text:
        return text

    def put(found: re.Match[str]) -> str:
        name = found.group(1)
        return "${" if name is None else paths.get(name, found.group(0))

    return _VOLUME.sub(put, text)


@dataclass(slots=True)
class Filler:
    """Fills texts in from one job. Collects what it cannot fill instead of stopping there."""

    config: Mapping[str, Any]
    facts: Mapping[str, str]
    volumes: Mapping[str, str] | None  # None: they stay for the node to fill in
    known_volumes: frozenset[str]
    unfilled: list[Unfilled] = field(default_factory=list)
    _chain: list[Path] = field(default_factory=list)
    _budget: int = BUDGET
    _depth: int = 0
    _inside: int = 0  # references being followed

    def text(self, text: str) -> str:
        """For commands, variables and paths: always a text."""
        value = self.value(text)
        return value if isinstance(value, str) else as_text(value)

    def value(self, text: str) -> Any:
        """For `config`: a lone placeholder keeps the kind of what it stands for."""
        if "${" not in text:
            return text
        lone = _PLACEHOLDER.fullmatch(text)
        if lone and lone.group(1) == "config" and lone.group(3):
            return self._replacement(lone)
        filled = _PLACEHOLDER.sub(lambda found: as_text(self._replacement(found)), text)
        self._spend(len(filled) // PIECE)
        return filled

    def tree(self, value: Any, path: Path = ()) -> Any:
        """A value of `config` with every text in it filled in; `path` is where it stands there."""
        if self._inside:  # the job's own size is its own affair; what is copied is counted
            self._spend(1)
        if self._budget < 0 or not isinstance(value, (str, dict, list)):
            return value
        if self._depth >= DEPTH_LIMIT:
            self._fail(Unfilled(f"leads more than {DEPTH_LIMIT} deep", is_limit=True))
            return value
        self._depth += 1
        try:
            if isinstance(value, dict):
                return {key: self.tree(item, (*path, key)) for key, item in value.items()}
            if isinstance(value, list):
                return [self.tree(item, (*path, at)) for at, item in enumerate(value)]
            return self._linked(value, path) if "${" in value else value
        finally:
            self._depth -= 1

    def leaf(self, text: str, path: Path) -> Any:
        """One text of `config` alone, as `tree` would meet it."""
        self._depth = len(path)
        try:
            return self.tree(text, path)
        finally:
            self._depth = 0

    def _linked(self, text: str, path: Path) -> Any:
        if path in self._chain:
            loop = [*self._chain[self._chain.index(path) :], path]
            names = " -> ".join(_name(step) for step in loop)
            self._fail(Unfilled(f"goes round in a circle: {names}", loop=frozenset(loop)))
            return text
        self._chain.append(path)
        try:
            return self.value(text)
        finally:
            self._chain.pop()

    def _replacement(self, found: re.Match[str]) -> Any:
        room, name, closed = found.groups()
        if len(self.unfilled) >= MOST:
            return found.group(0)
        if room is None:
            after = found.string[found.end() :]
            # The node's turn comes later, so an escaped volume must stay escaped until then.
            return "$${" if self.volumes is None and after.startswith("volumes.") else "${"
        if not closed:
            self._fail(Unfilled(f"${{{room}.… is never closed", "write $${ for a plain ${"))
            return found.group(0)
        return _ROOMS[room](self, name, found.group(0))

    def _config(self, name: str, placeholder: str) -> Any:
        value: Any = self.config
        path: list[str | int] = []
        rest = name.split(".")
        while rest:
            step = _step(value, rest)
            if step is None:
                known = value if isinstance(value, dict) else ()
                close = closest(rest[0], known)
                meant = ".".join(map(str, ["config", *path, close, *rest[1:]]))
                hint = f"did you mean ${{{meant}}}?" if close else ""
                about = ("config", *path, rest[0])
                self._fail(Unfilled(f"{placeholder} is not in config", hint, about))
                return placeholder
            key, used = step
            value = value[key]
            path.append(key)
            rest = rest[used:]
        self._inside += 1
        try:
            return self.tree(value, tuple(path))
        finally:
            self._inside -= 1

    def _job(self, name: str, placeholder: str) -> Any:
        if name in self.facts:
            return self.facts[name]
        known = [f"${{job.{fact}}}" for fact in FACTS]
        hint = nearest(placeholder, known) or f"one of {', '.join(known)}"
        self._fail(Unfilled(f"{placeholder} is not known", hint))
        return placeholder

    def _volume(self, name: str, placeholder: str) -> Any:
        if name not in self.known_volumes:
            known = [f"${{volumes.{volume}}}" for volume in sorted(self.known_volumes)]
            hint = nearest(placeholder, known) or f"name {name} under volumes:"
            about: Path = ("volumes", name)
            self._fail(Unfilled(f"{placeholder} is not one of the volumes", hint, about))
            return placeholder
        return placeholder if self.volumes is None else self.volumes.get(name, placeholder)

    def _spend(self, amount: int) -> None:
        before, self._budget = self._budget, self._budget - amount
        if self._budget < 0 <= before:
            self._fail(Unfilled("grows too big once its ${…} are filled in", is_limit=True))

    def _fail(self, problem: Unfilled) -> None:
        if len(self.unfilled) < MOST and problem not in self.unfilled:
            self.unfilled.append(problem)


_ROOMS: dict[str, Callable[[Filler, str, str], Any]] = {
    "config": Filler._config, "job": Filler._job, "volumes": Filler._volume,
}  # fmt: skip


def _step(value: Any, rest: list[str]) -> tuple[str | int, int] | None:
    """The key that leads on, and how many names it takes: a key may have dots in it."""
    if isinstance(value, dict):
        for used in range(1, len(rest) + 1):
            key = ".".join(rest[:used])
            if key in value:
                return key, used
    elif isinstance(value, list) and rest[0].isdecimal() and int(rest[0]) < len(value):
        return int(rest[0]), 1
    return None


def as_text(value: Any) -> str:
    """A value of `config` in a text: words as they are, the rest as JSON without spaces."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _name(path: Path) -> str:
    return ".".join(["config", *map(str, path)])
