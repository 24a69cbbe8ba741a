"""Text or data -> a checked job, or every problem at once, each with its place.

A job without problems is validated once. Only when something is wrong, the wrong parts are taken
out and what is left is looked at again, so that one problem does not hide another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dromon.errors import JobFileError, Problem
from dromon.spec import override
from dromon.spec.document import Document, read
from dromon.spec.keys import ROLE
from dromon.spec.model import Job
from dromon.spec.path import Path, shown, starts_with_any
from dromon.spec.rules import broken
from dromon.spec.sentences import Wrong, wrong_of
from dromon.spec.shape import long_form, with_implied_roles
from dromon.spec.words import told

PASSES = 20  # each takes at least one wrong part out
MOST = 100  # problems told at once; a file with more is no job file


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the data came from: which line, if a file; which paths were overridden."""

    file: str
    document: Document | None = None
    is_short: bool = False
    overridden: tuple[Path, ...] = ()

    def problem(self, wrong: Wrong) -> Problem:
        path = self._as_written(wrong.path)
        text = shown(path)
        if self._is_overridden(wrong.path):
            return Problem(override.FILE, 0, 0, text, wrong.text, wrong.suggestion)
        line, column = (0, 0)
        if self.document is not None:
            line, column = self.document.position(path, at_key=wrong.at_key)
        return Problem(self.file, line, column, text, wrong.text, wrong.suggestion)

    def _is_overridden(self, path: Path) -> bool:
        if not self.overridden:
            return False
        if starts_with_any(path, self.overridden):
            return True
        # A key that only the override brought in: `resorces.cpus=2`.
        in_file = self.document is not None and self.document.find(self._as_written(path))
        return not in_file and any(starts_with_any(other, [path]) for other in self.overridden)

    def raw(self, path: Path) -> str | None:
        """How a plain scalar looks in the file."""
        if self.document is None or starts_with_any(path, self.overridden):
            return None
        node = self.document.find(self._as_written(path))
        return node.raw if node is not None else None

    def _as_written(self, path: Path) -> Path:
        return path[2:] if self.is_short and path[:2] == ("roles", ROLE) else path


def load_text(text: str | bytes, file: str, overrides: Sequence[str] = ()) -> Job:
    """A job file. Raises JobFileError with every problem in it."""
    document = read(text, file)
    data = document.data
    if data is None:
        raise _refusal(file, "is empty", "a job needs at least a command: python train.py")
    if not isinstance(data, dict):
        raise _refusal(file, f"expected keys and values at the top, got {told(data)}",
                       "write for example command: python train.py")  # fmt: skip
    return _checked(data, file, document, overrides)


def load_data(
    data: Mapping[str, Any], source: str = "request", overrides: Sequence[str] = ()
) -> Job:
    """The same for data that is no text any more."""
    if not isinstance(data, Mapping):
        raise JobFileError([Problem(source, 0, 0, "", f"expected a mapping, got {told(data)}")])
    return _checked(data, source, None, overrides)


def _refusal(file: str, text: str, suggestion: str) -> JobFileError:
    return JobFileError([Problem(file, 1, 1, "", text, suggestion)])


def _checked(
    data: Mapping[str, Any], file: str, document: Document | None, overrides: Sequence[str]
) -> Job:
    job, is_short, wrongs = long_form(data)
    origin = Origin(file, document, is_short)
    problems = list(document.problems) if document is not None else []
    if overrides:
        job, paths, refused = override.apply(job, overrides)
        origin = Origin(file, document, is_short, tuple(paths))
        problems += [_of_override(wrong) for wrong in refused]
    job = with_implied_roles(job)
    try:
        valid = Job.model_validate(job)
    except ValidationError as error:
        wrongs += _all_wrongs(job, error, origin)
    else:
        wrongs += broken(valid)
        if not wrongs and not problems:
            return valid
    problems += [origin.problem(wrong) for wrong in wrongs]
    problems.sort(key=lambda problem: (problem.line == 0, problem.line, problem.column))
    if len(problems) > MOST:
        problems[MOST:] = [Problem(file, 0, 0, "", "has more problems than these")]
    raise JobFileError(problems)


def _of_override(wrong: Wrong) -> Problem:
    return Problem(override.FILE, 0, 0, shown(wrong.path), wrong.text, wrong.suggestion)


def _all_wrongs(job: dict[str, Any], error: ValidationError, origin: Origin) -> list[Wrong]:
    wrongs: list[Wrong] = []
    removed: list[Path] = []
    for _ in range(PASSES):
        gone: list[Path] = []
        for details in error.errors(include_url=False):
            wrong = wrong_of(details, origin.raw(details["loc"]))
            if wrong is None:
                continue
            gone.append(_part_of(wrong, details["type"]))
            if not _is_moot(wrong, removed):
                wrongs.append(wrong)
            if len(wrongs) > MOST:
                return wrongs
        removed += gone
        job = _without(job, (), removed)
        job.setdefault("roles", {})
        try:
            valid = Job.model_validate(job)
        except ValidationError as next_error:
            error = next_error
        else:
            return wrongs + [wrong for wrong in broken(valid) if not _is_moot(wrong, removed)]
    return wrongs


def _part_of(wrong: Wrong, kind: str) -> Path:
    """What to leave out. A list goes as a whole: its other items keep their numbers that way."""
    if kind == "missing":
        return wrong.path[:-1]
    numbers = [at for at, key in enumerate(wrong.path) if at and isinstance(key, int)]
    return wrong.path[: numbers[0]] if numbers else wrong.path


def _without(data: Any, path: Path, removed: list[Path]) -> Any:
    if not any(gone[: len(path)] == path for gone in removed):
        return data
    if isinstance(data, dict):
        return {
            key: _without(value, (*path, key), removed)
            for key, value in data.items()
            if (*path, key) not in removed
        }
    return data


def _is_moot(wrong: Wrong, removed: list[Path]) -> bool:
    """Whether it may come only from what was left out."""
    if any(starts_with_any(path, removed) for path in (wrong.path, *wrong.about)):
        return True
    return not wrong.at_key and any(starts_with_any(path, [wrong.path]) for path in removed)
