"""A file against a model of pydantic's: every problem at once, each with its place.

What `spec.check` does for job files, for models that are not the job file.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ValidationError

from dromon.errors import JobFileError, Problem
from dromon.spec.document import Document
from dromon.spec.keys import bare, is_part
from dromon.spec.model import Part
from dromon.spec.path import Path, shown, starts_with_any
from dromon.spec.sentences import Wrong, wrong_of
from dromon.spec.words import choice

Model = TypeVar("Model", bound=Part)
PASSES = 20  # each takes at least one wrong part out
# What a key was called once, or is called elsewhere.
SYNONYMS = {
    "share": "deserved", "cap": "limit", "capability": "limit", "max_capacity": "limit",
    "quota": "limit", "walltime": "max_duration", "time_limit": "max_duration", "acl": "submit",
    "from": "start", "to": "end", "until": "end",
}  # fmt: skip


def checked(
    model: type[Model],
    data: dict[str, Any],
    document: Document,
    rules: Callable[[Model], Iterable[Wrong]],
) -> Model:
    """Raises JobFileError with every problem there is."""
    wrongs: list[Wrong] = []
    removed: list[Path] = []
    for _ in range(PASSES):
        try:
            valid = model.model_validate(_without(data, (), removed))
        except ValidationError as error:
            gone = list(removed)
            for details in error.errors(include_url=False):
                wrong = _wrong(model, details, document)
                if wrong is None:
                    continue
                if not starts_with_any(wrong.path, gone):  # else it was taken out for a reason
                    wrongs.append(wrong)
                removed.append(wrong.path[:-1] if details["type"] == "missing" else wrong.path)
            continue
        wrongs += [w for w in rules(valid) if not _is_moot(w, removed)]
        break
    problems = list(document.problems)
    for each in wrongs:
        place = document.position(each.path, at_key=each.at_key)
        problems.append(
            Problem(document.file, *place, shown(each.path), each.text, each.suggestion)
        )
    if problems:
        raise JobFileError(sorted(problems, key=lambda p: (p.line, p.column)), hint="")
    return valid


def _wrong(model: type[Part], details: Any, document: Document) -> Wrong | None:
    path: Path = details["loc"]
    if details["type"] == "extra_forbidden":
        known = _keys(model, path[:-1])
        meant = SYNONYMS.get(str(path[-1]), "")
        hint = f"did you mean {meant}?" if meant in known else choice(path[-1], known)
        return Wrong(path, "unknown key", hint, at_key=True)
    node = document.find(path)
    return wrong_of(details, node.raw if node is not None else None)


def _keys(model: Any, path: Path) -> list[str]:
    for key in path:
        if is_part(model):
            model = bare(model.model_fields[str(key)].annotation)[0]
        elif get_origin(model) in (dict, list):
            model = bare(get_args(model)[-1])[0]
    return list(model.model_fields) if is_part(model) else []


def _without(data: Any, path: Path, removed: list[Path]) -> Any:
    if not isinstance(data, dict):
        return data
    return {
        key: _without(value, (*path, key), removed)
        for key, value in data.items()
        if (*path, key) not in removed
    }


def _is_moot(wrong: Wrong, removed: list[Path]) -> bool:
    """Whether it may come only from what was left out."""
    return any(
        starts_with_any(path, removed) or any(starts_with_any(gone, [path]) for gone in removed)
        for path in (wrong.path, *wrong.about)
    )
