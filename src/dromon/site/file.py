"""A site file's text -> a checked `Site`, or every problem at once, each with its place."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dromon.errors import JobFileError, Problem
from dromon.site.checking import checked
from dromon.site.consistency import rules
from dromon.site.model import Site
from dromon.spec.document import Document, read
from dromon.spec.sentences import Wrong
from dromon.spec.words import told

Judge = Callable[[Site], Iterable[Wrong]]


def load_site(text: str | bytes, file: str, *judges: Judge) -> Site:
    """Raises JobFileError with every problem in it. `judges` know what an engine asks beyond."""
    return judged(opened(text, file), *judges)


def opened(text: str | bytes, file: str) -> Document:
    """The text as a mapping. Raises JobFileError when it is none."""
    document = read(text, file)
    if not isinstance(document.data, dict):
        data = document.data
        found = "is empty" if data is None else f"expected keys and values, got {told(data)}"
        hint = "write for example queues: {research: {deserved: {gpus: 8}}}"
        raise JobFileError([Problem(file, 1, 1, "", found, hint)], hint="")
    return document


def judged(document: Document, *judges: Judge) -> Site:
    def every(site: Site) -> Iterator[Wrong]:
        for judge in (rules, *judges):
            yield from judge(site)

    return checked(Site, _long_form(document.data), document, every)


def _long_form(data: Mapping[str, Any]) -> dict[str, Any]:
    """`normal: 100` as `normal: {value: 100}`, `research:` with nothing as an empty mapping, and
    `admins: [ops]` as a group."""
    given = dict(data)
    if isinstance(classes := given.get("priorities"), dict):
        given["priorities"] = {
            name: value if isinstance(value, dict | None) else {"value": value}
            for name, value in classes.items()
        }
    for key in ("queues", "users"):
        if isinstance(parts := given.get(key), dict):
            given[key] = {name: {} if part is None else part for name, part in parts.items()}
    if isinstance(admins := given.get("admins"), list):
        given["admins"] = {"groups": admins}
    return {key: value for key, value in given.items() if value is not None}
